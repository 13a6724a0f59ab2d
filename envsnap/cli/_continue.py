"""What a search was asked for, kept beside it, so that `envsnap prove --continue ID` needs nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envsnap.cli import Trouble, did_you_mean
from envsnap.jsonfile import SnapshotError
from envsnap.redact import Redactor

if TYPE_CHECKING:
    from envsnap.explain.explanation import Side
    from envsnap.store import Store

_KEPT = ("fast", "slow", "only", "server", "ready", "ready_timeout", "metrics", "metric", "by", "budget", "wheels",
         "manual")  # fmt: skip
LAST = "last"


def asked(args: Any, command: tuple[str, ...], redactor: Redactor) -> dict[str, Any]:
    """The arguments as they may be kept: none where one of them holds a secret, which is kept nowhere."""
    told: dict[str, Any] = {name: getattr(args, name) for name in _KEPT}
    told |= {"benchmark": list(command), "folder": os.getcwd()}
    return told if redactor.clean(told) == told else {}


def as_before(args: Any, folder: Path) -> Any:
    """The arguments of an earlier search, where a new budget or format was given with that. Raises: Trouble."""
    from envsnap.prove.journal import Journal

    found = sorted(folder.glob("*.json"), key=lambda p: p.stat().st_mtime_ns)
    if args.fast or args.slow or getattr(args, "command", None):
        raise Trouble("--continue takes FAST, SLOW and the benchmark from the search that it continues.")
    if not found:
        raise Trouble("There is no search to continue in this store.")
    name = found[-1].stem if args.search == LAST else args.search
    path = folder / f"{name}.json"
    if path not in found:
        raise Trouble(f"There is no search {name!r}{did_you_mean(name, [p.stem for p in found])}")
    told = Journal.load(path).about.get("asked")
    if not isinstance(told, dict) or not told:
        raise Trouble(f"What search {name} was asked for held a secret, which is not kept: give its command again.")
    if not told.keys() >= {*_KEPT, "benchmark", "folder"} or not isinstance(told["folder"], str):
        raise Trouble(_damaged(name))
    try:
        os.chdir(told["folder"])
    except (OSError, ValueError) as error:
        raise Trouble(f"Search {name} ran in {told['folder']}, which is not there any more.") from error
    for each in _KEPT:
        if not (each in ("budget", "wheels", "manual") and getattr(args, each)):
            setattr(args, each, told[each])
    args.command, args.search = told["benchmark"], name
    return args


def _damaged(name: str) -> str:
    return f"The journal of search {name} does not say what it was asked for: give its command again."


def as_they_were(args: Any) -> tuple[Side, Side]:
    """Both sides, the fast one first, with the runs that the search began with, whatever joined their labels since.

    Raises: Trouble, SnapshotError.
    """
    from envsnap.prove.journal import Journal
    from envsnap.store import Store

    store = Store(Path(args.store))
    about = Journal.load(store.folder / "prove" / f"{args.search}.json").about
    if not all(isinstance(about.get(side), (list, str)) for side in ("fast", "slow")):
        raise Trouble(_damaged(args.search))
    return _as_it_was(args, store, about["fast"]), _as_it_was(args, store, about["slow"])


def _as_it_was(args: Any, store: Store, told: Any) -> Side:
    """A side by the ids of its runs, which need not be in the store, or by its snapshot's hash."""
    from envsnap.cli._sides import load_side
    from envsnap.explain.explanation import Side

    try:
        if isinstance(told, list):
            return Side.of_runs([store.load(run) for run in told])
    except SnapshotError:
        pass
    for side in (load_side(name, args.store) for name in (args.fast, args.slow)):
        runs = [run for run in side.runs if run.id in told]
        if runs and len(runs) == len(told):
            return Side.of_runs(runs, side.label)
        if not side.runs and side.snapshot.content_hash == told:
            return side
    raise Trouble(f"What search {args.search} began with is not there any more.")
