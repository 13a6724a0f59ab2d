"""Items by the sections of a capture: what is unavailable in them says what cannot be read here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from envsnap.doctor.item import HINDERED, REFUSED, Item, State
from envsnap.reading import Unavailable, Why
from envsnap.snapshot import Section, Snapshot
from envsnap.wording import plural

_BY_REASON: Mapping[Why | None, str] = {
    Why.DENIED: "run envsnap as root (sudo -n)",
    Why.TIMEOUT: "give it more time (--deadline 30), or find out what hangs: a driver or a file system",
    Why.TOO_LARGE: "nothing: envsnap reads so much and no more",
    Why.CLOBBERED: "SPT_NOENV=1 in the environment at the server's start keeps what a title overwrites",
    Why.TORN: "capture again once the processes have settled",
    None: "envsnap record DIR keeps what it met, for a bug report",
}
"""What would change it, where a subject does not know better; None: an error."""

_SLOW_SECONDS = 3.0


@dataclass(frozen=True)
class Subject:
    """Sections that are read by the same way, so that they fail together."""

    code: str
    title: str
    sections: tuple[str, ...]
    lost: str
    change: Mapping[Why | None, str] = field(default_factory=dict)
    expected: Callable[[Snapshot], bool] = lambda snapshot: False
    """Whether it should be here though it says it is absent."""
    slow: str = ""
    """What would make it faster."""


def _has_nvidia_gpu(snapshot: Snapshot) -> bool:
    there = ("nvidia_driver", "gpu_device")
    return any((s := snapshot.sections.get(name)) is not None and s.values for name in there)


SUBJECTS = (
    Subject(
        "nvml",
        "GPUs, by NVML",
        ("gpu", "gpu_pair"),
        "clocks, power limits, throttle reasons, NVLinks, topology and users of the GPUs",
        {
            Why.ABSENT: "install the driver's libnvidia-ml.so.1; in a container NVIDIA_DRIVER_CAPABILITIES=utility,…",
            Why.TIMEOUT: "see dmesg for Xid errors: a GPU that does not answer holds up NVML",
        },
        _has_nvidia_gpu,
    ),
    Subject(
        "gpu_holders",
        "who holds the GPU devices",
        ("gpu_device",),
        "programs of other users or containers that have a GPU open",
        {Why.DENIED: "run envsnap as root, in the host's PID namespace"},
    ),
    Subject("driver", "the NVIDIA driver's settings", ("nvidia_driver",), "module parameters, fabric manager, GSP"),
    Subject(
        "kernel_log",
        "the kernel's log",
        ("kernel_log",),
        "Xid errors, PCIe and memory errors, machine checks, processes killed for memory",
        {Why.DENIED: "sudo, or sysctl kernel.dmesg_restrict=0; a container has to be read from its host"},
    ),
    Subject(
        "pci",
        "PCI configuration space",
        ("pci",),
        "ACS, relaxed ordering, payload sizes and link capabilities of GPUs and adapters",
        {Why.DENIED: "run envsnap as root: others are shown the first 64 bytes of it"},
    ),
    Subject(
        "cgroup",
        "control groups",
        ("cgroup",),
        "CPU and memory limits, and time throttled by them",
        {Why.ABSENT: "mount /sys/fs/cgroup in the container"},
        lambda snapshot: True,
    ),
    Subject("rdma", "RDMA adapters", ("rdma",), "ports, rates, GID tables and error counters"),
    Subject(
        "git",
        "git trees",
        ("git",),
        "which revision is checked out, and what was changed in it",
        {
            Why.DENIED: "git config --global --add safe.directory DIR, where git distrusts the owner",
            Why.TIMEOUT: "git -C DIR update-index --untracked-cache, or a tree on a local disk",
        },
        slow="git -C DIR update-index --untracked-cache, or a tree on a local disk",
    ),
    Subject(
        "server",
        "the server itself",
        ("server",),
        "the arguments that it resolved, its figures",
        {Why.DENIED: "name the file with its key: --api-key-file FILE"},
    ),
)

_ELSEWHERE = frozenset({"worker", "worker_record"})
"""Sections that another module of this package speaks of."""


def items(snapshot: Snapshot) -> Iterator[Item]:
    """An item for each subject, and one for each other section that was not wholly read."""
    covered = {name for subject in SUBJECTS for name in subject.sections} | _ELSEWHERE
    for subject in SUBJECTS:
        if item := _item(subject, snapshot):
            yield item
    known = list(_container(snapshot))
    yield from known
    for name in sorted(snapshot.sections.keys() - covered - {item.code for item in known}):
        item = _item(Subject(name, f"section {name}", (name,), "what this section tells"), snapshot)
        if item and item.state in HINDERED:
            yield item


def _item(subject: Subject, snapshot: Snapshot) -> Item | None:
    """How a subject stands; None where nothing was asked for."""
    held = [snapshot.sections[name] for name in subject.sections if name in snapshot.sections]
    gaps = [gap for section in held for gap in _gaps(section)]
    read = sum(len(section.values) for section in held)
    seconds = max((section.seconds for section in held), default=0.0)
    absent = [section.reason for section in held if _why(section) is Why.ABSENT]
    absent += [str(u) for name in subject.sections for s in held if (u := s.unavailable.get(name)) and _is_absent(u)]
    if not held or all(_why(section) is Why.OFF for section in held):
        return None
    if gaps:
        why, reason = Counter(gaps).most_common(1)[0][0]
        more = f" ({len(gaps)} in all)" if len(gaps) > 1 else ""
        change = subject.change.get(why) or _BY_REASON[why]
        state = State.PARTLY if read else State.FAILS
        return Item(subject.code, subject.title, state, f"{reason}{more}", subject.lost, change)
    if absent:
        reason = absent[0].removeprefix("absent: ")
        if subject.expected(snapshot):
            return Item(subject.code, subject.title, State.FAILS, reason, subject.lost, subject.change[Why.ABSENT])
        return Item(subject.code, subject.title, State.NOTHING, reason)
    if not read:
        return Item(subject.code, subject.title, State.NOTHING, "there is none")
    found = f"{plural(read, 'reading')} in {seconds:.2f} s"
    if subject.slow and seconds > _SLOW_SECONDS:
        return Item(subject.code, subject.title, State.PARTLY, found, "time, at each capture", subject.slow)
    return Item(subject.code, subject.title, State.WORKS, found)


def _is_absent(reading: Unavailable) -> bool:
    return reading.why is Why.ABSENT


def _why(section: Section) -> Why | None:
    """Why a section as a whole is unavailable."""
    word = section.reason.partition(":")[0]
    known = {why.value: why for why in Why}
    return known.get(word) if section.status == "unavailable" else None


def _gaps(section: Section) -> Iterator[tuple[Why | None, str]]:
    """What is there and was not read: why, and in which words."""
    if section.status == "timeout":
        yield Why.TIMEOUT, section.reason
    elif section.status == "error":
        yield None, section.reason
    elif (why := _why(section)) in REFUSED:
        yield why, section.reason.partition(": ")[2]
    for reading in section.unavailable.values():
        if reading.why in REFUSED:
            yield reading.why, reading.detail
    for message in section.errors.values():
        yield None, message


_APART = {
    "pid": "processes outside of it",
    "net": "the host's network interfaces",
    "ipc": "shared memory of the host",
    "user": "whose processes and files these are",
}


def _container(snapshot: Snapshot) -> Iterator[Item]:
    """What a container keeps from view."""
    kind, apart = snapshot.values.get("container.kind"), snapshot.values.get("container.namespaces")
    if not isinstance(kind, str) or not isinstance(apart, list):
        return
    hidden = [what for name, what in _APART.items() if name in apart]
    if kind == "none" and not hidden:
        yield Item("container", "container", State.NOTHING, "this is the machine itself")
    elif not hidden:
        yield Item("container", "container", State.WORKS, f"{kind}, which hides nothing that was looked for")
    else:
        change = "read its host as well: envsnap capture --via 'ssh HOST', or start it with --pid=host --ipc=host"
        yield Item(
            "container",
            "container",
            State.PARTLY,
            f"{kind}, with its own {', '.join(apart)}",
            ", ".join(hidden),
            change,
        )
