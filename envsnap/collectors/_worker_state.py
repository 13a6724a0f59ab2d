"""What the kernel says of one process: where it runs, on what, with which rights and limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from envsnap.collectors._files import cpu_count, cpu_list, integer, parsed
from envsnap.collectors.inherited import LIMITS, SCHEDULER, STATUS, limit, named, policy, status_fields
from envsnap.host import Host, value_of
from envsnap.keys import At, Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Missing, Unavailable, Value, Why, attempt
from envsnap.workers.tree import TICKS_PER_SECOND, Process

_LAUNCH = (Effect.HOST_LAUNCH,)
_ARGUMENTS = (Effect.VERIFY, Effect.DRAFT, Effect.COMMUNICATION, Effect.COMPUTE, Effect.WORKLOAD)

# What a child of multiprocessing is called with are numbers of open files.
_NUMBERS = (At("*spawn*", Kind.VOLATILE), At("*forkserver*", Kind.VOLATILE), At("*resource_tracker*", Kind.VOLATILE))

_LIMIT_NAMES = {
    "memlock": "Max locked memory",
    "nofile": "Max open files",
    "nproc": "Max processes",
    "stack": "Max stack size",
}
_WORKER_LIMITS = [declared for declared in LIMITS if declared[0] in _LIMIT_NAMES]


def _as_worker(key: Key) -> Key:
    """What is declared of the program to be started, of one that runs."""
    return replace(key, pattern=f"worker[].{key.name}", advice="")


KEYS = (
    Key("worker[].argv", Type.STRINGS, Kind.TUNABLE, "Arguments that the process was started with, in order.",
        _ARGUMENTS, 0.6, Lever.ARGUMENT, at=_NUMBERS),
    Key("worker[].title", Type.STRING, Kind.LABEL, "Title that the process has given itself."),
    Key("worker[].executable", Type.STRING, Kind.IDENTITY, "Program file that the process runs.",
        (Effect.HOST_LAUNCH,), 0.3, Lever.PACKAGE),
    Key("worker[].executable_replaced", Type.BOOLEAN, Kind.IDENTITY,
        "Whether that file was replaced or removed since, so that the process runs what is no longer installed.",
        (Effect.VALIDITY,), 0.4, None, "Restart it."),
    Key("worker[].parent", Type.STRING, Kind.IDENTITY, "Role of the process that started this one.", (), 0.02),
    Key("worker[].started_seconds", Type.NUMBER, Kind.VOLATILE,
        "Unix time at which the process was started; what was changed later it has not seen."),
    Key("worker[].ended", Type.BOOLEAN, Kind.IDENTITY,
        "Whether the process has ended without its parent having noticed.", (Effect.VALIDITY,), 0.9),
    Key("worker[].threads_count", Type.INTEGER, Kind.VOLATILE, "Threads of the process.", rel_tol=0.1),
    Key("worker[].working_directory", Type.STRING, Kind.TUNABLE, "Directory that the process works in.",
        (Effect.STORAGE,), 0.05),
    Key("worker[].cpus", Type.STRING, Kind.TUNABLE, "CPUs that the main thread of the process may run on.",
        _LAUNCH, 0.45, Lever.AFFINITY, "Start it with `taskset -c LIST`, or see what binds it: numactl or the engine."),
    Key("worker[].cpus_count", Type.INTEGER, Kind.TUNABLE, "Number of CPUs that the main thread may run on.",
        _LAUNCH, 0.45, Lever.AFFINITY),
    Key("worker[].numa_policy", Type.STRING, Kind.TUNABLE,
        "Where the process takes memory from: default, bind:NODES, prefer:NODE or interleave:NODES.",
        (Effect.MEMORY, Effect.HOST_LAUNCH), 0.3, Lever.AFFINITY, "Start it with or without `numactl --membind`."),
    *map(_as_worker, SCHEDULER),
    *(_as_worker(key) for key, _ in STATUS.values()),
    Key("worker[].oom_score_adjustment", Type.INTEGER, Kind.TUNABLE,
        "How readily the kernel kills the process for lack of memory (-1000 to 1000).", (Effect.VALIDITY,), 0.05),
    Key("worker[].user_id", Type.INTEGER, Kind.LABEL, "Effective user id of the process."),
    Key("worker[].namespaces_apart", Type.STRINGS, Kind.TUNABLE,
        "Namespaces in which the process is apart from the one that captured.", (Effect.COMMUNICATION,), 0.1),
    Key("worker[].cgroup", Type.STRING, Kind.LABEL, "Control group of the process, as the capturing process sees it."),
    Key("worker[].gpu_devices", Type.STRINGS, Kind.TUNABLE,
        "GPU device files that the process has open; CUDA opens every visible GPU, not only the one it computes on.",
        (Effect.COMPUTE, Effect.COMMUNICATION), 0.3, Lever.ENV),
    *(
        Key(f"worker[].{name}_soft_{unit}", Type.INTEGER, Kind.TUNABLE, f"Soft limit on {what}, where there is one.",
            effects, prior, Lever.ROOT)
        for name, unit, prior, effects, what in _WORKER_LIMITS
    ),
    *(
        Key(f"worker[].{name}_soft_unlimited", Type.BOOLEAN, Kind.TUNABLE,
            f"Whether there is no soft limit on {what}.", effects, prior, Lever.ROOT)
        for name, _, prior, effects, what in _WORKER_LIMITS
    ),
)  # fmt: skip

_GPU = r"^/dev/(nvidia\d+|nvidia-caps/nvidia-cap\d+|kfd|dri/renderD\d+)$"


def read(host: Host, processes: Sequence[Process]) -> tuple[Found, Found, dict[int, list[Found]]]:
    """Uptime, own namespaces, and the answers about each process, in one batch."""
    requests = [request for p in processes for request in _requests(p.pid)]
    uptime, own, *answers = host.found([["read", "/proc/uptime"], ["links", "/proc/self/ns"], *requests])
    each = len(_requests(0))
    return uptime, own, {p.pid: answers[i * each : (i + 1) * each] for i, p in enumerate(processes)}


def _requests(pid: int) -> list[list[object]]:
    folder = f"/proc/{pid}"
    return [
        ["read", f"{folder}/status"],
        ["read", f"{folder}/limits"],
        ["read", f"{folder}/cgroup"],
        ["read", f"{folder}/oom_score_adj"],
        # NOTE: the whole file costs a walk over all pages; the policy of the first mapping is that of the process.
        ["read", f"{folder}/numa_maps", 255, True],
        ["link", f"{folder}/exe"],
        ["link", f"{folder}/cwd"],
        ["links", f"{folder}/ns"],
        ["links", f"{folder}/fd", _GPU],
    ]


def readings(
    role: str, process: Process, answers: Sequence[Found], uptime: Found, own: Found, now: Found
) -> Iterator[tuple[str, Found]]:
    """Yield the readings of one process; `now` is the machine's Unix time."""
    status, limits, cgroup, oom, numa, exe, cwd, namespaces, devices = map(_ended, answers)

    def path(name: str) -> str:
        return path_of(f"worker[].{name}", role)

    yield path("ended"), Value(process.zombie)
    if process.retitled:
        yield path("argv"), Unavailable(Why.CLOBBERED, "the process has written its title over its arguments")
        yield path("title"), Value(" ".join(process.argv))
    elif process.argv:
        yield path("argv"), Value(list(process.argv))
    yield path("executable"), parsed(exe, lambda text: text.removesuffix(" (deleted)"))
    yield path("executable_replaced"), parsed(exe, lambda text: text.endswith(" (deleted)"))
    yield path("started_seconds"), attempt(_started, process, uptime, now)
    yield path("threads_count"), Value(process.threads)
    yield path("scheduling_policy"), Value(policy(process.policy))
    yield path("realtime_priority"), Value(process.realtime_priority)
    yield path("nice"), Value(process.nice)
    yield path("working_directory"), cwd
    fields = attempt(lambda: status_fields(value_of(status)))
    yield path("cpus"), parsed(attempt(named, fields, "Cpus_allowed_list"), cpu_list)
    yield path("cpus_count"), parsed(attempt(named, fields, "Cpus_allowed_list"), cpu_count)
    yield path("user_id"), parsed(attempt(named, fields, "Uid"), lambda text: int(text.split()[1]))
    for field, (key, parse) in STATUS.items():
        yield path(key.name), parsed(attempt(named, fields, field), parse)
    yield path("oom_score_adjustment"), parsed(oom, integer)
    yield path("numa_policy"), parsed(numa, _second_word)
    yield path("cgroup"), parsed(cgroup, _own_group)
    yield path("namespaces_apart"), attempt(_apart, namespaces, own)
    yield path("gpu_devices"), attempt(lambda: sorted({t.removeprefix("/dev/") for t in value_of(devices).values()}))
    for name, unit, *_ in _WORKER_LIMITS:
        yield from limit(path(f"{name}_soft"), unit, parsed(limits, partial(_soft, name)))


