"""A model that the command names is not on this disk, or not whole.

A missing one is downloaded first, or the start fails after minutes; of a broken download, weight files are links that
lead nowhere. Fix: `hf download MODEL` beforehand; check the path and HF_HOME.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem
from envsnap.check.rules._models import instance_of, is_local, is_missing, models_at_hand
from envsnap.collectors._model_names import Named
from envsnap.keys import path_of
from envsnap.reading import Unavailable, Why

CODE = "model_files"
SEVERITY = ERROR
NEEDS = ("model[].path",)
USES = ("model[].revision", "model[].weights_bytes", "model[].config")
ABSENCE_IS_JUDGED = True


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for named in models_at_hand(facts):
        name = instance_of(facts, named)
        if name is None or is_missing(facts, named):
            yield _missing(named)
            continue
        path = path_of("model[].weights_bytes", name)
        reading = facts.reading(path)
        dummy = facts.wanted.option("load_format") == "dummy"
        if isinstance(reading, Unavailable) and reading.why is Why.ABSENT and not dummy:
            yield Problem(f"{named.model} is not whole: {reading.detail}", (path,), "Download it again.")


def _missing(named: Named) -> Problem:
    path = (path_of("model[].path", named.model),)
    if is_local(named.model):
        return Problem(f"{named.model} is not here", path)
    what = f" in its revision {named.revision}" if named.revision else ""
    text = f"{named.model} is not on this disk{what}; the start would download it"
    pin = ["--revision", named.revision] if named.revision else []
    return Problem(text, path, shlex.join(["hf", "download", named.model, *pin]), WARNING)
