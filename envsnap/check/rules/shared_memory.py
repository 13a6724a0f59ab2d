"""/dev/shm is too small for what ranks share there.

NCCL and tensor-parallel workers keep buffers in /dev/shm; a container has 64 MB of it unless told otherwise. They then
fail, or take a slower way. Left-over segments of killed servers fill it too. Fix: `docker run --ipc=host` or
`--shm-size=16g`, in Kubernetes an emptyDir of medium Memory; `rm /dev/shm/nccl-*` when nothing runs.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "shared_memory"
SEVERITY = ERROR
NEEDS = ("memory.shm_size_bytes",)
USES = ("memory.shm_available_bytes", "cgroup.memory_limit_bytes", "memory.total_bytes")

_LEAST, _ROOM, _SHARE = 1 << 30, 256 << 20, 0.05
_FIX = "docker run --ipc=host, or --shm-size=16g"


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    size, room = facts.value("memory.shm_size_bytes"), facts.value("memory.shm_available_bytes")
    several = max(facts.wanted.gpus, 0 if facts.wanted.engine else len(facts.visible_gpus)) > 1
    path = ("memory.shm_size_bytes",)
    if size < _LEAST:
        yield Problem(f"/dev/shm has {size >> 20:,} MiB", path, _FIX, ERROR if several else WARNING)
    elif room is not None and room < _ROOM:
        yield Problem(f"/dev/shm has {room >> 20:,} MiB left of {size >> 20:,}", ("memory.shm_available_bytes",),
                      "ls -la /dev/shm; remove what killed servers left there")  # fmt: skip
    else:
        limit = facts.value("cgroup.memory_limit_bytes") or facts.value("memory.total_bytes") or 0
        if several and size < _SHARE * limit:
            yield Problem(f"/dev/shm has {size >> 20:,} MiB, under 5 % of the memory", path, _FIX, WARNING)