def _ended(found: Found) -> Found:
    """NOTE: below /proc/PID, a file that is absent means that the process has ended."""
    if isinstance(found, Unavailable) and found.why is Why.ABSENT:
        return Unavailable(Why.GONE, "the process has ended, or has none")
    return found


def _started(process: Process, uptime: Found, now: Found) -> float:
    booted = float(value_of(now)) - float(value_of(uptime).split()[0])
    return round(booted + process.start_ticks / TICKS_PER_SECOND, 1)


def _second_word(text: str) -> str:
    words = text.split("\n", 1)[0].split()
    if len(words) < 2:
        raise Missing(Why.GONE, "the process has no memory")
    return words[1]


def _own_group(text: str) -> str:
    """The unified group's path, else the longest of version 1."""
    paths = {line.split(":", 2)[1]: line.split(":", 2)[2] for line in text.splitlines() if line.count(":") >= 2}
    if not paths:
        raise Missing(Why.NOT_SUPPORTED, "this kernel has no control groups")
    unified = paths.get("", "")
    return unified if unified not in ("", "/") else max(paths.values(), key=len)


def _apart(theirs: Found, own: Found) -> list[str]:
    ours: Mapping[str, str] = value_of(own)
    return sorted(
        name for name, link in value_of(theirs).items() if "_for_children" not in name and ours.get(name) != link
    )


def _soft(name: str, text: str) -> int:
    match = re.search(rf"^{_LIMIT_NAMES[name]} +(\d+|unlimited) ", text, re.M)
    if not match:
        raise Missing(Why.NOT_SUPPORTED, f"the kernel says no limit of that name: {_LIMIT_NAMES[name]}")
    return -1 if match[1] == "unlimited" else int(match[1])
