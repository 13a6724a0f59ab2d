"""Something listens already at the port that the server is to have.

The new server ends at start, or, worse, the benchmark measures the old one, whose arguments nobody looks at. Fix: end
it (`ss -ltnp` says who it is), or choose another --port.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, Facts, NotApplicable, Problem

CODE = "port_taken"
SEVERITY = ERROR
NEEDS = ("ports.listening",)
PASSES_BY_WAITING = True


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    port = facts.wanted.port
    if port is None:
        raise NotApplicable("no command names a port")
    if port in (facts.value("ports.listening") or ()):
        yield Problem(f"port {port} is taken", ("ports.listening",), f"ss -ltnp 'sport = :{port}'")
