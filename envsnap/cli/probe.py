"""Measure for half a minute what no reading shows: clocks under load, memory, links, launches, all-reduces, CPU, disk.

Each measurement runs in a process of its own with a deadline, those of GPUs with the torch of this Python; a figure is
the median of repetitions. A GPU that somebody uses is not measured. NVLink multicast stays off unless it is allowed.

With --baseline (what -o wrote on a good day) each figure is worse, better, the same or unknown: both are single
sessions, so a gap counts only beyond what healthy sessions differ by, a stated allowance for each figure. Three or
more baselines show it instead; the first one is compared with.

Exit code 0: nothing worse, 1: a figure is worse, 2: trouble or a GPU in use, 3: a figure that the baseline has, or that
was asked for by --only, could not be had.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from envsnap.cli import EXIT_DIFFERENT, EXIT_OK, EXIT_UNKNOWN, Trouble, did_you_mean
from envsnap.cli import _arguments as shared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envsnap.probe.judge import Compared
    from envsnap.probe.result import ProbeResult

EXAMPLE = "envsnap probe --baseline good.json --only host_link,all_reduce"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    from envsnap.probe.declared import PROBES

    names = ", ".join(probe.name for probe in PROBES)
    add = parser.add_argument
    add("--only", default="", metavar="PROBE,…", help=f"of {names}")
    add("--gpus", default="", metavar="N,…", help="NVML's indices (default: what CUDA_VISIBLE_DEVICES leaves)")
    add("--baseline", action="append", default=[], metavar="FILE", help="an earlier result; may be given several times")
    add("-o", "--output", default="", metavar="FILE", help="write the result there, as a baseline")
    add("--folder", default="", metavar="DIR", help="where the disk is read (default: for temporary files)")
    add("--force", action="store_true", help="also while a GPU is in use")
    add("--allow-multicast", action="store_true", help="let NCCL use NVLink multicast")
    shared.add_format(parser, "json")


def limit(args: Any) -> float:
    """Seconds after which nobody waits any longer: each part has its own deadline before that."""
    from envsnap.probe.declared import MANY_GPUS, longest

    return longest(len(_gpus(args.gpus) or range(MANY_GPUS)))


def run(args: Any) -> int:
    """Measure, compare and print."""
    import json
    from pathlib import Path

    from envsnap.cli._output import emit, emit_json, end_passing
    from envsnap.jsonfile import write_atomically
    from envsnap.probe import Busy, run_all
    from envsnap.probe.judge import compare
    from envsnap.probe.result import load
    from envsnap.report import probe as report

    only = _only(args.only)
    baselines = [load(file) for file in args.baseline]
    try:
        result = run_all(only, _gpus(args.gpus), args.folder, args.force, args.allow_multicast, _measuring)
    except Busy as busy:
        raise Trouble(f"{busy}. Wait until nobody uses it, or measure anyway with --force.") from busy
    except ValueError as error:
        raise Trouble(f"{str(error)[:1].upper()}{str(error)[1:]}.", ["envsnap", "probe", "--help"]) from error
    finally:
        end_passing()
    if args.output:
        document = json.dumps(report.as_json(result), indent=1) + "\n"
        write_atomically(Path(args.output), document.encode())
    compared = [c for c in (compare(result, baselines) if baselines else ()) if not only or _asked(c.name, only)]
    if args.format == "json":
        emit_json(report.as_json(result, compared, args.baseline))
    else:
        emit(report.text(result, compared))
    return _code(result, compared, bool(only))


def _code(result: ProbeResult, compared: Sequence[Compared], asked: bool) -> int:
    from envsnap.probe.judge import Standing

    if any(c.standing is Standing.WORSE for c in compared):
        return EXIT_DIFFERENT
    missing = any(c.standing is Standing.MISSING and c.before is not None for c in compared)
    return EXIT_UNKNOWN if missing or (asked and any(not f.values for f in result.figures)) else EXIT_OK


def _only(text: str) -> list[str]:
    from envsnap.probe.declared import PROBES

    known = [probe.name for probe in PROBES]
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise Trouble(f"There is no probe {name!r}{did_you_mean(name, known)}", ["envsnap", "probe", "--help"])
    return wanted


def _asked(figure: str, only: Sequence[str]) -> bool:
    from envsnap.probe.declared import PROBES, quantity_of

    return any(quantity_of(figure) in probe.quantities for probe in PROBES if probe.name in only)


def _gpus(text: str) -> list[int] | None:
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if not word.isdecimal():
            raise Trouble(f"--gpus takes numbers such as 0,1, not {word!r}.")
    return [int(word) for word in words] or None


def _measuring(text: str) -> None:
    from envsnap.cli._output import tell_passing

    tell_passing(f"measuring: {text}")
