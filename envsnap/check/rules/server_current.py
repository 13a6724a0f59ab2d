"""The server is older than the code or the program that it should run.

A restart that failed leaves the old process at the port; a checkout after the start changes nothing of what runs. Fix:
stop it and start it anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from envsnap.check.facts import ERROR, Facts, Problem
from envsnap.check.rules import AFTER
from envsnap.collectors import key_for
from envsnap.fold import listed

CODE = "server_current"
SEVERITY = ERROR
NEEDS = ("worker[].started_seconds",)
USES = ("repo[].last_move.time", "repo[].found_by", "worker[].executable_replaced")
WHEN = AFTER

_MATTERS = 0.3


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    started = {role: seconds for (role,), _, seconds in facts.each("worker[].started_seconds") if role != "shell"}
    for (name,), path, text in facts.each("repo[].last_move.time"):
        moved = datetime.fromisoformat(str(text)).timestamp()
        older = [role for role, seconds in started.items() if seconds < moved]
        if older and any(map(_is_run_from, facts.value(f"repo[{name}].found_by") or ())):
            yield Problem(f"{name} was moved to another commit after the start of {listed(older)}", (path,))
    replaced = [role for (role,), _, gone in facts.each("worker[].executable_replaced") if gone and role in started]
    if replaced:
        yield Problem(f"the program of {listed(replaced)} was replaced since its start",
                      tuple(f"worker[{role}].executable_replaced" for role in replaced))  # fmt: skip


def _is_run_from(found_by: str) -> bool:
    """Whether what led to a repository means that an engine or its kernels are imported from it."""
    _, editable, name = found_by.partition("editable:")
    return found_by == "pythonpath" or bool(editable and key_for(f"package[{name}].version").prior >= _MATTERS)
