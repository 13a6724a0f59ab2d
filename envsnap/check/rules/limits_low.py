"""A limit on what a process may have is too low for a server.

Locked memory for RDMA and pinned buffers, open files for connections, processes and threads, address space. Engines
raise soft limits up to the hard one by themselves. Fix: LimitMEMLOCK=infinity and LimitNOFILE in the unit,
`docker run --ulimit memlock=-1 --ulimit nofile=1048576`, /etc/security/limits.d.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "limits_low"
SEVERITY = WARNING
NEEDS = ("limits.nofile_hard_unlimited", "limits.memlock_soft_unlimited")
USES = ("limits.nofile_hard_count", "limits.memlock_soft_bytes", "limits.nproc_soft_count", "limits.as_soft_bytes",
        "rdma.devices_count")  # fmt: skip

_FILES, _PROCESSES, _LOCKED, _ADDRESSES = 4096, 4096, 1 << 30, 1 << 40


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for path, least, words in (
        ("limits.nofile_hard_count", _FILES, "open files"),
        ("limits.nproc_soft_count", _PROCESSES, "processes and threads"),
    ):
        count = facts.value(path)
        if count is not None and count < least:
            yield Problem(f"at most {count:,} {words}", (path,), f"Raise it to {least:,} or more.")
    locked, spaces = facts.value("limits.memlock_soft_bytes"), facts.value("limits.as_soft_bytes")
    if locked is not None and locked < _LOCKED and facts.value("rdma.devices_count"):
        yield Problem(f"RDMA is here, and at most {locked >> 10:,} KiB can be locked", ("limits.memlock_soft_bytes",),
                      "ulimit -l unlimited; docker run --ulimit memlock=-1",
                      ERROR if facts.wanted.nodes > 1 else "")  # fmt: skip
    if spaces is not None and spaces < _ADDRESSES:
        yield Problem(f"address space limited to {spaces >> 30:,} GiB; CUDA reserves more",
                      ("limits.as_soft_bytes",), "ulimit -v unlimited", ERROR)  # fmt: skip
