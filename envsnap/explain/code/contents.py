"""Contents: the Python files that differ between two states, compared and judged edit by edit."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from envsnap.explain.code.callers import uncalled
from envsnap.explain.code.conditions import State, registry
from envsnap.explain.code.edits import Edit, Source, edits, parsed
from envsnap.explain.code.fragments import fragments
from envsnap.explain.code.known_state import state_of
from envsnap.explain.code.ran import Ran
from envsnap.explain.code.revisions import Recorded, Revisions, Version
from envsnap.explain.code.running import Oracle
from envsnap.explain.code.spent import Spent
from envsnap.explain.code.syntax import IMPORTS
from envsnap.explain.code.verdicts import Judged, Sight, Verdict, combined, judge
from envsnap.explain.story import Facts

_REGISTRIES = ("environ.py", "envs.py", "env.py")
"""Names of files in which engines declare their variables."""


@dataclass(frozen=True)
class Outcome:
    """What is known of one file: see `FileReach`."""

    verdict: Verdict
    reason: str
    innocent: bool = False
    edits: tuple[Judged, ...] = ()


@dataclass(frozen=True)
class Sides:
    """A repository's two states, what ran in each and where time went; the fast one first."""

    facts: tuple[Facts, Facts]
    recorded: tuple[Recorded, Recorded]
    ran: tuple[Ran, Ran]
    spent: tuple[Spent, Spent]
    revisions: Revisions

    @property
    def one_base(self) -> bool:
        """Whether both stand on the same commit."""
        return bool(self.recorded[0].head) and self.recorded[0].head == self.recorded[1].head


def compare(sides: Sides, paths: Sequence[str]) -> dict[str, Outcome]:
    """Judge what differs in each of some Python files; those that are the same after all are left out."""
    texts = sides.revisions.versions([*paths, *_registries(sides)])
    states = [state_of(facts, held) for facts, held in zip(sides.facts, _defaults(texts))]
    sources = {path: _sources(texts[path]) for path in paths if not _is_same(texts[path])}
    differing = {path: edits(old, new) if old and new else None for path, (old, new) in sources.items()}
    trees = [new.tree for _, new in sources.values() if new]
    # NOTE: where lines were watched they tell it, and this takes long for a large pull.
    watched = not sides.ran[1].why
    never = (
        frozenset[str]() if watched else uncalled([e for f in differing.values() for e in f or ()], trees, states[1])
    )
    outcomes = {}
    for path, found in differing.items():
        sights = [_sight(sides, side, path, texts[path][side], sources[path][side], states[side]) for side in (0, 1)]
        sights[1] = replace(sights[1], oracle=replace(sights[1].oracle, uncalled=never))
        outcomes[path] = _of_edits(found, *sights) if found is not None else _of_hunks(sides, path, *sights)
    return outcomes


def _of_edits(found: Sequence[Edit], fast: Sight, slow: Sight) -> Outcome:
    if not found:
        return Outcome(Verdict.NEVER, "comments, docstrings or annotations alone", innocent=True)
    if all(isinstance(s, IMPORTS) for e in found for s in (*e.old.statements, *e.new.statements)):
        return Outcome(Verdict.BOTH, "only what it imports differs", innocent=True)
    return _summed([judge(edit, fast, slow) for edit in found])


def _of_hunks(sides: Sides, path: str, fast: Sight, slow: Sight) -> Outcome:
    """Where a version of the file is not at hand: by what the patches show."""
    patches = [recorded.patches.get(path) for recorded in sides.recorded]
    hidden = any(path in r.statuses and path not in r.patches for r in sides.recorded)
    if hidden or not any(patches) or any(patch and patch.binary for patch in patches):
        return Outcome(Verdict.UNKNOWN, "its content is not at hand")
    parts = fragments(patches[0], patches[1], sides.one_base)
    if not parts:
        return Outcome(Verdict.NEVER, "comments or blank lines alone", innocent=True)
    return _summed(
        [
            judge(p.edit, _blind(fast) if p.blind == "fast" else fast, _blind(slow) if p.blind == "slow" else slow)
            for p in parts
        ]
    )


def _summed(judged: list[Judged]) -> Outcome:
    """A file by its edits: innocent if all of them are; else the reason is that of the one that says most."""
    guilty = sorted((e for e in judged if not e.innocent), key=lambda e: e.quiet)
    reasons = [e.reason for e in guilty[:1]] or list(dict.fromkeys(e.reason for e in judged))
    return Outcome(combined([e.verdict for e in judged]), "; ".join(reasons[:2]), not guilty, tuple(judged))


def _sight(sides: Sides, side: int, path: str, version: Version, source: Source | None, state: State) -> Sight:
    ran, root = sides.ran[side], sides.recorded[side].root
    imported = ran.imported(root, path)
    lines, why = ran.lines(root, path), ran.why
    time = sides.spent[side].lines(f"{root}/{path}") if sides.spent[side].looks else None
    if _is_another(version, ran.blob(root, path)):
        lines, time = None, None
        why = "the workers imported another content of it than was recorded"
    tree = source.tree if source else ast.Module([], [])
    seen = lines.start_up if lines else frozenset()
    from_start = lines is not None and (lines.whole or any(s.lineno in seen for s in tree.body))
    return Sight(Oracle(lines, state, tree, imports=bool(imported)), imported, why, from_start, time)


def _blind(sight: Sight) -> Sight:
    """The same side where it is not known which lines of it are meant."""
    why = sight.why or "it is not known where that stands in its version of the file"
    return replace(sight, oracle=replace(sight.oracle, lines=None), why=why, time=None)


def _is_same(versions: tuple[Version, Version]) -> bool:
    return versions[0].text is not None and versions[0].text == versions[1].text


def _sources(versions: tuple[Version, Version]) -> tuple[Source | None, Source | None]:
    old, new = (parsed(v.text) if v.text is not None else None for v in versions)
    return old, new


def _is_another(version: Version, imported: str) -> bool:
    """Whether the workers imported another content, so that lines are not those of this one."""
    if not imported or version.text is None or "<redacted" in version.text:
        return False
    data = version.text.encode("utf-8", "surrogateescape")
    own = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    return len(imported) == len(own) and imported not in (version.blob, own)


def _registries(sides: Sides) -> list[str]:
    """Files that may declare the engine's variables, among those that the workers imported."""
    found = set()
    for ran, recorded in zip(sides.ran, sides.recorded):
        prefix = f"{recorded.root}/"
        found |= {f.removeprefix(prefix) for f in ran.blobs if f.startswith(prefix) and f.endswith(_REGISTRIES)}
    return sorted(found)[:8]


def _defaults(texts: Mapping[str, tuple[Version, Version]]) -> list[dict[str, ast.expr]]:
    """Variables as the engine declares them, on each side."""
    defaults: list[dict[str, ast.expr]] = [{}, {}]
    for path, versions in texts.items():
        if path.endswith(_REGISTRIES):
            for held, version in zip(defaults, versions):
                if version.text and (source := parsed(version.text)):
                    held.update(registry(source.tree))
    return defaults
