"""pyperf's JSON (format 1.0)."""

from __future__ import annotations

from statistics import median

from envsnap.reading import Json
from envsnap.runs.metrics import Better, Measured, Metric, NoMetrics, positive

SOURCE = "pyperf"


def recognise(document: Json, text: str) -> bool:
    """By its list of benchmarks with runs."""
    benchmarks = document.get("benchmarks") if isinstance(document, dict) else None
    return isinstance(benchmarks, list) and bool(benchmarks) and "runs" in benchmarks[0]


def read(document: Json, text: str) -> Measured:
    """Median of the values of one benchmark, in its unit; calibration and warm-up runs have no values."""
    if len(document["benchmarks"]) > 1:
        raise NoMetrics("The file holds several benchmarks; give one a run.")
    benchmark = document["benchmarks"][0]
    metadata = {**document.get("metadata", {}), **benchmark.get("metadata", {})}
    values = tuple(positive(v) for run in benchmark["runs"] for v in run.get("values", ()))
    if not values:
        raise NoMetrics("The benchmark has no values.")
    unit = {"second": "s", "byte": "bytes", "integer": ""}.get(metadata.get("unit", "second"), "")
    name = "wall_seconds" if unit == "s" else str(metadata.get("name", "value"))
    return Measured((Metric(name, median(values), unit, Better.LOWER, SOURCE, values),), {"name": metadata.get("name")})
