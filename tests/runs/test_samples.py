"""The sampler on real processes and a made-up GPU, and what its columns become."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import pytest

from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Value
from envsnap.runs import sampler as sampler_module
from envsnap.runs.columns import Columns
from envsnap.runs.sampler import Sampler, _gpu_row
from envsnap.runs.samples import KEYS, section
from tests.fakes import FakeHost
from tests.processes import Spawn


def test_a_busy_and_an_idle_worker(spawn: Spawn) -> None:
    busy = spawn([sys.executable, "-c", "while True: pass"])
    idle = spawn([sys.executable, "-c", "import time; time.sleep(60)"])
    sampler = Sampler(LiveHost(), time.monotonic(), interval=0.2)
    sampler.watch({"busy": busy.pid, "idle": idle.pid}, frozenset({busy.pid, idle.pid}))
    sampler.start()
    time.sleep(2.0)
    samples = sampler.stop()
    values = section(samples, None, 2.0, 0.5).values
    idle_percent = values["during.worker[idle].cpu_median_percent"]
    assert idle_percent < 5
    assert values["during.worker[busy].cpu_median_percent"] > idle_percent  # how much it gets depends on the others
    assert values["during.worker[busy].cpus"]
    assert values["during.host.cpu_busy_median_percent"] > 20
    assert len(samples.times) >= 3
    assert {p.partition("[")[0] for p in values} <= {k.pattern.partition("[")[0] for k in KEYS}


def _gpu_host() -> FakeHost:
    calls: dict[tuple[Any, ...], Any] = {
        ("nvml", "nvmlDeviceGetCount"): 1,
        ("nvml", "nvmlDeviceGetUtilizationRates"): {"gpu": 90, "memory": 40},
        ("nvml", "nvmlDeviceGetClockInfo", "gpu:0", 1): 1200,
        ("nvml", "nvmlDeviceGetClockInfo", "gpu:0", 2): 3201,
        ("nvml", "nvmlDeviceGetPowerUsage"): 310_000,
        ("nvml", "nvmlDeviceGetTemperature"): 60,
        ("nvml", "nvmlDeviceGetCurrentClocksEventReasons"): 0x24,
        ("nvml", "nvmlDeviceGetCurrPcieLinkGeneration"): 5,
        ("nvml", "nvmlDeviceGetCurrPcieLinkWidth"): 16,
        ("nvml", "nvmlDeviceGetComputeRunningProcesses"): [{"pid": 7, "usedGpuMemory": 1}, {"pid": os.getpid()}],
    }
    return FakeHost({"/proc/7/comm": "miner\n"}, replies=calls)


def test_a_gpu_under_load() -> None:
    sampler = Sampler(_gpu_host(), time.monotonic())
    sampler.watch({}, frozenset({os.getpid()}))
    for _ in range(3):
        sampler.tick(slow=True)
    values = section(sampler._samples, None, 3.0, 0.0).values
    assert values["during.gpu[0].sm_clock_median_mhz"] == 1200
    assert values["during.gpu[0].power_median_watts"] == 310.0
    assert values["during.gpu[0].pcie_speed_median_gts"] == 32.0
    assert values["during.gpu[0].throttle_percent[sw_power_cap]"] == 100.0
    assert values["during.gpu[0].throttle_percent[sw_thermal_slowdown]"] == 100.0
    assert values["during.gpu[0].foreign_processes"] == ["miner"]
    assert values["during.gpu[0].busy_count"] == 3
    assert "during.gpu[0].memory_used_median_bytes" not in values  # it was not read, so it is not 0


def test_idle_samples_do_not_count() -> None:
    samples = Columns(
        [0.0, 1.0, 2.0],
        {"gpu[0].utilization_percent": [0, 95, 96], "gpu[0].sm_clock_mhz": [345, 1980, 1980],
         "gpu[0].pcie_speed_gts": [2.5, 32.0, 32.0], "gpu[0].pcie_width_lanes": [16, 16, 16]},
    )  # fmt: skip
    values = section(samples, None, 3.0, 0.0).values
    assert values["during.gpu[0].sm_clock_p5_mhz"] == 1980
    assert values["during.gpu[0].pcie_transition_count"] == 0


def test_the_window_leaves_start_up_out() -> None:
    samples = Columns(
        [0.0, 10.0, 20.0], {"gpu[0].utilization_percent": [99, 99, 99], "gpu[0].sm_clock_mhz": [500, 1980, 500]}
    )
    values = section(samples, (5.0, 15.0), 30.0, 0.0).values
    assert values["during.gpu[0].sm_clock_median_mhz"] == 1980
    assert values["during.host.sample_count"] == 1


def test_what_a_run_was_too_short_to_sample_is_unknown_and_not_unset() -> None:
    columns: dict[str, list[Any]] = {
        "host.cpu_busy_percent": [None, 50.0],
        "worker[main].cpu_percent": [None, 40.0],
        "worker[main].cpu": [1, 1],
    }
    both = section(Columns([0.0, 1.0], columns), None, 2.0, 0.0)
    assert both.reading("during.host.cpu_busy_median_percent") == Value(50.0)
    assert both.reading("during.worker[main].cpu_median_percent") == Value(40.0)
    one = section(Columns([0.0], {name: cells[:1] for name, cells in columns.items()}), None, 1.0, 0.0)
    assert one.reading("during.host.sample_count") == Value(1)
    assert one.reading("during.worker[main].cpus") == Value(["1"])
    for path in ("during.host.cpu_busy_median_percent", "during.worker[main].cpu_median_percent"):
        reading = one.reading(path)
        assert isinstance(reading, Unavailable)
        assert reading.detail == "too few samples: 1 in the measured window"


def test_a_very_long_run_is_thinned_and_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "MAX_SAMPLES", 10)
    sampler = Sampler(FakeHost({"/proc/stat": "cpu 1 2 3 4 5 6 7 8\n"}), time.monotonic(), interval=0.01)
    sampler.start()
    time.sleep(0.5)
    samples = sampler.stop()
    assert 5 <= len(samples.times) <= 11
    assert samples.times[0] < 0.1
    assert samples.times[-1] > 0.4
    assert all(len(column) == len(samples.times) for column in samples.columns.values())


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0, []),
        (1, ["gpu_idle"]),
        (0x404, ["reliability", "sw_power_cap"]),
        (0x8, ["hw_slowdown"]),
        (1 << 20, ["bit_20"]),
    ],
)
def test_reasons_are_in_the_words_that_a_capture_uses(bits: int, names: list[str]) -> None:
    row = _gpu_row(0, {"nvmlDeviceGetCurrentClocksEventReasons": Value(bits)}, {})
    assert row == {"gpu[0].throttle_reasons": names}
