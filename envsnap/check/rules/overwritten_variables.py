"""Variables are set that SGLang will overwrite.

It writes some of them at every start, whatever was exported and without a word, so that tuning them has no effect. Fix:
do not tune them; `envsnap workers` shows what each rank has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem
from envsnap.workers.engine_writes import SGLANG

CODE = "overwritten_variables"
SEVERITY = WARNING
NEEDS = ("env[]",)

_ANYTHING = ".+"
_ALWAYS = ("always", "overwritten", "rewritten")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    if facts.wanted.engine != "sglang":
        raise NotApplicable("no command starts SGLang")
    for write in SGLANG:
        value = facts.env(write.name)
        if value is None or not write.note.startswith(_ALWAYS) or "up to" in write.note:  # of older versions alone
            continue
        if write.value == _ANYTHING or not re.fullmatch(write.value, value):
            yield Problem(f"{write.name}={value[:80]}: {write}", (f"env[{write.name}]",), f"unset {write.name}")
