"""State under load: what was sampled while a benchmark ran, as readings of kind condition and counter.

Each `Gauge` is one declaration: which column it is sampled into, and the keys that its median, 5th and 95th
percentile over the busy samples become. The section `during` is made by `envsnap run`, not by a capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from envsnap.keys import Effect, Key, Kind, Type, path_of
from envsnap.reading import Json, Unavailable, Why
from envsnap.runs import cache_growth, server_counters
from envsnap.runs.columns import Columns, growth, summary, transitions
from envsnap.snapshot import Section

METHOD = "sampled by envsnap run"

BUSY_PERCENT = 10
"""A GPU sample counts as busy from this utilisation on. Without GPUs every sample of the window does."""

_E = Effect


@dataclass(frozen=True)
class Gauge:
    """A sampled figure of one GPU, one worker or the host: `stem` and `unit` make the names of its keys."""

    of: str
    stem: str
    unit: str
    meaning: str
    effects: tuple[Effect, ...]
    prior: float
    rel_tol: float = 0.0
    abs_tol: float = 0.0

    @property
    def column(self) -> str:
        """The column's name, or its end behind the instance: `sm_clock_mhz`."""
        return f"{self.stem}_{self.unit}"

    def declared(self) -> tuple[Key, ...]:
        """Its three keys. The median is compared; the tails of a short run are chance, and shown on request."""
        parts = (
            ("median", "median", Kind.CONDITION),
            ("p5", "5th percentile", Kind.VOLATILE),
            ("p95", "95th percentile", Kind.VOLATILE),
        )
        return tuple(
            Key(self.pattern(part), Type.NUMBER, kind, f"{self.meaning}: {words} over the busy samples.",
                self.effects, self.prior, rel_tol=self.rel_tol, abs_tol=self.abs_tol)
            for part, words, kind in parts
        )  # fmt: skip

    def pattern(self, part: str) -> str:
        """The pattern of the key of one part."""
        owner = "during.host" if self.of == "host" else f"during.{self.of}[]"
        return f"{owner}.{self.stem}_{part}_{self.unit}"


GAUGES = (
    Gauge("gpu", "sm_clock", "mhz", "SM clock", (_E.COMPUTE, _E.VERIFY, _E.DRAFT), 0.5, rel_tol=0.015),
    Gauge("gpu", "memory_clock", "mhz", "Memory clock", (_E.MEMORY, _E.VERIFY), 0.5, rel_tol=0.015),
    Gauge(
        "gpu",
        "utilization",
        "percent",
        "Share of time in which a kernel ran",
        (_E.HOST_LAUNCH, _E.WORKLOAD),
        0.2,
        abs_tol=25,
    ),
    Gauge("gpu", "power", "watts", "Power draw", (_E.COMPUTE, _E.WORKLOAD), 0.2, rel_tol=0.15),
    Gauge("gpu", "temperature", "celsius", "GPU temperature", (_E.COMPUTE,), 0.1, abs_tol=8),
    Gauge("gpu", "memory_used", "bytes", "GPU memory in use", (_E.MEMORY, _E.WORKLOAD), 0.1, rel_tol=0.05),
    Gauge("gpu", "pcie_speed", "gts", "PCIe speed of the link in use", (_E.COMMUNICATION, _E.HOST_LAUNCH), 0.5),
    Gauge("gpu", "pcie_width", "lanes", "PCIe width in use", (_E.COMMUNICATION, _E.HOST_LAUNCH), 0.5),
    Gauge(
        "worker", "cpu", "percent", "CPU time of the worker, 100 for one whole CPU", (_E.HOST_LAUNCH,), 0.3, abs_tol=15
    ),
    Gauge(
        "worker",
        "run_delay",
        "percent",
        "Time its main thread waited for a CPU though ready",
        (_E.HOST_LAUNCH,),
        0.6,
        abs_tol=2,
    ),
    Gauge(
        "worker",
        "involuntary_switch",
        "hz",
        "Rate at which its main thread was put off its CPU",
        (_E.HOST_LAUNCH,),
        0.4,
        rel_tol=0.5,
        abs_tol=20,
    ),
    Gauge(
        "worker",
        "major_fault",
        "hz",
        "Rate of page faults that went to storage",
        (_E.STORAGE, _E.HOST_LAUNCH),
        0.4,
        abs_tol=2,
    ),
    Gauge(
        "host",
        "cpu_busy",
        "percent",
        "CPU time in use on the whole host, 100 for one whole CPU",
        (_E.HOST_LAUNCH,),
        0.2,
        rel_tol=0.2,
        abs_tol=30,
    ),
    Gauge(
        "host",
        "cpu_other",
        "percent",
        "CPU time used by others than the processes of interest",
        (_E.HOST_LAUNCH,),
        0.5,
        rel_tol=0.3,
        abs_tol=30,
    ),
    Gauge(
        "host", "cpu_pressure", "percent", "Time in which some task waited for a CPU", (_E.HOST_LAUNCH,), 0.4, abs_tol=5
    ),
    Gauge(
        "host",
        "memory_pressure",
        "percent",
        "Time in which some task waited for memory",
        (_E.MEMORY, _E.HOST_LAUNCH),
        0.4,
        abs_tol=2,
    ),
    Gauge(
        "host", "io_pressure", "percent", "Time in which some task waited for storage", (_E.STORAGE,), 0.3, abs_tol=5
    ),
    Gauge("host", "cpu_clock", "mhz", "Clock of some CPUs, spread over all", (_E.HOST_LAUNCH,), 0.3, rel_tol=0.1),
)

