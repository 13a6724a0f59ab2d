"""Not all workers that the command asks for are running.

Nothing matches, or a rank has ended and its launcher has not noticed. Fix: look at the server's log; correct --match.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, Facts, NotApplicable, Problem
from envsnap.check.rules import AFTER, _running

CODE = "workers_found"
SEVERITY = ERROR
NEEDS = (_running.EXISTS,)
USES = ("worker[].ended", *_running.COMMAND)
WHEN = AFTER
ABSENCE_IS_JUDGED = True


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    if facts.snapshot.sections["worker"].reason.startswith("off"):
        raise NotApplicable("no processes were named (--pid, --match)")
    found = _running.ranks(facts)
    if not facts.all(_running.EXISTS):
        yield Problem("no process matches", ("worker",), "ps -eo pid,args; then --match or --pid")
        return
    for (role,), path, ended in facts.each("worker[].ended"):
        if ended:
            yield Problem(f"{role} has ended", (path,), "See the server's log.")
    wanted = _running.asked(facts)
    if wanted.gpus and found and len(found) < wanted.gpus:
        yield Problem(f"{wanted.gpus} ranks were asked for, {len(found)} run ({', '.join(found)})", ("worker",))
