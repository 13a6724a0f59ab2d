"""The model on this disk is of another revision than the command asks for.

A pinned revision is ignored where a directory is given, and some options pin the code but not the weights. Fix: give
the hub's name with --revision, or the snapshot's directory of that revision.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem
from envsnap.check.rules._models import instance_of, models_at_hand
from envsnap.keys import path_of

CODE = "model_revision"
SEVERITY = WARNING
NEEDS = ("model[].path",)
USES = ("model[].revision",)


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    pinned = [named for named in models_at_hand(facts) if _is_commit(named.revision)]
    if not pinned:
        raise NotApplicable("no command pins a model's commit")
    for named in pinned:
        path = path_of("model[].revision", instance_of(facts, named) or named.model)
        found = facts.value(path)
        if isinstance(found, str) and not found.startswith(named.revision):
            asked = named.revision[:12]
            yield Problem(f"{named.model} is {found[:12]} on this disk, the command asks for {asked}", (path,))


def _is_commit(text: str) -> bool:
    return len(text) >= 7 and all(c in "0123456789abcdef" for c in text)
