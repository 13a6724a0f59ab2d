"""The samples over time of a side's runs, which stand in files of their own beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envsnap.explain.explanation import Side
    from envsnap.runs.columns import Columns


def load_samples(name: str, side: Side, store: str = "") -> tuple[dict[str, Columns], list[str]]:
    """The samples of the runs of the side that `load_side` found under a name, by the run's id; and what was damaged.

    A run without samples is left out: it was too short, or its file was copied alone.
    """
    from envsnap.jsonfile import SnapshotError
    from envsnap.runs import run

    found, trouble = {}, []
    for run_id, path in _files(name, side, store):
        if run.samples_path(path).exists():
            try:
                found[run_id] = run.load_samples(path)
            except SnapshotError as error:
                trouble.append(str(error))
    return found, trouble


def _files(name: str, side: Side, store: str) -> Iterator[tuple[str, Path]]:
    """Each run's id and file."""
    from envsnap.runs.run import load
    from envsnap.store import Store

    ids = {run.id for run in side.runs}
    if not ids or name == "-":
        return
    if Path(name).is_dir():
        for path in sorted(p for p in Path(name).iterdir() if p.name.endswith((".json", ".json.gz"))):
            stem = path.name.split(".", 1)[0]
            if ".samples." not in path.name:
                yield (stem if stem in ids else load(path).id), path
    elif Path(name).exists():
        yield side.runs[0].id, Path(name)
    else:
        runs = Store(Path(store) if store else None).runs
        yield from ((run_id, runs / f"{run_id}.json.gz") for run_id in ids)
