"""Foreign processes on the GPUs."""

from __future__ import annotations

from envsnap.runs.neighbours import warnings
from tests.fakes import FakeHost, missing

PROCESSES = [{"pid": 7, "usedGpuMemory": 1}, {"pid": 8, "usedGpuMemory": 1}, {"pid": 9, "usedGpuMemory": 1}]


def _host(processes: object) -> FakeHost:
    files = {"/proc/7/comm": "miner\n", "/proc/9/comm": "miner\n"}
    return FakeHost(
        files,
        replies={("nvml", "nvmlDeviceGetCount"): 1, ("nvml", "nvmlDeviceGetComputeRunningProcesses"): processes},
    )


def test_foreign_processes_are_named_once() -> None:
    assert warnings(_host(PROCESSES), ()) == ["GPU 0 is also used by a process outside this container, miner"]


def test_own_processes_are_none() -> None:
    assert warnings(_host(PROCESSES[:1]), {7}) == []


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert warnings(FakeHost(), ()) == []
    assert warnings(_host(missing("denied")), ()) == []
    assert warnings(_host("garbage"), ()) == []
