"""Between trials: whatever one left behind is gone before the next begins: processes, GPU memory, shared memory.

Also what a search left that was killed: every process of a search carries its mark, and the journal says which files
in /dev/shm were there before.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from envsnap.host import Host
from envsnap.reading import Missing, Unavailable, Value
from envsnap.runs import neighbours, shared_memory
from envsnap.runs.plan import Say
from envsnap.workers import live_env

MARK = "ENVSNAP_PROVE"
"""Variable that marks every process of a search, so that what a killed one left behind is found."""

GPU_SECONDS = 60.0
"""How long memory of a GPU may take to come back; a large process is torn down within some seconds."""
GPU_TOLERANCE_BYTES = 256 << 20
ROOM_BYTES = 256 << 20
"""Free space below which no trial begins: a run with its logs takes some MiB, a tree of code up to some hundred."""

_LEFT = ("sgl_shm_mq_*", "sglang_loads_*", "psm_*", "sem.mp-*", "torch_*", "nccl-*")
"""Files that engines, Python's multiprocessing, torch and NCCL make there, and leave where they are killed."""
_MEMORY = (("nvmlDeviceGetMemoryInfo", 0x0200_0028), ("nvmlDeviceGetMemoryInfo",))


class Unclean(Exception):
    """Something stands in the way of the next trial; one sentence without its full stop."""


@dataclass(frozen=True)
class Before:
    """What there was before a trial: bytes in use on each GPU, or why nobody can tell; the files in /dev/shm."""

    gpus: Mapping[int, int]
    unchecked: str
    shm: frozenset[str]


def look(host: Host) -> Before:
    """What there is now."""
    gpus, unchecked = _used(host)
    return Before(gpus, unchecked, shared_memory.listed())


def room(folder: Path) -> None:
    """See that a run can still be kept. Raises: Unclean."""
    free = shutil.disk_usage(folder).free
    if free < ROOM_BYTES:
        raise Unclean(f"only {free >> 20} MiB are left on the disk of {folder}, and a run could not be kept")


def settle(host: Host, before: Before, mark: str, say: Say, seconds: float = GPU_SECONDS) -> None:
    """End what a trial left running, remove what it left in /dev/shm, and wait until GPU memory is back.

    Raises: Unclean.
    """
    sweep(host, [mark], say)
    tidy(host, before.shm)
    began = said = time.monotonic()
    while over := [
        (gpu, used - before.gpus[gpu])
        for gpu, used in _used(host)[0].items()
        if gpu in before.gpus and used - before.gpus[gpu] > GPU_TOLERANCE_BYTES
    ]:
        now = time.monotonic()
        gpu, more = over[0]
        text = f"GPU {gpu} holds {more / 2**30:.1f} GiB more than before the trial"
        if now - began >= seconds:
            others = ", ".join(neighbours.users(host).get(gpu, ()))
            why = f"it is used by {others}" if others else "something else has come to use it, or hangs"
            raise Unclean(f"{text}, {seconds:.0f} s after it ended: {why}")
        if now - said > 2:
            said = now
            say(f"{text}; waiting", passing=True)
        time.sleep(min(0.5, seconds / 10))


def sweep(host: Host, marks: Sequence[str], say: Say) -> int:
    """End the processes of these searches, by their groups; how many there were.

    The caller holds the lock, so that no search of this store is at work.
    """
    found = list(_marked(host, {f"{MARK}={mark}" for mark in marks}))
    groups: set[int] = set()
    for pid in found:
        try:
            groups.add(os.getpgid(pid))
        except ProcessLookupError:
            continue
    for group in groups - {os.getpgrp()}:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    for _ in range(100):  # an exit takes a moment, a large one some seconds
        if not any(_runs(pid) for pid in found):
            break
        time.sleep(0.05)
    if found:
        say(f"ended {len(found)} processes that an earlier run left behind ({MARK})")
    return len(found)


def tidy(host: Host, before: Collection[str]) -> list[str]:
    """Remove files of ours in /dev/shm that engines leave there, that came since, and that no process holds."""
    came = shared_memory.listed() - {*before}
    return shared_memory.remove_unheld(host, [n for n in came if any(fnmatchcase(n, pattern) for pattern in _LEFT)])


def _used(host: Host) -> tuple[dict[int, int], str]:
    """Bytes in use on each GPU; why that is not known, where it is not."""
    try:
        count = int(host.nvml("nvmlDeviceGetCount"))
    except Missing as missing:
        return {}, str(missing)
    used = {}
    for gpu in range(count):
        for function, *version in _MEMORY:
            (answer,) = host.found([["nvml", function, f"gpu:{gpu}", *version]])
            if isinstance(answer, Value):
                used[gpu] = int(answer.value["used"])
                break
    return used, "" if len(used) == count else "a GPU does not tell what of its memory is in use"


def _marked(host: Host, marks: Collection[str]) -> Iterator[int]:
    """Processes with one of these variables; a retitled one has it in its live environment alone."""
    wanted = {mark.encode() for mark in marks}
    retitled = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            held = (entry / "environ").read_bytes()
        except OSError:
            continue
        if wanted & set(held.split(b"\0")):
            yield int(entry.name)
        elif held.startswith(b"\0"):
            retitled.append(int(entry.name))
    for pid, live in live_env.read_all(host, retitled).items() if retitled else ():
        if not isinstance(live, Unavailable) and f"{MARK}={live.variables.get(MARK)}" in marks:
            yield pid


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