KEYS = (
    *(key for gauge in GAUGES for key in gauge.declared()),
    Key(
        "during.gpu[].throttle_percent[]",
        Type.NUMBER,
        Kind.CONDITION,
        "Share of the busy samples in which this reason held the clocks down.",
        (_E.COMPUTE, _E.VALIDITY),
        0.6,
        abs_tol=2,
        advice="Look at power, temperature and the power brake; gpu_idle beside load is a host that does not keep up.",
    ),
    Key(
        "during.gpu[].violation_seconds[]",
        Type.NUMBER,
        Kind.COUNTER,
        "Time that the GPU was held down for this reason, over the whole run.",
        (_E.COMPUTE,),
        0.6,
        abs_tol=0.5,
    ),
    Key(
        "during.gpu[].pcie_replay_count",
        Type.INTEGER,
        Kind.COUNTER,
        "PCIe packets sent again over the whole run.",
        (_E.COMMUNICATION,),
        0.5,
    ),
    Key(
        "during.gpu[].pcie_transition_count",
        Type.INTEGER,
        Kind.CONDITION,
        "Changes of the PCIe link's speed or width between busy samples.",
        (_E.COMMUNICATION,),
        0.5,
        abs_tol=1,
    ),
    Key(
        "during.gpu[].foreign_processes",
        Type.STRINGS,
        Kind.CONDITION,
        "Names of processes on this GPU that do not belong to the run.",
        (_E.VALIDITY, _E.COMPUTE),
        0.7,
    ),
    *server_counters.KEYS,
    *cache_growth.KEYS,
    Key("during.gpu[].busy_count", Type.INTEGER, Kind.VOLATILE, "Busy samples that the figures rest on."),
    Key(
        "during.worker[].cpus",
        Type.STRINGS,
        Kind.VOLATILE,
        "CPUs on which the worker's main thread was seen.",
        (_E.HOST_LAUNCH,),
    ),
    Key("during.host.sample_count", Type.INTEGER, Kind.VOLATILE, "Samples in the measured window."),
    Key(
        "during.host.sampler_cpu_percent",
        Type.NUMBER,
        Kind.VOLATILE,
        "CPU time of the sampler itself, 100 for one whole CPU.",
    ),
)


