"""Load: what else the machine was doing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.collectors._files import natural, parsed, read_files
from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Type, path_of
from envsnap.reading import Found, Json, Missing, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "/proc/loadavg, /proc/pressure, /proc/stat, CPU clocks of all processes over 50 ms"

SAMPLE_SECONDS = 0.05
CONSUMERS = 5

_CPU = (Effect.HOST_LAUNCH,)
_QUIET = "Stop what else runs here, or measure when it is idle."

_AVERAGES = (
    Key("load.average_1m", Type.NUMBER, Kind.VOLATILE, "Threads that ran or waited, averaged over a minute.",
        _CPU, 0.2, advice=_QUIET, rel_tol=0.5, abs_tol=1.0),
    Key("load.average_5m", Type.NUMBER, Kind.VOLATILE, "Threads that ran or waited, averaged over five minutes.",
        _CPU, 0.15, advice=_QUIET, rel_tol=0.5, abs_tol=1.0),
    Key("load.average_15m", Type.NUMBER, Kind.VOLATILE, "Threads that ran or waited, averaged over a quarter hour.",
        _CPU, 0.1, advice=_QUIET, rel_tol=0.5, abs_tol=1.0),
    Key("load.runnable_threads_count", Type.INTEGER, Kind.VOLATILE, "Threads that run or wait for a CPU just now.",
        _CPU, 0.2, advice=_QUIET, rel_tol=0.5, abs_tol=4),
    Key("load.threads_count", Type.INTEGER, Kind.VOLATILE, "Threads that exist.", _CPU, 0.05, rel_tol=0.2),
)  # fmt: skip

_STAT = {
    "ctxt": Key("load.context_switches_count", Type.INTEGER, Kind.COUNTER, "Context switches since boot.", _CPU, 0.1),
    "processes": Key("load.forks_count", Type.INTEGER, Kind.COUNTER, "Processes and threads started since boot.",
                     _CPU, 0.1),
    "procs_blocked": Key("load.blocked_threads_count", Type.INTEGER, Kind.VOLATILE, "Threads that wait for storage.",
                         (Effect.STORAGE,), 0.15, abs_tol=2),
}  # fmt: skip

KEYS = (
    *_AVERAGES,
    Key("load.cpu_steal_seconds", Type.NUMBER, Kind.COUNTER,
        "Time since boot for which the hypervisor kept virtual CPUs waiting, summed over CPUs.",
        _CPU, 0.4, advice="Use a machine whose CPUs are not shared."),
    *_STAT.values(),
    Key("load.pressure[].some_percent", Type.NUMBER, Kind.VOLATILE,
        "Share of the last 10 s in which some thread waited for this resource (cpu, memory or io).",
        (Effect.HOST_LAUNCH, Effect.MEMORY, Effect.STORAGE), 0.25, advice=_QUIET, abs_tol=5.0),
    Key("load.pressure[].full_percent", Type.NUMBER, Kind.VOLATILE,
        "Share of the last 10 s in which all threads with work waited for this resource.",
        (Effect.HOST_LAUNCH, Effect.MEMORY, Effect.STORAGE), 0.25, advice=_QUIET, abs_tol=5.0),
    Key("load.pressure[].some_microseconds", Type.INTEGER, Kind.COUNTER,
        "Time since boot in which some thread waited for this resource.",
        (Effect.HOST_LAUNCH, Effect.MEMORY, Effect.STORAGE), 0.3, advice=_QUIET),
    Key("load.pressure[].full_microseconds", Type.INTEGER, Kind.COUNTER,
        "Time since boot in which all threads with work waited for this resource.",
        (Effect.HOST_LAUNCH, Effect.MEMORY, Effect.STORAGE), 0.3, advice=_QUIET),
    Key("load.processes_count", Type.INTEGER, Kind.VOLATILE, "Processes that can be seen from here.",
        _CPU, 0.05, rel_tol=0.2),
    Key("load.process_cpu_percent[]", Type.NUMBER, Kind.VOLATILE,
        "CPU time that processes of this name took over 50 ms, in percent of one CPU; of the five busiest but envsnap.",
        _CPU, 0.3, advice=_QUIET, rel_tol=0.5, abs_tol=20.0),
    Key("load.login_sessions_count", Type.INTEGER, Kind.VOLATILE, "Sessions that systemd knows of.", _CPU, 0.02),
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    resources = ("cpu", "memory", "io")
    files = read_files(host, ("/proc/loadavg", "/proc/stat", *(f"/proc/pressure/{name}" for name in resources)))
    averages = files.value("/proc/loadavg", _load)
    for place, key in enumerate(_AVERAGES):
        yield key.pattern, attempt(lambda place=place: value_of(averages)[place])
    stat = attempt(lambda: parse_stat(value_of(files["/proc/stat"])))
    for name, key in _STAT.items():
        yield key.pattern, attempt(lambda name=name: natural(_named(stat, name)))
    # NOTE: /proc/stat counts in hundredths of a second on every architecture of today.
    yield "load.cpu_steal_seconds", attempt(lambda: natural(_named(stat, "cpu_steal")) / 100)
    for resource in resources:
        yield from _pressure(resource, files[f"/proc/pressure/{resource}"])
    sessions, busiest = host.found([["list", "/run/systemd/sessions"], ["busiest", SAMPLE_SECONDS, CONSUMERS]])
    yield "load.login_sessions_count", attempt(lambda: sum(not n.endswith(".ref") for n in value_of(sessions)))
    yield "load.processes_count", attempt(lambda: value_of(busiest)["processes"])
    yield from _consumers(busiest)


def _load(text: str) -> list[float | int]:
    one, five, fifteen, threads, *_ = text.split()
    runnable, _, existing = threads.partition("/")
    return [float(one), float(five), float(fifteen), int(runnable), int(existing)]


def parse_stat(text: str) -> dict[str, str]:
    """Lines of /proc/stat that hold one number, by name, and steal time of all CPUs as `cpu_steal`."""
    fields = dict(re.findall(r"^(\w+) (\d+)$", text, re.M))
    total = re.search(r"^cpu +(\d[\d ]*)$", text, re.M)
    if total and len(total.group(1).split()) > 7:
        fields["cpu_steal"] = total.group(1).split()[7]
    return fields


def _named(stat: Found, name: str) -> str:
    fields = value_of(stat)
    if name not in fields:
        raise Missing(Why.NOT_SUPPORTED, f"/proc/stat has no {name} here")
    return str(fields[name])


def _pressure(resource: str, found: Found) -> Iterator[tuple[str, Found]]:
    lines = parsed(found, parse_pressure)
    if not isinstance(lines, Value):
        yield path_of("load.pressure[]", resource), lines
        return
    for extent, (percent, microseconds) in lines.value.items():
        yield path_of(f"load.pressure[].{extent}_percent", resource), Value(percent)
        yield path_of(f"load.pressure[].{extent}_microseconds", resource), Value(microseconds)


def parse_pressure(text: str) -> dict[str, tuple[float, int]]:
    """some and full -> percent of the last 10 s, microseconds in all."""
    lines = re.findall(r"^(some|full) avg10=([0-9.]+) .*total=(\d+)$", text, re.M)
    if not lines:
        raise Missing(Why.NOT_SUPPORTED, "no line of a form that is known")
    return {extent: (float(percent), int(total)) for extent, percent, total in lines}


def _consumers(busiest: Found) -> Iterator[tuple[str, Found]]:
    by_name = attempt(_percent_by_name, busiest)
    if not isinstance(by_name, Value):
        yield "load.process_cpu_percent", by_name
        return
    for name, percent in by_name.value.items():
        yield path_of("load.process_cpu_percent[]", name), Value(percent)


def _percent_by_name(busiest: Found) -> dict[str, float]:
    """Those that took at least one percent of a CPU; kernel threads under the name of their kind."""
    sample: dict[str, Json] = value_of(busiest)
    by_name: dict[str, float] = {}
    for name, nanoseconds in sample["busiest"]:
        kind = re.sub(r"[/:].*", "", name) if name.startswith("kworker") else name
        by_name[kind] = by_name.get(kind, 0.0) + 100.0 * nanoseconds / sample["elapsed_ns"]
    return {name: round(percent, 1) for name, percent in by_name.items() if percent >= 1.0}
