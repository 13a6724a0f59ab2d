"""Show the whole job on this machine, without a GPU: measure fast, measure slow, find what changed.

A pretend engine with two spawned ranks is measured twice in a temporary folder. Before the second time, one change
that matters is planted among some that do not; a snapshot is taken each time, and the two are compared.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from envsnap.cli import EXIT_OK, Trouble
from envsnap.cli import _arguments as shared

EXAMPLE = "envsnap demo"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("--all", action="store_true", help="cut nothing")
    shared.add_format(parser, "json")


def limit(args: Any) -> float:
    """Seconds after which nobody waits any longer: the demo captures."""
    return 60.0


def run(args: Any) -> int:
    """Measure twice and compare."""
    from envsnap import demo
    from envsnap.cli._output import emit, emit_json
    from envsnap.diff import diff
    from envsnap.report import diff as report
    from envsnap.report import done
    from envsnap.report.lines import width_of

    def tell(text: str) -> None:
        print(text, flush=True, file=sys.stderr if args.format == "json" else sys.stdout)

    try:
        with demo.stage() as folder:
            tell("Measuring a pretend engine with two spawned ranks …")
            fast = demo.measure(folder, {"DEMO_DAY": "Monday"}, {})
            tell(f"  {fast.speed:.1f} tok/s")
            demo.make_noise(folder)
            tell("A day later: a commit, a file left behind, a harmless variable, and one change that matters …")
            slow = demo.measure(folder, {"DEMO_DAY": "Tuesday"}, demo.PLANTED)
            tell(f"  {slow.speed:.1f} tok/s, {slow.speed / fast.speed - 1:+.0%}\n")
    except demo.DemoError as error:
        raise Trouble(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    sides = report.Sides(("fast", "slow"), (fast.snapshot, slow.snapshot))
    found = diff(*sides.snapshots)
    if args.format == "json":
        emit_json(done.demonstration((fast.speed, slow.speed), demo.PLANTED, report.as_json(found, sides)))
        return EXIT_OK
    emit(report.text(found, sides, width_of(sys.stdout), args.all))
    planted = ", ".join(f"{name}={value}" for name, value in demo.PLANTED.items())
    tell(f"\nPlanted was {planted}, in the environment of the launcher alone: this shell never had it, the ranks did.")
    return EXIT_OK
