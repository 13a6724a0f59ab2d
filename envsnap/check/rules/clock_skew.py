"""The clock disagrees with the world's, or files here are dated in the future.

Logs and traces of several machines cannot be joined, and caches that go by dates are taken for stale or fresh wrongly.
A clock that nothing keeps in step is only judged for a command on several machines: a virtual machine may follow its
host's. Fix: start chronyd or systemd-timesyncd; `chronyc makestep`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from envsnap.check.facts import WARNING, Facts, Problem

CODE = "clock_skew"
SEVERITY = WARNING
NEEDS = ("clock.synchronised",)
ABSENCE_IS_JUDGED = True
USES = ("cache[].newest_change_seconds", "repo[].last_move.time", "clock.error_seconds")

_TOLERATED_SECONDS = 300.0


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    now = datetime.fromisoformat(facts.snapshot.captured_at).timestamp()
    for (name,), path, seconds in facts.each("cache[].newest_change_seconds"):
        if seconds > now + _TOLERATED_SECONDS:
            yield Problem(f"the cache {name} was changed {seconds - now:.0f} s from now", (path,), "chronyc tracking")
    for (name,), path, text in facts.each("repo[].last_move.time"):
        moved = datetime.fromisoformat(str(text)).timestamp()
        if moved > now + _TOLERATED_SECONDS:
            yield Problem(f"the repository {name} was moved {moved - now:.0f} s from now", (path,))
    if facts.wanted.nodes > 1 and facts.value("clock.synchronised") is False:
        yield Problem("nothing keeps the clock in step, and the command runs on several machines",
                      ("clock.synchronised",), "systemctl enable --now chronyd")  # fmt: skip
