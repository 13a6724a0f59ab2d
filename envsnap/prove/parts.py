"""Parts of what differs in a repository: commits, what was not committed, and the hunks of either.

A tree in which some parts are as the fast side had them is made of the slow side's commit: what came after the fast
side is taken back newest first and from the bottom of each file up, so that every patch meets the lines that it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envsnap.explain.code.hunks import read
from envsnap.prove import trees
from envsnap.prove.trees import Tree
from envsnap.wording import clip

MAX_PARTS = 2000
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)")
_DIFF = ("diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
         "-U3", "--src-prefix=a/", "--dst-prefix=b/")  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One part: what is applied on the slow side's commit where it is as the slow side had it, and where it is not.

    `undoes`: the patch for the fast side's state is applied backwards. `commit` is empty for what was not committed,
    `place` is the file with its first line for a hunk.
    """

    id: str
    title: str
    slow: str = ""
    fast: str = ""
    undoes: bool = False
    commit: str = ""
    place: str = ""


@dataclass(frozen=True)
class Code:
    """A repository's two states. `suspect` is the one that they are."""

    suspect: str
    fast: Tree
    slow: Tree


def parts_of(code: Code) -> list[Part] | str:
    """What lies between both states, in the order in which it came; or why that cannot be told."""
    found: list[Part] = []
    if code.fast.commit != code.slow.commit:
        told = _commits(code)
        if isinstance(told, str):
            return told
        found += told
    if code.fast.patch.strip() or code.slow.patch.strip():
        found.append(Part(f"{code.suspect}@uncommitted", "uncommitted changes", code.slow.patch, code.fast.patch))
    return found if len(found) <= MAX_PARTS else f"there are more than {MAX_PARTS} commits between the two sides"


def hunks_of(part: Part) -> list[Part]:
    """A part by its hunks; a file that was added, deleted, or is binary is one."""
    if part.undoes:
        return _unique(
            replace(part, id=f"{part.id}:{place}", title=title, fast=text, place=place)
            for place, title, text in _pieces(part.fast)
        )
    sides = [list(_pieces(text)) for text in (part.slow, part.fast)]
    bodies = [{_body(text) for _, _, text in pieces} for pieces in sides]
    hunks = [
        Part(f"{part.id}:{place}", title, slow=text, fast=text if _body(text) in bodies[1] else "", place=place)
        for place, title, text in sides[0]
    ]
    hunks += [
        Part(f"{part.id}:before:{place}", f"{title}, as it was before", fast=text, place=place)
        for place, title, text in sides[1] if _body(text) not in bodies[0]
    ]  # fmt: skip
    return _unique(hunks)


def _unique(parts: Iterable[Part]) -> list[Part]:
    """A file whose kind changed is deleted and added: two parts in one place."""
    found: dict[str, Part] = {}
    for part in parts:
        name = part.id
        while name in found:
            name += "+"
        found[name] = replace(part, id=name)
    return list(found.values())


def differs(part: Part) -> bool:
    """Whether it is another on the fast side: what both sides had uncommitted alike is no part to search among."""
    return part.undoes or part.slow != part.fast


def build(code: Code, parts: Sequence[Part], reverted: frozenset[str], target: Path) -> str:
    """Make the tree in which these parts are as the fast side had them, unless it is there; why that failed."""
    patches: list[tuple[str, bool]] = []
    for part in reversed(parts):
        if part.id in reverted and not part.undoes and part.slow != part.fast:
            continue  # NOTE: the fast side's uncommitted changes stand on its own commit, so they come last.
        patches.append((part.fast, True) if part.id in reverted and part.undoes else (part.slow, False))
    patches += [
        (part.fast, False)
        for part in reversed(parts) if part.id in reverted and not part.undoes and part.slow != part.fast
    ]  # fmt: skip
    base = replace(code.slow, patch="")
    return trees.unpack(base, target, [(text, backwards) for text, backwards in patches if text.strip()])


