"""What a user names as one side of a comparison: a file of a snapshot or a run, or a name in the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envsnap.explain.explanation import Side


def load_side(name: str, store: str = "") -> Side:
    """The side that `name` stands for; an existing file wins, `store:NAME` is never a file, - is standard input.

    Raises: SnapshotError, in one sentence.
    """
    from envsnap.explain.explanation import Side
    from envsnap.snapshot import from_json
    from envsnap.store import Store
    from envsnap.texts import load_document

    if name != "-" and not Path(name).exists() and not _looks_like_a_file(name):
        return Side.of_runs(Store(Path(store) if store else None).group(name), name)
    document = load_document(name)
    if isinstance(document, dict) and document.get("format") == "envsnap.run":
        from envsnap.runs.run import parse

        return Side.of_runs([parse(document, name)], name)
    return Side(from_json(document, name), (), name)


def _looks_like_a_file(name: str) -> bool:
    """Whether a missing file is what should be complained of, rather than an unknown name."""
    return "/" in name.removesuffix("/a").removesuffix("/b") or name.endswith((".json", ".gz"))
