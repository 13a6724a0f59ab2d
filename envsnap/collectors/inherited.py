"""Inherited: what a program started from here gets: CPUs, priority, limits, privileges."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.collectors._files import Parse, cpu_list, cpu_ranges, hexadecimal, integer, parsed, switch
from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Lever, Type
from envsnap.reading import Found, Json, Missing, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "getrlimit, sched_getaffinity, /proc/self/status"

_LAUNCH = (Effect.HOST_LAUNCH,)
_LINK = (Effect.COMMUNICATION,)

STATUS: dict[str, tuple[Key, Parse]] = {
    "Mems_allowed_list": (
        Key("inherited.memory_nodes", Type.STRING, Kind.TUNABLE, "NUMA nodes that a program may take memory from.",
            (Effect.MEMORY,), 0.2, Lever.AFFINITY),
        cpu_list),
    "Umask": (
        Key("inherited.umask", Type.STRING, Kind.TUNABLE, "Permissions that new files are denied, in octal.", (), 0.01),
        str),
    "CapEff": (
        Key("inherited.capabilities", Type.STRINGS, Kind.TUNABLE,
            "Linux capabilities in effect; binding memory to nodes needs sys_nice in a container.",
            _LAUNCH, 0.15, Lever.ROOT, "Start the container with `--cap-add SYS_NICE`."),
        lambda text: _capabilities(hexadecimal(text))),
    "NoNewPrivs": (
        Key("inherited.no_new_privileges", Type.BOOLEAN, Kind.TUNABLE,
            "Whether programs can gain no privileges, so that setuid programs do not work.", (), 0.02),
        switch),
    "Seccomp": (
        Key("inherited.seccomp", Type.STRING, Kind.TUNABLE,
            "Whether system calls are filtered: off, strict or filter; "
            "a container's filter costs time per call and can forbid NUMA binding.",
            _LAUNCH, 0.2, Lever.ROOT, "Start the container with `--security-opt seccomp=unconfined`."),
        lambda text: {"0": "off", "1": "strict", "2": "filter"}[text]),
    "Speculation_Store_Bypass": (
        Key("inherited.store_bypass", Type.STRING, Kind.TUNABLE,
            "What is done about speculative store bypass; "
            "before kernel 5.16 a seccomp filter switched the mitigation on, which slows code.",
            _LAUNCH, 0.2, Lever.ROOT),
        str),
    "THP_enabled": (
        Key("inherited.transparent_huge_pages", Type.BOOLEAN, Kind.TUNABLE,
            "Whether a program may get transparent huge pages at all.", (Effect.MEMORY,), 0.15),
        switch),
}  # fmt: skip
"""Field of /proc/self/status -> its key, and what makes the value of its text."""

SCHEDULER = (
    Key("inherited.scheduling_policy", Type.STRING, Kind.TUNABLE, "Scheduling class, such as other, batch or fifo.",
        _LAUNCH, 0.3, Lever.AFFINITY),
    Key("inherited.realtime_priority", Type.INTEGER, Kind.TUNABLE, "Priority among real-time threads, 0 for ordinary.",
        _LAUNCH, 0.2, Lever.AFFINITY),
    Key("inherited.nice", Type.INTEGER, Kind.TUNABLE, "Nice value; above 0 a program gives way to others.",
        _LAUNCH, 0.3, Lever.AFFINITY),
)  # fmt: skip

AFFINITY = (
    Key("inherited.cpus", Type.STRING, Kind.TUNABLE, "CPUs that a program may run on.", _LAUNCH, 0.45, Lever.AFFINITY,
        "Start it with `taskset -c LIST` or without."),
    Key("inherited.cpus_count", Type.INTEGER, Kind.TUNABLE, "Number of CPUs that a program may run on.",
        _LAUNCH, 0.45, Lever.AFFINITY),
)  # fmt: skip


# Resource limit, unit, prior, effects, what it bounds.
LIMITS: tuple[tuple[str, str, float, tuple[Effect, ...], str], ...] = (
    ("memlock", "bytes", 0.4, _LINK, "memory that can be locked, which RDMA and pinned buffers need"),
    ("nofile", "count", 0.1, _LAUNCH, "open files"),
    ("nproc", "count", 0.1, _LAUNCH, "processes and threads of this user"),
    ("stack", "bytes", 0.05, _LAUNCH, "a stack, which also sizes those of threads"),
    ("as", "bytes", 0.1, (Effect.MEMORY,), "a program's address space"),
    ("data", "bytes", 0.1, (Effect.MEMORY,), "a program's data"),
    ("core", "bytes", 0.02, (Effect.STORAGE,), "core dumps"),
    ("rtprio", "count", 0.05, _LAUNCH, "real-time priority"),
)

KEYS = (
    *AFFINITY,
    *SCHEDULER,
    *(key for key, _ in STATUS.values()),
    Key("inherited.oom_score_adjustment", Type.INTEGER, Kind.TUNABLE,
        "How readily the kernel kills a program for lack of memory (-1000 to 1000).", (Effect.VALIDITY,), 0.05),
    *(
        Key(f"limits.{name}_{end}_{unit}", Type.INTEGER, Kind.TUNABLE,
            f"{end.title()} limit on {what}, where there is one.", effects, prior, Lever.ROOT,
            f"Change it with `ulimit`, or --ulimit {name} for a container.")
        for name, unit, prior, effects, what in LIMITS
        for end in ("soft", "hard")
    ),
    *(
        Key(f"limits.{name}_{end}_unlimited", Type.BOOLEAN, Kind.TUNABLE,
            f"Whether there is no {end} limit on {what}.", effects, prior, Lever.ROOT,
            f"Change it with `ulimit`, or --ulimit {name} for a container.")
        for name, _, prior, effects, what in LIMITS
        for end in ("soft", "hard")
    ),
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    cpus, scheduler, limits, *texts = host.found(
        [
            ["affinity", 0],
            ["scheduler", 0],
            ["limits"],
            *(["read", f"/proc/self/{name}", 65536] for name in ("status", "oom_score_adj")),
        ]
    )
    status, oom = texts
    yield "inherited.cpus", attempt(lambda: cpu_ranges(value_of(cpus)))
    yield "inherited.cpus_count", attempt(lambda: len(value_of(cpus)))
    yield "inherited.scheduling_policy", attempt(lambda: policy(value_of(scheduler)["policy"]))
    yield "inherited.realtime_priority", attempt(lambda: value_of(scheduler)["priority"])
    yield "inherited.nice", attempt(lambda: value_of(scheduler)["nice"])
    fields = attempt(lambda: status_fields(value_of(status)))
    for field, (key, parse) in STATUS.items():
        yield key.pattern, parsed(attempt(named, fields, field), parse)
    yield "inherited.oom_score_adjustment", parsed(oom, integer)
    for name, unit, *_ in LIMITS:
        for place, end in enumerate(("soft", "hard")):
            yield from limit(f"limits.{name}_{end}", unit, attempt(_bound, limits, name, place))


def limit(path: str, unit: str, found: Found) -> Iterator[tuple[str, Found]]:
    """A limit, which is -1 where there is none, as a flag and, where there is one, a number."""
    if not isinstance(found, Value):
        yield f"{path}_unlimited", found
        yield f"{path}_{unit}", found
        return
    yield f"{path}_unlimited", Value(found.value == -1)
    if found.value != -1:
        yield f"{path}_{unit}", found


def _bound(limits: Found, name: str, place: int) -> int:
    return int(named(limits, name)[place])


def status_fields(text: str) -> dict[str, str]:
    """Name -> text of the lines of a process's status file."""
    return {name: value.strip() for name, value in re.findall(r"^(\w+):(.*)$", text, re.M)}


def named(found: Found, name: str) -> Json:
    """One of several named things that were found together. Raises: Missing."""
    names = value_of(found)
    if name not in names:
        raise Missing(Why.NOT_SUPPORTED, f"this system has no {name}")
    return names[name]


def policy(number: int) -> str:
    """Name of a scheduling policy."""
    # NOTE: 1 << 30 is a flag (reset on fork), not a policy.
    names = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}
    return names.get(number & ~(1 << 30), str(number))


_CAPABILITIES = (
    "chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service "
    "net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin "
    "sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap mac_override "
    "mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore"
)
"""Names of capabilities by their bit, from 0."""


def _capabilities(mask: int) -> list[str]:
    names = _CAPABILITIES.split()
    names += [f"capability_{bit}" for bit in range(len(names), 64)]
    return sorted(name for bit, name in enumerate(names) if mask >> bit & 1)
