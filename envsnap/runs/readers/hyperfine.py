"""hyperfine's `--export-json`."""

from __future__ import annotations

from statistics import median

from envsnap.reading import Json
from envsnap.runs.metrics import Better, Measured, Metric, NoMetrics, positive

SOURCE = "hyperfine"


def recognise(document: Json, text: str) -> bool:
    """By its list of results with times."""
    results = document.get("results") if isinstance(document, dict) else None
    return isinstance(results, list) and bool(results) and isinstance(results[0], dict) and "times" in results[0]


def read(document: Json, text: str) -> Measured:
    """Median wall time of the one command."""
    results = document["results"]
    if len(results) > 1:
        raise NoMetrics("hyperfine timed several commands in one run; give one a run.")
    times = tuple(positive(t) for t in results[0]["times"])
    codes = results[0].get("exit_codes") or []
    failed = sum(bool(code) for code in codes)
    return Measured(
        (Metric("wall_seconds", median(times), "s", Better.LOWER, SOURCE, times),),
        {"command": str(results[0].get("command", ""))},
        warnings=(f"{failed} of {len(codes)} timed commands failed",) if failed else (),
    )
