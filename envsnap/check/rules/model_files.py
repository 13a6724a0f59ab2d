"""A model that the command names is not on this disk, or not whole.

A missing one is downloaded first, or the start fails after minutes; of a broken download, weight files are links that
lead nowhere. Fix: `hf download MODEL` beforehand; check the path and HF_HOME.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem
from envsnap.check.rules._models import instance_of, is_local, is_missing, models_at_hand
from envsnap.keys import path_of
from envsnap.reading import Unavailable, Why

CODE = "model_files"
SEVERITY = ERROR
NEEDS = ("model[].path",)
USES = ("model[].revision", "model[].weights_bytes", "model[].config")
ABSENCE_IS_JUDGED = True


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for _, given, revision in models_at_hand(facts):
        name = instance_of(facts, given, revision)
        if name is None or is_missing(facts, given, revision):
            yield _missing(given, revision)
            continue
        path = path_of("model[].weights_bytes", name)
        reading = facts.reading(path)
        dummy = facts.wanted.option("load_format") == "dummy"
        if isinstance(reading, Unavailable) and reading.why is Why.ABSENT and not dummy:
            yield Problem(f"{given} is not whole: {reading.detail}", (path,), "Download it again.")


def _missing(given: str, revision: str) -> Problem:
    path = (path_of("model[].path", given),)
    if is_local(given):
        return Problem(f"{given} is not here", path)
    what, how = (f" in its revision {revision}", f" --revision {revision}") if revision else ("", "")
    text = f"{given} is not on this disk{what}; the start would download it"
    return Problem(text, path, f"hf download {given}{how}", WARNING)
