"""What a user names as one side of a comparison: a snapshot's or a run's file, a folder of runs, a stored name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envsnap.explain.explanation import Side
    from envsnap.runs.run import Run


def load_side(name: str, store: str = "") -> Side:
    """The side that `name` stands for: a file, a folder with the files of some runs, a name in the store, - for stdin.

    What exists as a file or folder wins; `store:NAME` never is one.

    Raises: SnapshotError, in one sentence.
    """
    from envsnap.explain.explanation import Side
    from envsnap.snapshot import from_json
    from envsnap.store import Store
    from envsnap.texts import load_document

    if name != "-" and Path(name).is_dir():
        return Side.of_runs(_runs_in(Path(name)), name)
    if name != "-" and not Path(name).exists() and not _looks_like_a_file(name):
        return Side.of_runs(Store(Path(store) if store else None).group(name), name)
    document = load_document(name)
    if isinstance(document, dict) and document.get("format") == "envsnap.run":
        from envsnap.runs.run import parse

        return Side.of_runs([parse(document, name)], name)
    return Side(from_json(document, name), (), name)


def _runs_in(folder: Path) -> list[Run]:
    from envsnap.jsonfile import SnapshotError
    from envsnap.runs.run import load

    files = sorted(p for p in folder.iterdir() if p.name.endswith((".json", ".json.gz")) and ".samples." not in p.name)
    if not files:
        raise SnapshotError(f"{folder} holds no runs.")
    return sorted((load(path) for path in files), key=lambda run: run.started_at)


def _looks_like_a_file(name: str) -> bool:
    """Whether a missing file is what should be complained of, rather than an unknown name."""
    return "/" in name.removesuffix("/a").removesuffix("/b") or name.endswith((".json", ".gz"))
