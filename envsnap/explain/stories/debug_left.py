"""A debugging variable was left set.

Synchronous launches, invented acceptance, checks of every call: what was set to look for an error makes every later
measurement one of the debugger. They are found in the workers, where they act, and on both sides too.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.explanation import Mistake
from envsnap.explain.ranks import ranks
from envsnap.explain.stories._look import variable_changes
from envsnap.explain.story import Clue, Facts, Finding, View, after
from envsnap.explain.weights import STRONG
from envsnap.keys import instances_of
from envsnap.known_names import is_debugging

CODE = "debug_left"
NEEDS = ("worker[].env[]", "record[].env[]", "env[]")


def tell(view: View) -> Iterator[Finding]:
    """Yield debugging that is on on the slow side, and what is on on both."""
    by_name: dict[str, list[Change]] = {}
    for change in variable_changes(view, "*"):
        name = instances_of(change.path)[-1]
        if after(change) is not None and is_debugging(name, str(after(change))):
            by_name.setdefault(name, []).append(change)
    for name, changes in sorted(by_name.items()):
        says = is_debugging(name, str(after(changes[0])))
        yield Clue(f"{name}={after(changes[0])} is left from debugging: {says}.", STRONG, tuple(changes))
    sides = [_set(facts) for facts in view.sides]
    for name in sorted(sides[0].keys() & sides[1].keys() - by_name.keys()):
        value, path = sides[1][name]
        yield Mistake(
            f"{name}={value} is set on both sides: {is_debugging(name, value)}", "Unset it, and measure again.", (path,)
        )


def _set(facts: Facts) -> dict[str, tuple[str, str]]:
    """Debugging variables of the ranks (of the shell where none is known): name -> value and path."""
    found: dict[str, tuple[str, str]] = {}
    held = {**facts.values("worker[].env[]"), **facts.values("record[].env[]")}
    known = [(p, v) for p, v in held.items() if instances_of(p)[0] in ranks(facts)]
    for path, value in known or facts.values("env[]").items():
        if is_debugging(name := instances_of(path)[-1], str(value)):
            found.setdefault(name, (str(value), path))
    return found
