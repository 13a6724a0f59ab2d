"""What a search is made of: both sides as explain sees them, its journal, switches, and what its runs are told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from envsnap.cli import Trouble, did_you_mean

if TYPE_CHECKING:
    from envsnap.explain.explanation import Explanation, Side
    from envsnap.prove.journal import Journal
    from envsnap.prove.switches import Commands, Manual, Switch
    from envsnap.prove.trials import Bench
    from envsnap.runs.plan import Say


def explained(args: Any, say: Say) -> tuple[Explanation, Side, Side]:
    """What explain says of the two sides, with the side called FAST as the fast one."""
    from envsnap.cli._continue import as_they_were
    from envsnap.cli._sides import load_side
    from envsnap.explain import explain

    if args.search:
        one, two = as_they_were(args)
    else:
        one, two = (load_side(name, args.store) for name in (args.fast, args.slow))
    found = explain(one, two)
    if found.fast == "b":
        say(f"{args.slow} is the faster side of the two, and is taken as FAST")
        one, two = two, one
    return found, one, two


def prepared(
    args: Any, explanation: Explanation, fast: Side, slow: Side, bench: Bench, folder: Path
) -> tuple[Journal, list[Switch], list[Manual], Bench]:
    """The journal of this search, new or as it was left, with its switches."""
    import shutil
    from dataclasses import replace

    from envsnap.cli._continue import asked
    from envsnap.prove import start
    from envsnap.prove.journal import Journal, id_of
    from envsnap.prove.levers import Sides, levers
    from envsnap.prove.trials import problem_of
    from envsnap.redact import Redactor

    metric = start.metric_of(explanation, args.by)
    about = {
        "fast": [r.id for r in fast.runs] or fast.snapshot.content_hash,
        "slow": [r.id for r in slow.runs] or slow.snapshot.content_hash,
        "benchmark": list(bench.commands.benchmark),
        "server": list(bench.commands.server),
        "only": sorted(args.only),
        "by": args.by,
    }
    path = folder / f"{args.search or id_of(about)}.json"
    shown = shown_of(bench, folder)
    about |= {"benchmark": list(shown.benchmark), "server": list(shown.server)}
    about["asked"] = asked(args, bench.commands.benchmark, Redactor(folder.parent))
    if args.again:
        path.unlink(missing_ok=True)
        shutil.rmtree(path.with_suffix(""), ignore_errors=True)
    suspects = [s for s in explanation.suspects if s.changes]
    for name in args.only:
        if name not in {s.id for s in suspects}:
            raise Trouble(f"There is no suspect {name!r}{did_you_mean(name, [s.id for s in suspects])}")
    chosen = [s for s in suspects if not args.only or s.id in args.only]
    writes = not (args.dry_run or args.script)
    path.with_suffix("").mkdir(mode=0o700, exist_ok=True)
    sides = Sides(fast, slow, path.with_suffix(""), args.wheels, args.manual)
    switches, manual = levers(chosen, sides, writes or bool(args.script))
    if not switches:
        reasons = "; ".join(f"{m.title}: {m.reason}" for m in manual[:3])
        raise Trouble(
            f"There is nothing that can be switched between the two sides{f' ({reasons})' if reasons else ''}."
        )
    if path.exists():
        journal = Journal.load(path)
    else:
        spread, gap = start.spread_and_gap(fast, slow, metric)
        elsewhere = 1 - sum(s.probability for s in switches)
        journal = Journal(path, problem_of(switches, elsewhere, spread, gap), metric, about)
    if bench.commands.server and not bench.ready:
        ready = start.ready_address(bench.commands.server, slow.runs or fast.runs)
        if not ready:
            raise Trouble("--server needs --ready URL, to know when it can be measured.")
        bench = replace(bench, ready=ready)
    if not bench.metrics.files and not bench.metrics.patterns and _on_output(fast, slow, metric):
        bench = replace(bench, metrics=replace(bench.metrics, output=True))
    return journal, switches, manual, bench


def shown_of(bench: Bench, folder: Path) -> Commands:
    """The commands as they may be shown and kept: without secrets."""
    from envsnap.prove.switches import Commands
    from envsnap.redact import Redactor

    redactor = Redactor(folder.parent)
    return Commands(*(tuple(redactor.clean(list(c))) for c in (bench.commands.benchmark, bench.commands.server)))


def _on_output(fast: Side, slow: Side, metric: str) -> bool:
    """Whether the sides' figures were read from the benchmark's output."""
    found = [m for side in (fast, slow) for r in side.runs for m in r.metrics if m.name == metric]
    return any(m.source == "standard output" for m in found)
