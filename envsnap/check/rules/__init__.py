"""Built-in rules, one module each, found by walking this package.

A rule is a module whose docstring is its documentation (the first line says what is wrong when it fires), and

    CODE = "link_width"             its stable name, that of the module
    SEVERITY = ERROR or WARNING     what a problem counts as, unless the problem says otherwise
    NEEDS = ("gpu[].name", …)       keys without which it cannot be judged: unreadable makes it *unknown*, never a pass
    def judge(facts: Facts) -> Iterable[Problem]

and, where they differ from what is usual,

    USES = (…)                      keys that it looks at where they are there
    WHEN = AFTER                    judged with --after, of running workers; else BEFORE
    PASSES_BY_WAITING = True        what it objects to can go away by itself; --wait waits for that
    ABSENCE_IS_JUDGED = True        it is asked even where what it needs does not exist here

`judge` is a function of values. It yields a `Problem` for whatever it objects to, and raises `NotApplicable` where
there is nothing that it speaks of. Rules whose subject does not exist here (no GPU) are not asked at all. A module
whose name starts with an underscore helps others.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Protocol, cast

from envsnap.check.facts import Facts, Problem

BEFORE, AFTER = "before", "after"


class Rule(Protocol):
    """The module interface; see the package's text."""

    __doc__: str | None
    CODE: str
    SEVERITY: str
    NEEDS: tuple[str, ...]

    @staticmethod
    def judge(facts: Facts) -> Iterable[Problem]:
        """Yield what is wrong."""


@lru_cache(maxsize=1)
def codes() -> tuple[str, ...]:
    """The codes of all rules, sorted."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")))


@cache
def rule(code: str) -> Rule:
    """The rule with that code. Raises: ModuleNotFoundError."""
    return cast(Rule, importlib.import_module(f"{__name__}.{code}"))


def uses(of: Rule) -> tuple[str, ...]:
    """Keys that a rule looks at where they are there."""
    found: tuple[str, ...] = getattr(of, "USES", ())
    return found


def moment(of: Rule) -> str:
    """BEFORE or AFTER."""
    return str(getattr(of, "WHEN", BEFORE))


def passes_by_waiting(of: Rule) -> bool:
    """Whether what a rule objects to can go away by itself."""
    return bool(getattr(of, "PASSES_BY_WAITING", False))


def absence_is_judged(of: Rule) -> bool:
    """Whether a rule is asked even where what it needs does not exist here."""
    return bool(getattr(of, "ABSENCE_IS_JUDGED", False))


def title(of: Rule) -> str:
    """What is wrong when it fires."""
    return (of.__doc__ or "").strip().split("\n", 1)[0]