def _commits(code: Code) -> list[Part] | str:
    """The commits on the way from the fast to the slow side's, those that only the fast side has first."""
    root, ends = code.slow.root, (code.fast.commit, code.slow.commit)
    base = (trees.ask(root, "merge-base", *ends) or "").strip()
    chains = [_chain(root, base, end) for end in ends] if base else [None, None]
    if chains[0] is None or chains[1] is None:
        # NOTE: where one side was merged into the other no row of commits leads from one to the other.
        title = f"commits from {ends[0][:9]} to {ends[1][:9]}"
        return _patches(root, [(f"{code.suspect}@{ends[1][:12]}", title, ends[1], ends)])
    told = [(c, f"commit {c[:9]} ({clip(s, 60)}), gone", (c, f"{c}^1")) for c, s in reversed(chains[0])]
    told += [(c, f"commit {c[:9]} ({clip(s, 60)})", (f"{c}^1", c)) for c, s in chains[1]]
    return _patches(root, [(f"{code.suspect}@{c[:12]}", title, c, pair) for c, title, pair in told])


def _chain(root: str, base: str, end: str) -> list[tuple[str, str]] | None:
    """The commits after `base` up to `end` along first parents, oldest first, with subjects; a merge is one of them."""
    listed = trees.ask(root, "log", "--first-parent", "--reverse", f"--max-count={MAX_PARTS + 1}",
                       "--format=%H%x00%P%x00%s", f"{base}..{end}")  # fmt: skip
    if listed is None:
        return None
    rows = [line.split("\0") for line in listed.split("\n") if line.count("\0") == 2]
    if rows and rows[0][1].split()[:1] != [base]:
        return None
    return [(commit, subject) for commit, _, subject in rows]


def _patches(root: str, told: Sequence[tuple[str, str, str, tuple[str, str]]]) -> list[Part] | str:
    found = []
    for name, title, commit, ends in told:
        patch = trees.ask(root, *_DIFF, *ends)
        if patch is None:
            return f"git cannot show commit {commit[:9]}"
        found.append(Part(name, title, fast=patch, undoes=True, commit=commit))
    return found


def _pieces(patch: str) -> Iterator[tuple[str, str, str]]:
    """Each hunk of a patch as a patch of its own, with its place and a title."""
    starts = [m.start() for m in re.finditer(r"^diff --git ", patch, re.M)]
    for start, end in zip(starts, [*starts[1:], len(patch)]):
        text = patch[start:end].rstrip("\n") + "\n"
        file = next(iter(read(text).values()), None)
        path = file.path if file else text.partition("\n")[0].removeprefix("diff --git ")
        hunks = [m.start() for m in re.finditer(r"^@@ -", text, re.M)]
        if not hunks or file is None or file.added or file.deleted or file.binary:
            what = "added" if file and file.added else "deleted" if file and file.deleted else ""
            yield path, f"{path}{f' ({what})' if what else ''}", text
            continue
        for at, after in zip(hunks, [*hunks[1:], len(text)]):
            line, within = _first_line(text[at:after])
            yield (
                f"{path}:{line}",
                f"{path}:{line}{f' ({within})' if within else ''}",
                text[: hunks[0]] + text[at:after],
            )


def _first_line(hunk: str) -> tuple[int, str]:
    """The number of the first line that a hunk changes, on the new side, and what git says it is within."""
    lines = hunk.split("\n")
    match = _HUNK.match(lines[0])
    if match is None:
        return 0, ""
    before = next((i for i, line in enumerate(lines[1:]) if line[:1] in "+-"), 0)
    # NOTE: git takes any line that begins with a letter for the head of a function.
    within = match[3].strip() if re.match(r"\s*(async |def |class )|.*\(", match[3]) else ""
    return int(match[2]) + before, clip(within.rstrip("(:"), 50)


def _body(patch: str) -> str:
    """A hunk without its line numbers."""
    head, _, body = patch.partition("\n@@ -")
    return f"{head.partition(chr(10))[0]}\n{body.partition(chr(10))[2]}"
