"""CPU power management: frequency scaling, turbo, idle states, power caps. A part of the section `cpu`.

A fact that each frequency domain has for itself is recorded once, as most domains have it (`cpu.governor`), and
again for every domain that deviates (`cpu[7].governor`, by the first CPU of the domain). So 256 equal CPUs cost
one reading, and one CPU that differs is seen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from envsnap.collectors._files import FileFact, Files, megahertz, natural, parsed, readings, switch
from envsnap.host import Host
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Missing, Unavailable, Value, Why, attempt

_CPU = "/sys/devices/system/cpu"
_POLICY = f"{_CPU}/cpufreq/policy[0-9]*"
_STATE = f"{_CPU}/cpu0/cpuidle/state[0-9]*"
_RAPL = "/sys/class/powercap/intel-rapl:[0-9]*"
_UNCORE = f"{_CPU}/intel_uncore_frequency/*"

_LAUNCH = (Effect.HOST_LAUNCH, Effect.COMPUTE)
_GOVERN = "Set it with `cpupower frequency-set -g performance`."

PER_DOMAIN = (
    FileFact(Key("cpu.governor", Type.STRING, Kind.TUNABLE,
                 "Policy by which the kernel picks CPU frequencies; anything but performance slows kernel launches.",
                 _LAUNCH, 0.35, Lever.ROOT, _GOVERN),
             f"{_POLICY}/scaling_governor"),
    FileFact(Key("cpu.energy_preference", Type.STRING, Kind.TUNABLE,
                 "Hint to the CPU between performance and energy (EPP), which counts under pstate drivers.",
                 _LAUNCH, 0.3, Lever.ROOT, "Set it with `cpupower set --epp performance`."),
             f"{_POLICY}/energy_performance_preference"),
    FileFact(Key("cpu.scaling_min_mhz", Type.NUMBER, Kind.TUNABLE, "Lowest frequency that the kernel may ask for.",
                 _LAUNCH, 0.15, Lever.ROOT),
             f"{_POLICY}/scaling_min_freq", megahertz),
    FileFact(Key("cpu.scaling_max_mhz", Type.NUMBER, Kind.TUNABLE, "Highest frequency that the kernel may ask for.",
                 _LAUNCH, 0.35, Lever.ROOT, "Lift the cap with `cpupower frequency-set -u`."),
             f"{_POLICY}/scaling_max_freq", megahertz),
)  # fmt: skip

# The same for all CPUs: the kernel has one scaling driver, and hardware limits count as the first domain has them.
COMMON = (
    FileFact(Key("cpu.scaling_driver", Type.STRING, Kind.IDENTITY, "Kernel driver that sets CPU frequencies.",
                 _LAUNCH, 0.2, Lever.ROOT),
             f"{_CPU}/cpufreq/policy0/scaling_driver"),
    FileFact(Key("cpu.hardware_min_mhz", Type.NUMBER, Kind.IDENTITY, "Lowest frequency that CPU 0 has.", _LAUNCH, 0.05),
             f"{_CPU}/cpufreq/policy0/cpuinfo_min_freq", megahertz),
    FileFact(Key("cpu.hardware_max_mhz", Type.NUMBER, Kind.IDENTITY,
                 "Highest frequency that CPU 0 has, turbo included.", _LAUNCH, 0.2),
             f"{_CPU}/cpufreq/policy0/cpuinfo_max_freq", megahertz),
    FileFact(Key("cpu.base_mhz", Type.NUMBER, Kind.IDENTITY, "Guaranteed frequency of CPU 0, without turbo.",
                 _LAUNCH, 0.1),
             f"{_CPU}/cpufreq/policy0/base_frequency", megahertz),
    FileFact(Key("cpu.intel_pstate_mode", Type.STRING, Kind.TUNABLE, "Mode of the intel_pstate driver.",
                 _LAUNCH, 0.1, Lever.ROOT),
             f"{_CPU}/intel_pstate/status"),
    FileFact(Key("cpu.amd_pstate_mode", Type.STRING, Kind.TUNABLE, "Mode of the amd_pstate driver.",
                 _LAUNCH, 0.1, Lever.ROOT),
             f"{_CPU}/amd_pstate/status"),
    FileFact(Key("cpu.max_performance_percent", Type.INTEGER, Kind.TUNABLE,
                 "Cap of the intel_pstate driver on all CPUs, in percent of the highest frequency.",
                 _LAUNCH, 0.35, Lever.ROOT),
             f"{_CPU}/intel_pstate/max_perf_pct", natural),
    FileFact(Key("cpu.idle_driver", Type.STRING, Kind.IDENTITY, "Kernel driver of CPU idle states.",
                 (Effect.HOST_LAUNCH,), 0.15, Lever.ROOT),
             f"{_CPU}/cpuidle/current_driver"),
    FileFact(Key("cpu.idle_governor", Type.STRING, Kind.TUNABLE, "Policy by which the kernel picks CPU idle states.",
                 (Effect.HOST_LAUNCH,), 0.15, Lever.ROOT),
             f"{_CPU}/cpuidle/current_governor"),
    FileFact(Key("cpu.haltpoll_max_nanoseconds", Type.INTEGER, Kind.TUNABLE,
                 "How long a virtual CPU polls before it halts, under the haltpoll driver.",
                 (Effect.HOST_LAUNCH,), 0.2, Lever.ROOT),
             "/sys/module/haltpoll/parameters/guest_halt_poll_ns", natural),
)  # fmt: skip

_TURBO = (f"{_CPU}/intel_pstate/no_turbo", f"{_CPU}/cpufreq/boost")

KEYS = (
    *(fact.key for fact in (*PER_DOMAIN, *COMMON)),
    *(replace(fact.key, pattern=fact.key.pattern.replace("cpu.", "cpu[].")) for fact in PER_DOMAIN),
    Key("cpu.turbo", Type.BOOLEAN, Kind.TUNABLE, "Whether CPUs may exceed their guaranteed frequency.",
        _LAUNCH, 0.35, Lever.ROOT, "Write 0 to intel_pstate/no_turbo, or 1 to cpufreq/boost."),
    Key("cpu.frequency_lowest_mhz", Type.NUMBER, Kind.CONDITION, "Frequency of the slowest CPU just now.",
        _LAUNCH, 0.2, rel_tol=0.05),
    Key("cpu.frequency_median_mhz", Type.NUMBER, Kind.CONDITION, "Median frequency over all CPUs just now.",
        _LAUNCH, 0.3, rel_tol=0.05),
    Key("cpu.frequency_highest_mhz", Type.NUMBER, Kind.CONDITION, "Frequency of the fastest CPU just now.",
        _LAUNCH, 0.3, rel_tol=0.05),
    Key("cpu.idle_state[].enabled", Type.BOOLEAN, Kind.TUNABLE, "Whether CPU 0 may enter this idle state.",
        (Effect.HOST_LAUNCH, Effect.COMMUNICATION), 0.3, Lever.ROOT, "Switch with `cpupower idle-set`."),
    Key("cpu.idle_state[].latency_microseconds", Type.INTEGER, Kind.IDENTITY,
        "Time that CPU 0 takes to leave this idle state.", (Effect.HOST_LAUNCH,), 0.1),
    Key("cpu.package[].power_limit_watts", Type.NUMBER, Kind.TUNABLE,
        "Long-term power cap of a CPU package (RAPL).", _LAUNCH, 0.25, Lever.ROOT),
    Key("cpu.uncore[].min_mhz", Type.NUMBER, Kind.TUNABLE,
        "Lowest frequency of mesh and memory controller of a die.",
        (Effect.MEMORY, Effect.COMMUNICATION), 0.2, Lever.ROOT),
    Key("cpu.uncore[].max_mhz", Type.NUMBER, Kind.TUNABLE,
        "Highest frequency of mesh and memory controller of a die.",
        (Effect.MEMORY, Effect.COMMUNICATION), 0.25, Lever.ROOT),
)  # fmt: skip

FILES = (
    *(fact.file for fact in (*PER_DOMAIN, *COMMON)),
    *_TURBO,
    *(f"{_STATE}/{name}" for name in ("name", "disable", "latency")),
    f"{_RAPL}/name",
    f"{_RAPL}/constraint_0_power_limit_uw",
    f"{_UNCORE}/min_freq_khz",
    f"{_UNCORE}/max_freq_khz",
)
"""What `collect` wants to be read."""


def collect(host: Host, files: Files, cpuinfo: str) -> Iterator[tuple[str, Found]]:
    """Readings from FILES and the text of /proc/cpuinfo."""
    yield from readings(files, COMMON)
    for fact in PER_DOMAIN:
        domains = ((int(groups[0]), parsed(found, fact.parse)) for groups, found in files.matching(fact.file))
        yield from folded(fact.key.pattern, domains)
    no_turbo, boost = (files.value(path, switch) for path in _TURBO)
    yield "cpu.turbo", Value(not no_turbo.value) if isinstance(no_turbo, Value) else boost
    yield from _frequencies(host, cpuinfo)
    yield from _idle_states(files)
    yield from files.absent(f"{_RAPL}/constraint_0_power_limit_uw", "cpu.package")
    for (package,), found in files.matching(f"{_RAPL}/constraint_0_power_limit_uw"):
        if files.text(f"/sys/class/powercap/intel-rapl:{package}/name").startswith("package"):
            path = path_of("cpu.package[].power_limit_watts", package)
            yield path, parsed(found, lambda text: natural(text) / 1_000_000)
    yield from files.absent(f"{_UNCORE}/max_freq_khz", "cpu.uncore")
    for end in ("min", "max"):
        for (die,), found in files.matching(f"{_UNCORE}/{end}_freq_khz"):
            yield path_of(f"cpu.uncore[].{end}_mhz", die), parsed(found, megahertz)


def folded(pattern: str, per_cpu: Iterable[tuple[int, Found]]) -> Iterator[tuple[str, Found]]:
    """What most CPUs have at `pattern`, and at the pattern of one CPU each one that deviates."""
    found = dict(per_cpu)
    values = Counter(reading for reading in found.values() if isinstance(reading, Value))
    if not values:
        yield pattern, next(iter(found.values()), Unavailable(Why.ABSENT, "the kernel publishes none here"))
        return
    most = max(values, key=lambda value: values[value])
    yield pattern, most
    for cpu, reading in found.items():
        if reading != most:
            yield pattern.replace("cpu.", f"cpu[{cpu}]."), reading


def _frequencies(host: Host, cpuinfo: str) -> Iterator[tuple[str, Found]]:
    # NOTE: not scaling_cur_freq where cpuinfo has the figure: kernels before 5.18 sleep 10 ms per CPU over it on x86.
    current: list[float] = [float(mhz) for mhz in re.findall(r"^cpu MHz\s*: ([0-9.]+)$", cpuinfo, re.M)]
    if not current and "CPU implementer" in cpuinfo:
        pattern = f"{_POLICY}/scaling_cur_freq"
        found = [parsed(f, megahertz) for f in host.read_matching([pattern])[pattern].values()]
        current = [f.value for f in found if isinstance(f, Value)]
    current.sort()
    for name, rank in (("lowest", 0.0), ("median", 0.5), ("highest", 1.0)):
        yield f"cpu.frequency_{name}_mhz", attempt(_ranked, current, rank)


def _ranked(current: list[float], rank: float) -> float:
    if not current:
        raise Missing(Why.NOT_SUPPORTED, "the kernel does not say how fast the CPUs run")
    return round(current[int(rank * (len(current) - 1))], 1)


def _idle_states(files: Files) -> Iterator[tuple[str, Found]]:
    yield from files.absent(f"{_STATE}/name", "cpu.idle_state")
    for (index,), name in files.matching(f"{_STATE}/name"):
        if isinstance(name, Value):
            folder = _STATE.replace("[0-9]*", index)
            yield path_of("cpu.idle_state[].enabled", name.value), files.value(f"{folder}/disable", _not_disabled)
            latency = files.value(f"{folder}/latency", natural)
            yield path_of("cpu.idle_state[].latency_microseconds", name.value), latency


def _not_disabled(text: str) -> bool:
    # NOTE: a bit mask: 1 by the user, 2 by the driver.
    return natural(text) == 0
