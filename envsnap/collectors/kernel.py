"""Kernel: release, boot parameters, scheduler and security settings, clock source, modules."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.collectors import _boot_parameters
from envsnap.collectors._files import FileFact, Files, integer, natural, read_files, readings, switch, words
from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Missing, Unavailable, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "uname, /proc/cmdline, /proc/sys/kernel, /proc/modules, /sys"

_SYS = "/proc/sys/kernel"
_CLOCK = "/sys/devices/system/clocksource/clocksource0"

_LAUNCH = (Effect.HOST_LAUNCH,)
_LINK = (Effect.COMMUNICATION,)

_FACTS = (
    FileFact(Key("kernel.command_line", Type.STRING, Kind.LABEL,
                 "Command line that the kernel was booted with; each parameter stands by itself in kernel.parameter."),
             "/proc/cmdline"),
    FileFact(Key("kernel.boot_id", Type.STRING, Kind.LABEL, "Random id of this boot."),
             f"{_SYS}/random/boot_id"),
    FileFact(Key("kernel.clock_source", Type.STRING, Kind.TUNABLE,
                 "Where the kernel takes the time from; anything slower than tsc burdens every time stamp.",
                 _LAUNCH, 0.4, Lever.ROOT, "Find out why tsc was given up: `dmesg | grep -i tsc`."),
             f"{_CLOCK}/current_clocksource"),
    FileFact(Key("kernel.clock_sources", Type.STRINGS, Kind.IDENTITY,
                 "Clock sources that could be used; the kernel drops tsc when it finds it unstable.", _LAUNCH, 0.2),
             f"{_CLOCK}/available_clocksource", words),
    FileFact(Key("kernel.autogroup", Type.BOOLEAN, Kind.TUNABLE,
                 "Whether the scheduler treats each session as one group.", _LAUNCH, 0.15, Lever.ROOT),
             f"{_SYS}/sched_autogroup_enabled", switch),
    FileFact(Key("kernel.realtime_runtime_microseconds", Type.INTEGER, Kind.TUNABLE,
                 "Time per period that real-time threads may take, -1 for all of it.", _LAUNCH, 0.05, Lever.ROOT),
             f"{_SYS}/sched_rt_runtime_us", integer),
    FileFact(Key("kernel.realtime_period_microseconds", Type.INTEGER, Kind.TUNABLE,
                 "Period over which the time of real-time threads is limited.", _LAUNCH, 0.05, Lever.ROOT),
             f"{_SYS}/sched_rt_period_us", natural),
    FileFact(Key("kernel.bandwidth_slice_microseconds", Type.INTEGER, Kind.TUNABLE,
                 "Share of a CPU quota that a CPU takes at a time.", _LAUNCH, 0.05, Lever.ROOT),
             f"{_SYS}/sched_cfs_bandwidth_slice_us", natural),
    FileFact(Key("kernel.preemption_mode", Type.STRING, Kind.TUNABLE,
                 "Preemption in force where the kernel can switch it: none, voluntary, full or lazy.",
                 _LAUNCH, 0.15, Lever.ROOT),
             "/sys/kernel/debug/sched/preempt", lambda text: _in_round_brackets(text)),
    FileFact(Key("kernel.scheduler_extension", Type.STRING, Kind.TUNABLE,
                 "BPF program that schedules in place of the kernel's own scheduler.", _LAUNCH, 0.4, Lever.ROOT),
             "/sys/kernel/sched_ext/root/ops"),
    FileFact(Key("kernel.timer_migration", Type.BOOLEAN, Kind.TUNABLE,
                 "Whether timers of idle CPUs move to busy ones.", _LAUNCH, 0.05, Lever.ROOT),
             f"{_SYS}/timer_migration", switch),
    FileFact(Key("kernel.nmi_watchdog", Type.BOOLEAN, Kind.TUNABLE,
                 "Whether the watchdog for hard lock-ups takes a performance counter.", _LAUNCH, 0.05, Lever.ROOT),
             f"{_SYS}/nmi_watchdog", switch),
    FileFact(Key("kernel.split_lock_mitigation", Type.BOOLEAN, Kind.TUNABLE,
                 "Whether programs with misaligned atomic accesses are slowed.", _LAUNCH, 0.1, Lever.ROOT),
             f"{_SYS}/split_lock_mitigate", switch),
    FileFact(Key("kernel.perf_event_paranoid", Type.INTEGER, Kind.TUNABLE,
                 "Who may use performance counters (-1 everybody, higher is stricter).", (), 0.02, Lever.ROOT),
             f"{_SYS}/perf_event_paranoid", integer),
    FileFact(Key("kernel.ptrace_scope", Type.INTEGER, Kind.TUNABLE,
                 "Who may look into another process under Yama (0 its user, 1 its ancestors, 2 root, 3 nobody): "
                 "it also rules CUDA IPC by pidfd and what envsnap can see of workers.",
                 _LINK, 0.1, Lever.ROOT),
             f"{_SYS}/yama/ptrace_scope", natural),
    FileFact(Key("kernel.address_randomization_mode", Type.INTEGER, Kind.TUNABLE,
                 "Whether addresses of programs are random (0 no, 1 in part, 2 yes): a source of noise between runs.",
                 _LAUNCH, 0.02, Lever.ROOT),
             f"{_SYS}/randomize_va_space", natural),
    FileFact(Key("kernel.taints", Type.STRINGS, Kind.IDENTITY,
                 "Letters of what taints the kernel: P, O, E are foreign modules; D, L, M, W are trouble it had.",
                 _LAUNCH, 0.1),
             f"{_SYS}/tainted", lambda text: _taints(natural(text))),
    FileFact(Key("kernel.modules", Type.STRINGS, Kind.TUNABLE,
                 "Loaded kernel modules that concern GPUs, RDMA, network file systems and virtualization.",
                 _LINK, 0.3, Lever.ROOT, "Load what is missing, such as nvidia_peermem, with modprobe."),
             "/proc/modules", lambda text: _modules(text)),
    FileFact(Key("kernel.security_modules", Type.STRINGS, Kind.TUNABLE,
                 "Linux security modules in force, in the order they are asked.", _LAUNCH, 0.05, Lever.ROOT),
             "/sys/kernel/security/lsm", lambda text: text.split(",")),
)  # fmt: skip

_MIGRATION_COST = (f"{_SYS}/sched_migration_cost_ns", "/sys/kernel/debug/sched/migration_cost_ns")
_BASE_SLICE = ("/sys/kernel/debug/sched/base_slice_ns", f"{_SYS}/sched_min_granularity_ns")

KEYS = (
    *(fact.key for fact in _FACTS),
    _boot_parameters.KEY,
    Key("kernel.release", Type.STRING, Kind.IDENTITY, "Release of the running Linux kernel.",
        _LAUNCH, 0.2, Lever.ROOT),
    Key("kernel.version", Type.STRING, Kind.IDENTITY, "Build number and date of the running Linux kernel.",
        _LAUNCH, 0.1, Lever.ROOT),
    Key("kernel.compiler", Type.STRING, Kind.IDENTITY, "Compiler that built the kernel; kernel modules should match.",
        (), 0.02),
    Key("kernel.preemption", Type.STRING, Kind.IDENTITY,
        "Preemption model that the kernel was built with, as its version says; not_said means none or voluntary.",
        _LAUNCH, 0.15),
    Key("kernel.uptime_seconds", Type.NUMBER, Kind.VOLATILE, "Time since boot.", (), 0.02),
    Key("kernel.migration_cost_nanoseconds", Type.INTEGER, Kind.TUNABLE,
        "How long a thread counts as warm on its CPU, and is left there.", _LAUNCH, 0.15, Lever.ROOT),
    Key("kernel.base_slice_nanoseconds", Type.INTEGER, Kind.TUNABLE,
        "How long a thread runs before the scheduler looks for another.", _LAUNCH, 0.15, Lever.ROOT),
    Key("kernel.module_version[]", Type.STRING, Kind.IDENTITY,
        "Version that a loaded module of concern gives itself; it tells a vendor's RDMA stack from the kernel's own.",
        _LINK, 0.3),
)  # fmt: skip

_VERSIONED = "bnxt* efa* gdrdrv* ib_* irdma* knem* lustre* mlx* nv_* nvidia* rdma_* xpmem*"
"""Modules whose version is read; most others have none, and looking for it takes longer than all else here."""


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    uname = attempt(host.one, "uname")
    extra = ("/proc/uptime", "/proc/version", *_module_files(), *_MIGRATION_COST, *_BASE_SLICE)
    files = read_files(host, (*(fact.file for fact in _FACTS), *extra))
    for name in ("release", "version"):
        yield f"kernel.{name}", attempt(lambda name=name: value_of(uname)[name])
    yield "kernel.preemption", attempt(lambda: _preemption(value_of(uname)["version"]))
    yield "kernel.compiler", files.value("/proc/version", _compiler)
    yield "kernel.uptime_seconds", files.value("/proc/uptime", lambda text: float(text.split()[0]))
    yield from readings(files, _FACTS)
    yield "kernel.migration_cost_nanoseconds", _first(files, _MIGRATION_COST)
    yield "kernel.base_slice_nanoseconds", _first(files, _BASE_SLICE)
    yield from _boot_parameters.collect(files["/proc/cmdline"])
    yield from _module_versions(files)


def _module_files() -> Iterator[str]:
    return (f"/sys/module/{name}/version" for name in _VERSIONED.split())


def _module_versions(files: Files) -> Iterator[tuple[str, Found]]:
    versions = {
        pattern.split("/")[3].replace("*", rest): found
        for pattern in _module_files()
        for (rest,), found in files.matching(pattern)
    }
    if not versions:
        yield "kernel.module_version", Unavailable(Why.ABSENT, "no module of concern tells its version")
    for name, found in versions.items():
        yield path_of("kernel.module_version[]", name), found


def _preemption(version: str) -> str:
    match = re.search(r"\bPREEMPT(?:_(\w+))?", version)
    if not match:
        return "not_said"
    return (match.group(1) or "full").lower()


def _compiler(text: str) -> str:
    match = re.search(r"\(([\w.-]*gcc[^()]*(?:\([^()]*\))?[^(),]*|[^()]*clang version [0-9.]+)", text)
    if not match:
        raise Missing(Why.NOT_SUPPORTED, "the kernel's version names no compiler known here")
    return match.group(1).strip()


def _first(files: Files, places: tuple[str, ...]) -> Found:
    """The number at the first of the places that different kernels use, or why the first has none."""
    found = [files.value(place, natural) for place in places]
    return next((f for f in found if isinstance(f, Value)), found[0])


def _in_round_brackets(text: str) -> str:
    match = re.search(r"\((\w+)\)", text)
    if not match:
        raise Missing(Why.NOT_SUPPORTED, f"it chooses none: {text[:80]!r}")
    return match.group(1)


def _taints(mask: int) -> list[str]:
    return sorted(letter for bit, letter in enumerate("PFSRMBUDAWCIOELKXTNJ") if mask >> bit & 1)


_CONCERNING = re.compile(
    r"(nvidia\w*|nv_\w+|nvme\w*|gdrdrv|nouveau|amdgpu|xe|ib_\w+|rdma_\w+|iw_\w+|mlx[45]_\w+|mlx_compat|bnxt_\w+|irdma"
    r"|efa|rdma_rxe|siw|knem|xpmem|nfs|nfsv\d|rpcrdma|lustre|lnet|ko2iblnd|beegfs|wekafs\w*|ceph|cifs|fuse|virtiofs"
    r"|kvm\w*|vfio\w*|vhost\w*|zram|dm_crypt)\Z"
)


def _modules(text: str) -> list[str]:
    names = {line.split()[0] for line in text.splitlines() if line.strip()}
    return sorted(name for name in names if _CONCERNING.match(name))
