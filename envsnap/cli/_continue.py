"""What a search was asked for, kept beside it, so that `envsnap prove --continue ID` needs nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envsnap.cli import Trouble, did_you_mean
from envsnap.redact import Redactor

if TYPE_CHECKING:
    from envsnap.explain.explanation import Side

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
    try:
        os.chdir(told["folder"])
    except OSError as error:
        raise Trouble(f"Search {name} ran in {told['folder']}, which is not there any more.") from error
    for each in _KEPT:
        if not (each in ("budget", "wheels", "manual") and getattr(args, each)):
            setattr(args, each, told[each])
    args.command, args.search = told["benchmark"], name
    return args


def as_they_were(args: Any, one: Side, two: Side) -> tuple[Side, Side]:
    """Both sides with the runs that the search began with, whatever has joined their labels since. Raises: Trouble."""
    from envsnap.prove.journal import Journal
    from envsnap.store import FOLDER

    about = Journal.load(Path(args.store) / FOLDER / "prove" / f"{args.search}.json").about
    return _as_it_was(one, about, args), _as_it_was(two, about, args)


def _as_it_was(side: Side, about: Any, args: Any) -> Side:
    from envsnap.explain.explanation import Side

    began: set[str] = set()
    for told in (about["fast"], about["slow"]):
        began |= set(told) if isinstance(told, list) else {told}
    if not side.runs and side.snapshot.content_hash in began:
        return side
    runs = [r for r in side.runs if r.id in began]
    if not runs:
        raise Trouble(f"{side.label} is not what search {args.search} began with.")
    return Side.of_runs(runs, side.label)
