"""Verdicts: whether an edit ran, and whether undoing it could change anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from envsnap.explain.code.conditions import truth
from envsnap.explain.code.edits import Edit, Guard, Part, Where
from envsnap.explain.code.running import Oracle, Runs, compiled_in, function_ran, runs
from envsnap.explain.code.spent import Time
from envsnap.explain.code.syntax import FUNCTIONS, head_lines
from envsnap.wording import clip


class Verdict(str, Enum):
    """In which run the changed code ran."""

    BOTH = "ran in both"
    SLOW = "ran in the slow run only"
    FAST = "ran in the fast run only"
    NEVER = "never ran"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Sight:
    """What is known of one side's run of one file. `why`: why not seeing a line proves nothing, empty where it does.

    `imported` is None where not known. `from_start`: what ran at start-up was watched from before the import. `time`
    went into a line; None where that is not known.
    """

    oracle: Oracle
    imported: bool | None
    why: str = ""
    from_start: bool = True
    time: Mapping[int, Time] | None = None

    @property
    def exact(self) -> bool:
        """Whether a line that was not seen did not run."""
        return self.oracle.lines is not None and not self.why

    @property
    def proving(self) -> Oracle:
        """The oracle as far as it can be used to conclude: without lines where they prove nothing."""
        return self.oracle if self.exact else replace(self.oracle, lines=None)


@dataclass(frozen=True)
class Judged:
    """An edit with its verdict. `innocent`: undoing it would change nothing. `quiet`: it did not run while serving.

    `reason` is a clause: "no worker of the slow run came to it". `time` is what the fast run spent in the old lines and
    the slow run in the new ones; None where not known.
    """

    function: str
    old_lines: tuple[int, int] | None
    new_lines: tuple[int, int] | None
    verdict: Verdict
    innocent: bool
    reason: str
    quiet: bool = False
    serving: bool = False
    """Whether some of it was seen to run while serving."""
    time: tuple[Time, Time] | None = None


@dataclass(frozen=True)
class _Said:
    """A verdict with its reason."""

    verdict: Verdict
    reason: str
    innocent: bool = False
    quiet: bool = False


def judge(edit: Edit, fast: Sight, slow: Sight) -> Judged:
    """Join an edit with what ran."""
    said = _verdict(edit, fast, slow)
    serving = any(_seen_serving(s, slow.oracle) for s in edit.new.statements)
    then, now = _time(edit.old.lines, fast), _time(edit.new.lines, slow)
    return Judged(
        edit.function, edit.old.lines, edit.new.lines, said.verdict, said.innocent, said.reason, said.quiet, serving,
        None if then is None or now is None else (then, now),
    )  # fmt: skip


def _time(lines: tuple[int, int] | None, sight: Sight) -> Time | None:
    """The time in some lines; None where that is not known."""
    if lines is None:
        return Time()
    if sight.time is None:
        return None
    return sum((time for line, time in sight.time.items() if lines[0] <= line <= lines[1]), Time())


def _verdict(edit: Edit, fast: Sight, slow: Sight) -> _Said:
    if (behind := _behind(edit, fast, slow)) is not None:
        return _Said(Verdict.NEVER, behind, innocent=True)
    if edit.where is Where.SIGNATURE:
        return _of_signature(edit, fast, slow)
    at_import = edit.where is Where.IMPORT
    now = runs(edit.new.statements, edit.new.scopes, slow.proving, at_import)
    then = runs(edit.old.statements, edit.old.scopes, fast.proving, at_import)
    if not at_import and slow.exact and not _reached(edit.new, slow.oracle):
        return _not_reached(then, fast, slow)
    undone = runs(edit.old.statements, edit.old.scopes, replace(slow.oracle, lines=None), at_import)
    if now.sure and then.sure and now.statements == then.statements:
        return _Said(Verdict.BOTH if now.statements else Verdict.NEVER, _alike(now, then), innocent=True)
    if (now.sure or now.settled) and undone.settled and now.statements == undone.statements:
        return _Said(Verdict.BOTH if now.statements else Verdict.NEVER, _alike(now, undone), innocent=True)
    return _by_sides(_ran(edit.new, now, slow, at_import), _ran(edit.old, then, fast, at_import), fast, slow)


def _behind(edit: Edit, fast: Sight, slow: Sight) -> str | None:
    """The condition that keeps both versions from running in the slow run, in words; None where there is none."""
    tests = []
    for part in (edit.old, edit.new):
        if part.statements and (off := _unmet(part, slow)) is None:
            return None
        tests += [off] if part.statements and off else []
    if not tests:
        return None
    in_fast = all(_unmet(part, fast) for part in (edit.old, edit.new) if part.statements)
    text = clip(ast.unparse(tests[-1].test), 80)
    truth_of = "not true" if tests[-1].truth else "true"
    return f"it stands behind `{text}`, which was {truth_of} in {'both runs' if in_fast else 'the slow run'}"


def _unmet(part: Part, sight: Sight) -> Guard | None:
    """The first condition around a part that was not met."""
    for guard in part.guards:
        if truth(guard.test, part.scopes, sight.oracle.state) is (not guard.truth):
            return guard
    return None


def _not_reached(then: Runs, fast: Sight, slow: Sight) -> _Said:
    if fast.exact and then.statements:
        return _Said(Verdict.FAST, "the slow run did not come to it any more", quiet=True)
    if not slow.from_start:
        reason = "it did not run while the slow run served, but what ran while modules were imported was not watched"
        return _Said(Verdict.UNKNOWN, reason, quiet=True)
    runs_ = "either run" if fast.exact else "the slow run"
    reason = f"no worker of {runs_} came to it, neither at start-up nor while serving"
    return _Said(Verdict.NEVER, reason, innocent=True)


def _alike(now: Runs, other: Runs) -> str:
    tests = list(dict.fromkeys(clip(ast.unparse(test), 60) for test in (*now.untaken, *other.untaken)))
    what = "the same statements run with and without it" if now.statements else "nothing of it ran"
    if not tests:
        return what
    return f"{what}: the rest stands behind {' and '.join(f'`{t}`' for t in tests[:2])}, which was never true"


def _of_signature(edit: Edit, fast: Sight, slow: Sight) -> _Said:
    """Parameters, defaults and decorators act when a function is called."""
    called = [
        function_ran(part.statements[0], sight.oracle) if sight.exact else (_called(part, sight) or None)
        for part, sight in ((edit.old, fast), (edit.new, slow))
    ]
    then, now = called
    if now is False and then is not True:
        if not slow.from_start:
            return _Said(Verdict.UNKNOWN, "it was not called while the slow run served", quiet=True)
        return _Said(Verdict.NEVER, "no worker called it", innocent=True)
    return _by_sides(now, then, fast, slow)


def _called(part: Part, sight: Sight) -> bool:
    return bool(function_ran(part.statements[0], sight.oracle))


def _reached(part: Part, oracle: Oracle) -> bool:
    """Whether a run came to where an edit stands: by its own statements, those beside it, or its function's."""
    if (compiled := compiled_in(part.scopes)) is not None:
        return function_ran(compiled, oracle) is not False
    beside: Sequence[ast.AST] = (*part.statements, *part.neighbours)
    if not beside:
        beside = [s for s in part.scopes[-1:] if isinstance(s, FUNCTIONS)]
        return any(function_ran(s, oracle) is not False for s in beside) or not beside
    return any(_touched(s, oracle) for s in beside)


