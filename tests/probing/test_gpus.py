from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from envsnap.probe import gpus
from envsnap.probe.gpus import check_idle, chosen
from envsnap.probe.result import Busy
from envsnap.reading import Missing
from tests.fakes import FakeHost, missing

UUIDS = ("GPU-aaaa", "GPU-abbb", "GPU-cccc")


def host(visible: str | None = None, files: dict[str, str] | None = None, **replies: Any) -> FakeHost:
    """Three GPUs that nobody uses; `replies` are NVML's getters."""
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return FakeHost(files, replies={
        ("environ",): environ,
        ("nvml", "nvmlDeviceGetCount"): 3,
        ("nvml", "nvmlDeviceGetUUID"): lambda name, gpu: UUIDS[int(gpu[4:])],
        ("nvml", "nvmlDeviceGetComputeRunningProcesses"): [],
        ("nvml", "nvmlDeviceGetMPSComputeRunningProcesses"): [],
        ("nvml", "nvmlDeviceGetUtilizationRates"): {"gpu": 0, "memory": 0},
        **{("nvml", name): reply for name, reply in replies.items()},
    })  # fmt: skip


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_BETWEEN_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        ("GPU-cccc", [2]),
        ("GPU-ab, 0", [1, 0]),
        ("0,GPU-none,2", [0]),
    ],
)
def test_what_cuda_visible_devices_leaves(visible: str | None, found: list[int]) -> None:
    assert chosen(host(visible), None) == {gpu: UUIDS[gpu] for gpu in found}


def test_what_is_asked_for_goes_before_it() -> None:
    assert list(chosen(host("0"), [2, 1, 2])) == [2, 1]


@pytest.mark.parametrize(
    ("visible", "asked", "says"),
    [("", None, "leaves no GPU"), ("MIG-1", None, "MIG instance")],
)
def test_no_gpu_is_a_reason(visible: str, asked: list[int] | None, says: str) -> None:
    with pytest.raises(Missing, match=says):
        chosen(host(visible), asked)


def test_a_gpu_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="there is no GPU 3: NVML counts 3"):
        chosen(host(), [3])


def test_without_nvml_the_reason_is_nvml_s() -> None:
    with pytest.raises(Missing, match="no driver"):
        chosen(host(nvmlDeviceGetCount=missing("absent", "no driver")), None)


def test_idle_gpus_are_measured() -> None:
    check_idle(host(), [0, 1, 2])


def test_a_foreign_process_is_named() -> None:
    held: dict[str, Any] = {
        "nvmlDeviceGetComputeRunningProcesses": [{"pid": 5, "usedGpuMemory": 1}, {"pid": 6, "usedGpuMemory": 1}]
    }
    with pytest.raises(Busy, match=r"^GPU 1 is used by 2 processes \(sglang::schedul\)$"):
        check_idle(host(files={"/proc/5/comm": "sglang::schedul\n"}, **held), [1])


def test_a_process_of_another_container_counts_without_a_name() -> None:
    held: dict[str, Any] = {"nvmlDeviceGetMPSComputeRunningProcesses": [{"pid": 5, "usedGpuMemory": 1}]}
    with pytest.raises(Busy, match=r"^GPU 0 is used by 1 process$"):
        check_idle(host(**held), [0])


def test_utilization_counts_when_it_stays() -> None:
    with pytest.raises(Busy, match="GPU 2 is 40 % busy"):
        check_idle(host(nvmlDeviceGetUtilizationRates=lambda name, gpu: {"gpu": 40 * (gpu == "gpu:2")}), [0, 2])


def test_what_has_just_ended_still_shows_for_a_moment() -> None:
    seen: Iterator[int] = iter([97, 60, 0])
    check_idle(host(nvmlDeviceGetUtilizationRates=lambda name, gpu: {"gpu": next(seen)}), [0])
    assert list(seen) == []
