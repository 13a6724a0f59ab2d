"""Speculative decoding was asked for, and gives nothing.

The engine left it out, or every draft is rejected (an acceptance length of 1.00): the wrong head for the algorithm or
the model. A server that has answered nothing yet has no acceptance length. Fix: see the log; `draft_mismatch`; send
some requests before you judge.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, Facts, NotApplicable, Problem
from envsnap.check.rules import AFTER, _running

CODE = "speculation_works"
SEVERITY = ERROR
NEEDS = ("server[].engine",)
USES = ("server[].argument[]", "server[].dp[].accept_length", *_running.COMMAND)
WHEN = AFTER

_NOTHING = 1.005


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    algorithm = _running.asked(facts).algorithm
    arguments = {path: value for (_, name), path, value in facts.each("server[].argument[]")
                 if name == "speculative_algorithm"}  # fmt: skip
    known = bool(facts.all("server[].argument[]"))
    if not algorithm and not arguments:
        raise NotApplicable("no speculative decoding is asked for")
    if algorithm and known and not arguments:
        yield Problem(f"{algorithm} was asked for, the server runs without speculation", ("server",))
    for _, path, length in facts.each("server[].dp[].accept_length"):
        if length <= _NOTHING:
            yield Problem(f"acceptance length {length:.2f}: every draft is rejected", (path,))