def _touched(s: ast.AST, oracle: Oracle) -> bool:
    if isinstance(s, (*FUNCTIONS, ast.ClassDef)):
        return function_ran(s, oracle) is not False
    seen = oracle.lines.seen if oracle.lines else frozenset()
    return isinstance(s, ast.stmt) and any(n in seen for n in range(s.lineno, (s.end_lineno or s.lineno) + 1))


def _ran(part: Part, found: Runs, sight: Sight, at_import: bool) -> bool | None:
    """Whether a part ran on its side; None where not known."""
    if found.sure:
        return bool(found.statements)
    if at_import and sight.imported and found.statements:
        return True
    if sight.oracle.lines is not None and runs(part.statements, part.scopes, sight.oracle, at_import).statements:
        return True
    return None


def _by_sides(now: bool | None, then: bool | None, fast: Sight, slow: Sight) -> _Said:
    unknown = "that is not known"
    match now, then:
        case True, True:
            return _Said(Verdict.BOTH, "the changed code ran in both")
        case True, False:
            return _Said(Verdict.SLOW, "what is new ran")
        case False, True:
            return _Said(Verdict.FAST, "what is gone ran before")
        case True, None:
            return _Said(Verdict.UNKNOWN, f"it ran in the slow run; of the fast run, {fast.why or unknown}")
        case None, True:
            return _Said(Verdict.UNKNOWN, f"it ran in the fast run; of the slow run, {slow.why or unknown}")
        case False, None:
            reason = f"it did not run in the slow run; of the fast run, {fast.why or unknown}"
            return _Said(Verdict.UNKNOWN, reason, quiet=True)
    return _Said(Verdict.UNKNOWN, slow.why or fast.why or unknown)


def _seen_serving(s: ast.stmt, oracle: Oracle) -> bool:
    return oracle.lines is not None and any(n in oracle.lines.serving for n in _all_lines(s))


def _all_lines(s: ast.stmt) -> Iterator[int]:
    if isinstance(s, FUNCTIONS):
        for inner in s.body:
            yield from _all_lines(inner)
    else:
        yield from head_lines(s)
        if s.end_lineno:
            yield from range(s.lineno, s.end_lineno + 1)


def combined(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of several: what ran counts before what is not known, and that before what did not run."""
    found = set(verdicts)
    if Verdict.BOTH in found or found >= {Verdict.SLOW, Verdict.FAST}:
        return Verdict.BOTH
    return next(v for v in (Verdict.SLOW, Verdict.FAST, Verdict.UNKNOWN, Verdict.NEVER) if v in found)
