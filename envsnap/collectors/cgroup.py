"""Control groups: the limits over this process, and how often it ran into them.

A limit is the tightest of those on the way from the process's own group to the highest one that can be seen from
here; in a container that is often the container's own. Where nothing limits, `…_limited` is false, and there is
no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from envsnap.collectors._cgroup_tree import Tree, parse_groups
from envsnap.collectors._files import Parse, cpu_list, natural
from envsnap.collectors._mounts import mounts
from envsnap.host import Host
from envsnap.keys import Effect, Key, Kind, Lever, Type
from envsnap.reading import Found, Json, Missing, Unavailable, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "/proc/self/cgroup, /proc/self/mountinfo, the files of cgroup v1 and v2"

_CPU = (Effect.HOST_LAUNCH, Effect.COMMUNICATION)
_MEMORY = (Effect.MEMORY, Effect.HOST_LAUNCH)

KEYS = (
    Key("cgroup.mode", Type.STRING, Kind.IDENTITY, "How control groups are mounted: unified (v2), legacy (v1), hybrid.",
        _CPU, 0.1, Lever.ROOT),
    Key("cgroup.path", Type.STRING, Kind.LABEL, "Control group of this process in the v2 hierarchy."),
    Key("cgroup.cpu_limited", Type.BOOLEAN, Kind.TUNABLE, "Whether a quota limits CPU time.", _CPU, 0.5, Lever.ROOT,
        "Start the container without a CPU limit: a quota stops threads for whole periods of 100 ms."),
    Key("cgroup.cpu_quota_cpus", Type.NUMBER, Kind.TUNABLE, "CPU time that the quota grants, in CPUs.",
        _CPU, 0.5, Lever.ROOT, "Raise the container's CPU limit, or start it without one."),
    Key("cgroup.cpu_weight", Type.INTEGER, Kind.TUNABLE, "Share of CPU time when groups compete (v2, 100 by default).",
        _CPU, 0.15, Lever.ROOT),
    Key("cgroup.cpu_shares", Type.INTEGER, Kind.TUNABLE, "Share of CPU time when groups compete (v1, 1024 by default).",
        _CPU, 0.15, Lever.ROOT),
    Key("cgroup.cpus", Type.STRING, Kind.TUNABLE, "CPUs that the group may run on.", _CPU, 0.4, Lever.ROOT,
        "Change the container's --cpuset-cpus."),
    Key("cgroup.memory_nodes", Type.STRING, Kind.TUNABLE, "NUMA nodes that the group may take memory from.",
        _MEMORY, 0.3, Lever.ROOT),
    Key("cgroup.memory_limited", Type.BOOLEAN, Kind.TUNABLE, "Whether memory is limited.", _MEMORY, 0.2, Lever.ROOT),
    Key("cgroup.memory_limit_bytes", Type.INTEGER, Kind.TUNABLE,
        "Memory beyond which the group's processes are killed.", _MEMORY, 0.2, Lever.ROOT),
    Key("cgroup.memory_high_limited", Type.BOOLEAN, Kind.TUNABLE, "Whether a group is slowed for its use of memory.",
        _MEMORY, 0.2, Lever.ROOT),
    Key("cgroup.memory_high_bytes", Type.INTEGER, Kind.TUNABLE,
        "Memory beyond which the group is slowed and made to give some back.", _MEMORY, 0.3, Lever.ROOT),
    Key("cgroup.swap_limited", Type.BOOLEAN, Kind.TUNABLE, "Whether swap space is limited.", _MEMORY, 0.05, Lever.ROOT),
    Key("cgroup.swap_limit_bytes", Type.INTEGER, Kind.TUNABLE, "Swap space that the group may use (v2).",
        _MEMORY, 0.05, Lever.ROOT),
    Key("cgroup.tasks_limited", Type.BOOLEAN, Kind.TUNABLE, "Whether the number of threads is limited.",
        _CPU, 0.05, Lever.ROOT),
    Key("cgroup.tasks_limit_count", Type.INTEGER, Kind.TUNABLE, "Processes and threads that the group may have.",
        _CPU, 0.1, Lever.ROOT),
    Key("cgroup.io_limited", Type.BOOLEAN, Kind.TUNABLE, "Whether a device's speed is limited for the group.",
        (Effect.STORAGE,), 0.2, Lever.ROOT),
    Key("cgroup.memory_used_bytes", Type.INTEGER, Kind.VOLATILE, "Memory that the group uses, cached files included.",
        _MEMORY, 0.05, rel_tol=0.2, abs_tol=64 << 20),
    Key("cgroup.cpu_throttled_count", Type.INTEGER, Kind.COUNTER, "Periods in which the quota stopped the group.",
        _CPU, 0.6, advice="Raise the container's CPU limit, or start it without one."),
    Key("cgroup.cpu_throttled_microseconds", Type.INTEGER, Kind.COUNTER,
        "Time for which the quota stopped the group, summed over CPUs.", _CPU, 0.6),
    Key("cgroup.memory_limit_hits_count", Type.INTEGER, Kind.COUNTER,
        "Times that the group ran against its memory limit.", _MEMORY, 0.4),
    Key("cgroup.memory_high_hits_count", Type.INTEGER, Kind.COUNTER,
        "Times that the group was slowed for its use of memory.", _MEMORY, 0.4),
    Key("cgroup.out_of_memory_kills_count", Type.INTEGER, Kind.COUNTER,
        "Processes of the group that were killed for lack of memory.", (Effect.MEMORY, Effect.VALIDITY), 0.4),
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    groups = parse_groups(host.read("/proc/self/cgroup", 65536))
    table = mounts(host)
    types = {mount.type for mount in table}
    modes = {(True, True): "hybrid", (True, False): "legacy", (False, True): "unified"}
    mode = modes.get(("cgroup" in types, "cgroup2" in types))
    yield "cgroup.mode", Value(mode) if mode else Unavailable(Why.ABSENT, "no control groups are mounted here")
    if "" in groups:
        yield "cgroup.path", Value(groups[""])
    tree = Tree(host, groups, table)
    yield from _limits(tree)
    yield from _own(tree)
    yield from _throttling(tree)


def _limits(tree: Tree) -> Iterator[tuple[str, Found]]:
    yield from _limit("cpu_limited", "cpu_quota_cpus", attempt(_cpu_quota, tree))
    for limited, number, controller, v1, v2 in (
        ("memory_limited", "memory_limit_bytes", "memory", "memory.limit_in_bytes", "memory.max"),
        ("memory_high_limited", "memory_high_bytes", "memory", "", "memory.high"),
        ("swap_limited", "swap_limit_bytes", "memory", "", "memory.swap.max"),
        ("tasks_limited", "tasks_limit_count", "pids", "pids.max", "pids.max"),
    ):
        yield from _limit(limited, number, attempt(_tightest, tree, controller, v1, v2))
    yield "cgroup.io_limited", attempt(_io_limited, tree)


def _limit(limited: str, number: str, found: Found) -> Iterator[tuple[str, Found]]:
    """A limit, which is None where nothing limits, as two readings."""
    if not isinstance(found, Value):
        yield f"cgroup.{limited}", found
        yield f"cgroup.{number}", found
        return
    yield f"cgroup.{limited}", Value(found.value is not None)
    if found.value is not None:
        yield f"cgroup.{number}", found


def _tightest(tree: Tree, controller: str, v1: str, v2: str) -> int | None:
    limits = tree.limits(controller, tree.name(controller, v1, v2), _bounded)
    return min((limit for limit in limits if limit is not None), default=None)


def _bounded(text: str) -> int | None:
    # NOTE: v1 says *unlimited* by the largest number of whole pages.
    number = -1 if text == "max" else int(text)
    return None if number < 0 or number >= 1 << 62 else number


def _cpu_quota(tree: Tree) -> float | None:
    if tree.place("cpu").version == 2:
        texts = tree.limits("cpu", "cpu.max")
    else:
        halves = [tree.limits("cpu", f"cpu.cfs_{part}_us") for part in ("quota", "period")]
        texts = [f"{quota} {period}" for quota, period in zip(*halves)]
    quotas = [_cpus(text) for text in texts]
    return min((quota for quota in quotas if quota is not None), default=None)


def _cpus(text: str) -> float | None:
    quota, period = text.split()
    return None if quota == "max" or int(quota) < 0 else round(int(quota) / int(period), 3)


def _io_limited(tree: Tree) -> bool:
    if tree.place("blkio").version == 2:
        return any(tree.limits("blkio", "io.max"))
    return any(any(tree.limits("blkio", f"blkio.throttle.{way}_bps_device")) for way in ("read", "write"))


# -- the process's own group ----------------------------------------------------------------------------------


def _own(tree: Tree) -> Iterator[tuple[str, Found]]:
    for key, controller, v1, v2, parse in (
        ("cpu_weight", "cpu", "", "cpu.weight", natural),
        ("cpu_shares", "cpu", "cpu.shares", "", natural),
        ("cpus", "cpuset", "cpuset.effective_cpus", "cpuset.cpus.effective", cpu_list),
        ("memory_nodes", "cpuset", "cpuset.effective_mems", "cpuset.mems.effective", cpu_list),
        ("memory_used_bytes", "memory", "memory.usage_in_bytes", "memory.current", natural),
        ("memory_limit_hits_count", "memory", "memory.failcnt", "memory.events", partial(_event, "max")),
        ("memory_high_hits_count", "memory", "", "memory.events", partial(_event, "high")),
        ("out_of_memory_kills_count", "memory", "memory.oom_control", "memory.events", partial(_event, "oom_kill")),
    ):
        yield f"cgroup.{key}", attempt(_nearest, tree, controller, v1, v2, parse)


def _nearest(tree: Tree, controller: str, v1: str, v2: str, parse: Parse) -> Json:
    return tree.nearest(controller, tree.name(controller, v1, v2), parse)


def _throttling(tree: Tree) -> Iterator[tuple[str, Found]]:
    """A quota is counted in the group that has it, which may lie above the process's own: the highest count holds."""
    for key, v1, v2, scale in (
        ("cpu_throttled_count", "nr_throttled", "nr_throttled", 1),
        ("cpu_throttled_microseconds", "throttled_time", "throttled_usec", 1000),
    ):
        yield f"cgroup.{key}", attempt(_most_throttled, tree, v1, v2, scale)


def _most_throttled(tree: Tree, v1: str, v2: str, v1_scale: int) -> int:
    counts = tree.all("cpu", "cpu.stat", partial(_event, tree.name("cpu", v1, v2), otherwise=0))
    if not counts:
        raise Missing(Why.ABSENT, "no cpu.stat in any group on the way up")
    return int(max(counts)) // (v1_scale if tree.place("cpu").version == 1 else 1)


def _event(name: str, text: str, otherwise: int | None = None) -> int:
    """The count of one event in a file that has lines `event count`, or where v1's file is but one number, that."""
    if text.isdecimal():
        return int(text)
    fields = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    if name in fields:
        return natural(fields[name])
    if otherwise is None:
        raise Missing(Why.NOT_SUPPORTED, f"this kernel does not count {name}")
    return otherwise
