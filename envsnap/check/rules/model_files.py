"""A model that the command names is not on this disk, or not whole.

A missing one is downloaded first, or the start fails after minutes; of a broken download, weight files are links that
lead nowhere. Fix: `hf download MODEL` beforehand; check the path and HF_HOME.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, NotApplicable, Problem
from envsnap.check.rules._models import instance_of
from envsnap.keys import path_of
from envsnap.reading import Unavailable, Why

CODE = "model_files"
SEVERITY = ERROR
NEEDS = ("model[].path",)
USES = ("model[].weights_bytes", "model[].config")
ABSENCE_IS_JUDGED = True


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    models = [m for m in (facts.wanted.model, facts.wanted.draft) if m]
    if not models:
        raise NotApplicable("no command names a model")
    for given in models:
        name = instance_of(facts, given)
        if name is None:
            local = given.startswith(("/", "./", "../", "~"))
            what = "is not here" if local else "is not on this disk; the start would download it"
            yield Problem(f"{given} {what}", (path_of("model[].path", given),),
                          "" if local else f"hf download {given}", ERROR if local else WARNING)  # fmt: skip
            continue
        path = path_of("model[].weights_bytes", name)
        reading = facts.reading(path)
        dummy = facts.wanted.option("load_format") == "dummy"
        if isinstance(reading, Unavailable) and reading.why is Why.ABSENT and not dummy:
            yield Problem(f"{given} is not whole: {reading.detail}", (path,), "Download it again.")