def section(samples: Columns, window: tuple[float, float] | None, seconds: float, cpu_percent: float) -> Section:
    """The section `during` of what was sampled; `window` is the measured part in seconds since the run's start."""
    inside = samples.window(*window) if window else samples
    values: dict[str, Json] = {
        "during.host.sample_count": len(inside.times),
        "during.host.sampler_cpu_percent": round(cpu_percent, 3),
    }
    values.update(_gauges("host", "", inside))
    for gpu in instances(samples, "gpu"):
        values.update(_gpu(gpu, inside, samples))
    for worker in instances(samples, "worker"):
        values.update(_gauges("worker", worker, inside))
        cpus = {str(c) for c in inside.columns.get(f"worker[{worker}].cpu", ()) if c is not None}
        if cpus:
            values[f"during.worker[{worker}].cpus"] = sorted(cpus, key=lambda c: (len(c), c))
    return Section("ok", True, seconds, METHOD, values=values, unavailable=_not_sampled(inside, values))


def _not_sampled(inside: Columns, values: dict[str, Json]) -> dict[str, Unavailable]:
    """What has no figure of the host, of all workers or of one, for want of samples: unknown, and not unset."""
    told = Unavailable(Why.NOT_RECORDED, f"too few samples: {len(inside.times)} in the measured window")
    owners = ("during.host", "during.worker", *(f"during.worker[{w}]" for w in instances(inside, "worker")))
    sampled = [path for path in values if "_median_" in path]
    return {owner: told for owner in owners if not any(path.startswith((f"{owner}.", f"{owner}[")) for path in sampled)}


def instances(samples: Columns, owner: str) -> list[str]:
    """The instances of `gpu[…]` or `worker[…]` among the columns, as written there."""
    start = f"{owner}["
    return list(dict.fromkeys(n[len(start) : n.rindex("].")] for n in samples.columns if n.startswith(start)))


def _gauges(of: str, instance: str, samples: Columns) -> Iterator[tuple[str, Json]]:
    prefix = f"{of}[{instance}]." if instance else f"{of}."
    for gauge in GAUGES:
        if gauge.of == of and (figures := summary(samples.numbers(prefix + gauge.column))):
            for part in ("median", "p5", "p95"):
                path = gauge.pattern(part).replace("[]", f"[{instance}]")
                yield path, round(float(getattr(figures, part)), 3)


def _gpu(gpu: str, inside: Columns, whole: Columns) -> Iterator[tuple[str, Json]]:
    prefix = f"gpu[{gpu}]."
    used = inside.columns.get(prefix + "utilization_percent", [])
    busy = inside.where([isinstance(u, (int, float)) and u >= BUSY_PERCENT for u in used])
    yield f"during.gpu[{gpu}].busy_count", len(busy.times)
    yield from _gauges("gpu", gpu, busy)
    reasons = [r for r in busy.columns.get(prefix + "throttle_reasons", []) if isinstance(r, list)]
    for reason in sorted({name for found in reasons for name in found}):
        share = 100 * sum(reason in found for found in reasons) / len(reasons)
        yield path_of("during.gpu[].throttle_percent[]", gpu, reason), round(share, 2)
    links = list(zip(*(busy.columns.get(prefix + name, []) for name in ("pcie_speed_gts", "pcie_width_lanes"))))
    if links:
        yield f"during.gpu[{gpu}].pcie_transition_count", transitions(links)
    if (replays := growth(whole.numbers(prefix + "pcie_replays"))) is not None:
        yield f"during.gpu[{gpu}].pcie_replay_count", int(replays)
    for name in whole.columns:
        if name.startswith(prefix + "violation_ns[") and (grown := growth(whole.numbers(name))) is not None:
            reason = name[name.rindex("[") + 1 : -1]
            yield path_of("during.gpu[].violation_seconds[]", gpu, reason), round(grown / 1e9, 3)
    foreign = [f for f in inside.columns.get(prefix + "foreign", []) if isinstance(f, list)]
    if foreign:
        yield f"during.gpu[{gpu}].foreign_processes", sorted({name for names in foreign for name in names})


def rates(samples: Columns, name: str, scale: float) -> list[float | None]:
    """A growing column as rate a second times `scale`, one figure a sample, None where it cannot be had."""
    column = samples.columns.get(name, [None] * len(samples.times))
    found: list[float | None] = [None]
    for (t0, t1), (v0, v1) in zip(pairwise(samples.times), pairwise(column)):
        usable = v0 is not None and v1 is not None and v1 >= v0 and t1 > t0
        found.append((v1 - v0) / (t1 - t0) * scale if usable else None)
    return found[: len(samples.times)]
