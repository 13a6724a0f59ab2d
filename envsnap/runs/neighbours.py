"""Processes on the GPUs that do not belong to a run: they take time and memory from it."""

from __future__ import annotations

from collections.abc import Collection

from envsnap.host import Host
from envsnap.reading import Found, Missing, Value


def warnings(host: Host, own: Collection[int]) -> list[str]:
    """A sentence for each GPU on which a process computes that is none of `own` (pids)."""
    return [f"GPU {gpu} is also used by {', '.join(names)}" for gpu, names in users(host, own).items()]


def users(host: Host, own: Collection[int] = ()) -> dict[int, list[str]]:
    """The names of the processes that compute on each GPU, without `own` (pids); only GPUs that have some."""
    try:
        count = int(host.nvml("nvmlDeviceGetCount"))
    except Missing:
        return {}
    answers = host.found([["nvml", "nvmlDeviceGetComputeRunningProcesses", f"gpu:{gpu}"] for gpu in range(count)])
    found = {
        gpu: sorted({int(p["pid"]) for p in answer.value if isinstance(p, dict) and "pid" in p} - set(own))
        for gpu, answer in enumerate(answers)
        if isinstance(answer, Value) and isinstance(answer.value, list)
    }
    names = host.read_all(f"/proc/{pid}/comm" for pid in sorted({pid for pids in found.values() for pid in pids}))
    return {gpu: sorted({_name(names[f"/proc/{pid}/comm"]) for pid in pids}) for gpu, pids in found.items() if pids}


def _name(comm: Found) -> str:
    # NOTE: in a container NVML may count in the PIDs of the host, of which nothing is known here.
    return str(comm.value) if isinstance(comm, Value) else "a process outside this container"
