"""GPUs through NVML, on a recorded machine and on machines that are out of order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.collectors import gpu
from envsnap.host import Answer, Request
from envsnap.keys import Kind
from envsnap.reading import Unavailable, Why
from envsnap.snapshot import Section
from tests.fakes import FakeHost, Reply, missing
from tests.nvml_fixture import FIELDS, LINK_FIELDS, NOT_SUPPORTED, replies

GONE = missing("gone", "NVML: GPU is lost")


def section(changed: dict[tuple[Any, ...], Reply] | None = None, **getters: Reply) -> Section:
    host = FakeHost(replies={**replies(**getters), **(changed or {})})
    return capture(host=host, only=["gpu"]).sections["gpu"]


def field_values(changed: dict[int, Any]) -> Reply:
    def reply(gpu: str, fields: list[list[int]]) -> list[Any]:
        values = {**FIELDS, **LINK_FIELDS, **changed}
        return [["ok", values[n]] if values.get(n) is not None else NOT_SUPPORTED for n, _ in fields]

    return lambda function, *arguments: reply(*arguments)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("nvml.driver_version", "580.159.04"),
        ("nvml.cuda_driver_version", "13.0"),
        ("nvml.gpu_count", 2),
        ("nvml.confidential_compute", False),
        ("gpu[1].name", "NVIDIA H200"),
        ("gpu[0].architecture", "hopper"),
        ("gpu[0].compute_capability", "9.0"),
        ("gpu[0].core_count", 16896),
        ("gpu[1].pci_address", "0000:00:07.0"),
        ("gpu[0].pci_id", "10de:2335"),
        ("gpu[0].pci_subsystem_id", "10de:18bf"),
        ("gpu[0].inforom_ecc_version", "7.16"),
        ("gpu[0].gsp_firmware_enabled", True),
        ("gpu[0].virtualization_mode", "passthrough"),
        ("gpu[0].compute_mode", "default"),
        ("gpu[0].persistence_mode", True),
        ("gpu[0].mig_mode", False),
        ("gpu[0].ecc_mode", True),
        ("gpu[0].ecc_uncorrected_aggregate_count", 0),
        ("gpu[0].remapped_rows_failure", False),
        ("gpu[0].sm_clock_mhz", 345),
        ("gpu[0].max_sm_clock_mhz", 1980),
        ("gpu[0].application_memory_clock_mhz", 3201),
        ("gpu[0].supported_memory_clocks_mhz", [2201, 3201]),
        ("gpu[0].clocks_event_reasons", ["gpu_idle"]),
        ("gpu[0].power_limit_watts", 700.0),
        ("gpu[0].min_power_limit_watts", 200.0),
        ("gpu[0].power_draw_watts", 77.889),
        ("gpu[0].temperature_celsius", 34),
        ("gpu[0].memory_temperature_celsius", 36),
        ("gpu[0].shutdown_tlimit_celsius", -8),
        ("gpu[0].memory_total_bytes", 150754820096),
        ("gpu[0].memory_used_bytes", 0),
        ("gpu[0].bar1_total_bytes", 256 << 30),
        ("gpu[0].pcie_generation", 5),
        ("gpu[0].pcie_width_lanes", 16),
        ("gpu[0].pcie_speed_gts", 32.0),
        ("gpu[1].pcie_replay_count", 1),
        ("gpu[0].cpu_affinity", "0-31"),
        ("gpu[0].memory_affinity", "0"),
        ("gpu[0].fabric_state", "completed"),
        ("gpu[0].nvlink_active_count", 18),
        ("gpu[0].nvlink[17].version", "4.0"),
        ("gpu[0].nvlink[17].remote_device", "switch"),
        ("gpu[0].nvlink[17].speed_mbps", 8 * 26562),
        ("gpu[0].compute_process_count", 0),
        ("gpu[0].process_names", []),
    ],
)
def test_a_recorded_machine(path: str, value: Any) -> None:
    found = section()
    assert found.status == "ok"
    assert not found.errors
    assert found.values[path] == value


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("gpu[].sm_clock_mhz", Kind.CONDITION),
        ("gpu[].pcie_generation", Kind.CONDITION),
        ("gpu[].clocks_event_reasons", Kind.CONDITION),
        ("gpu[].pcie_width_lanes", Kind.IDENTITY),
        ("gpu[].power_limit_watts", Kind.TUNABLE),
        ("gpu[].ecc_corrected_volatile_count", Kind.COUNTER),
        ("gpu[].temperature_celsius", Kind.VOLATILE),
        ("gpu[].uuid", Kind.LABEL),
        ("gpu[].serial", Kind.LABEL),
    ],
)
def test_kinds(pattern: str, kind: Kind) -> None:
    assert next(key.kind for key in gpu.KEYS if key.pattern == pattern) is kind


@pytest.mark.parametrize(
    "why", [missing("absent", "no NVIDIA driver library"), missing("not_supported", "pip install nvidia-ml-py")]
)
def test_without_nvml_there_is_one_reason_not_hundreds(why: list[str]) -> None:
    found = capture(host=FakeHost(replies={("nvml",): why}), only=["gpu"]).sections["gpu"]
    assert (found.status, found.reason) == ("unavailable", f"{why[1]}: {why[2]}")
    assert (found.values, found.unavailable, found.errors) == ({}, {}, {})


def test_the_empty_machine() -> None:
    found = capture(host=FakeHost(), only=["gpu"]).sections["gpu"]
    assert found.status == "unavailable"


def test_no_gpus_at_all() -> None:
    found = section(nvmlDeviceGetCount=0)
    assert found.status == "ok"
    assert found.values["nvml.gpu_count"] == 0
    assert not [path for path in found.values if path.startswith("gpu")]


def _for_gpu(number: int, reply: Callable[[], Any]) -> Reply:
    """Every getter of one GPU answers what `reply` gives, unless that is None; all else is as recorded."""
    usual = replies()[("nvml",)]

    def answer(function: str, *arguments: Any) -> Any:
        given = reply() if arguments[:1] == (f"gpu:{number}",) else None
        return usual(function, *arguments) if given is None else given

    return answer


def test_a_lost_gpu_leaves_the_others_and_says_so_once() -> None:
    whole = section()
    found = section({("nvml",): _for_gpu(1, lambda: GONE)})
    assert found.unavailable["gpu[1]"] == Unavailable(Why.GONE, "NVML: GPU is lost")
    assert found.reading("gpu[1].power_limit_watts") == Unavailable(Why.GONE, "NVML: GPU is lost")
    assert not [path for path in found.values if path.startswith("gpu[1]")]
    of_first = {path: value for path, value in whole.values.items() if path.startswith("gpu[0]")}
    assert {path: value for path, value in found.values.items() if path.startswith("gpu[0]")} == of_first


def test_a_gpu_lost_in_the_middle_keeps_what_it_gave() -> None:
    calls = count(1)
    found = section({("nvml",): _for_gpu(1, lambda: GONE if next(calls) > 50 else None)})
    assert not found.errors
    assert found.values["gpu[1].name"] == "NVIDIA H200"
    gone = [path for path, why in found.unavailable.items() if why.why is Why.GONE]
    assert len(gone) > 10
    assert found.values["gpu[0].nvlink_active_count"] == 18


def test_a_driver_too_old_for_half_the_calls() -> None:
    function_not_found = missing("not_supported", "NVML: Function Not Found")
    usual = replies()[("nvml",)]
    newer = {
        "nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetPcieSpeed",
        "nvmlDeviceGetMarginTemperature", "nvmlDeviceGetGspFirmwareMode", "nvmlDeviceGetRepairStatus",
        "nvmlDeviceGetModuleId", "nvmlDeviceGetMemoryBusWidth", "nvmlDeviceGetAddressingMode",
    }  # fmt: skip
    older = {
        ("nvmlDeviceGetTemperature", 0): 61,
        ("nvmlDeviceGetCurrentClocksThrottleReasons",): 0x44,
        ("nvmlDeviceGetMemoryInfo",): {"total": 100, "free": 70, "used": 30},
        ("nvmlDeviceGetComputeRunningProcesses_v2",): [{"pid": 7, "usedGpuMemory": 30}],
    }

    def answer(function: str, *arguments: Any) -> Any:
        if function != "nvmlDeviceGetFieldValues" and (call := (function, *arguments[1:])) in older:
            return older[call]
        if function in newer or function == "nvmlDeviceGetMemoryInfo":
            return function_not_found
        return usual(function, *arguments)

    host = FakeHost(files={"/proc/7/comm": "python3\n"}, replies={("nvml",): answer})
    found = capture(host=host, only=["gpu"]).sections["gpu"]
    assert (found.status, found.errors) == ("ok", {})
    assert found.values["gpu[0].temperature_celsius"] == 61
    assert found.values["gpu[0].clocks_event_reasons"] == ["hw_thermal_slowdown", "sw_power_cap"]
    assert (found.values["gpu[0].memory_total_bytes"], found.values["gpu[0].memory_free_bytes"]) == (100, 70)
    # What the old call names used holds what is reserved, too: another thing, so it must not appear under that name.
    assert found.unavailable["gpu[0].memory_used_bytes"].why is Why.NOT_SUPPORTED
    assert found.values["gpu[0].compute_process_count"] == 1
    assert found.values["gpu[0].process_names"] == ["python3"]
    assert found.unavailable["gpu[0].pcie_speed_gts"].why is Why.NOT_SUPPORTED
    assert found.values["gpu[1].name"] == "NVIDIA H200"


def test_no_permission_is_said_of_each_reading() -> None:
    denied = missing("denied", "NVML: Insufficient Permissions")
    found = section(nvmlDeviceGetPerformanceState=denied, nvmlDeviceGetSerial=denied)
    assert found.unavailable["gpu[0].performance_state"].why is Why.DENIED
    assert found.unavailable["gpu[1].serial"].why is Why.DENIED
    assert found.values["gpu[0].uuid"].startswith("GPU-")


def test_an_nvml_that_hangs_costs_its_section_only() -> None:
    held = threading.Event()
    host = FakeHost(
        files={"/proc/cmdline": "quiet"},
        replies={("nvml",): lambda *arguments: held.wait(30), ("uname",): {"release": "6.8.0"}},
    )
    snapshot = capture(host=host, only=["gpu", "kernel"], deadline=0.5)
    held.set()
    assert snapshot.sections["gpu"].status == "timeout"
    assert snapshot.sections["kernel"].values["kernel.command_line"] == "quiet"


def test_one_gpu_that_hangs_leaves_the_others_and_is_named() -> None:
    held = threading.Event()
    host = FakeHost(replies={("nvml",): _for_gpu(0, lambda: held.wait(30))})
    found = capture(host=host, only=["gpu"], deadline=1.0).sections["gpu"]
    held.set()
    assert (found.status, found.complete) == ("partial", False)
    assert found.values["gpu[1].power_limit_watts"] == 700.0
    assert found.unavailable["gpu[0]"].why is Why.TIMEOUT


def test_gpus_stand_by_number_whoever_answers_first() -> None:
    later = threading.Event()
    usual = replies()[("nvml",)]

    def answer(function: str, *arguments: Any) -> Any:
        if arguments[:1] == ("gpu:0",):
            later.wait(10)
        elif function == "nvmlDeviceGetFieldValues" and [164, 0] in arguments[1]:  # its last question
            later.set()
        return usual(function, *arguments)

    found = capture(host=FakeHost(replies={("nvml",): answer}), only=["gpu"]).sections["gpu"]
    order = [path[4] for path in found.values if path.startswith("gpu[")]
    assert order == sorted(order)
    assert set(order) == {"0", "1"}


@pytest.mark.parametrize(
    "garbage", ["text", None, -1, 2.5, float("nan"), True, [], {}, [None], [[]], {"a": 1}, "\ud800", 10**400, ["ok", 1]]
)
def test_garbage_never_crashes_and_never_poses_as_a_number(garbage: Any) -> None:
    usual = replies()[("nvml",)]
    system = {f.calls[0][0] for f in gpu.SYSTEM_FACTS} | {"nvmlDeviceGetCount"}

    def answer(function: str, *arguments: Any) -> Any:
        return usual(function, *arguments) if function in system else garbage

    found = capture(host=FakeHost(replies={("nvml",): answer}), only=["gpu"]).sections["gpu"]
    assert found.status == "ok"
    assert found.values["nvml.gpu_count"] == 2
    if isinstance(garbage, (str, dict)) or garbage is None:
        assert not [p for p, v in found.values.items() if p.startswith("gpu[") and isinstance(v, (int, float))]


@pytest.mark.parametrize("number", ["two", None, -1, 10**9, [2]])
def test_a_garbage_count_is_an_error_of_the_section(number: Any) -> None:
    assert section(nvmlDeviceGetCount=number).status == "error"


@pytest.mark.parametrize("number", [0xFFFF_FFFF, 2**64 - 1])
def test_nvmls_not_available_is_no_value(number: int) -> None:
    found = section(
        nvmlDeviceGetPowerManagementLimit=number, nvmlDeviceGetPowerManagementLimitConstraints=[1000, number]
    )
    assert found.unavailable["gpu[0].power_limit_watts"].why is Why.NOT_SUPPORTED
    assert found.unavailable["gpu[0].max_power_limit_watts"].why is Why.NOT_SUPPORTED
    assert found.values["gpu[0].min_power_limit_watts"] == 1.0


def test_reasons_and_enumerations_that_nvml_added_later_keep_their_number() -> None:
    found = section(nvmlDeviceGetCurrentClocksEventReasons=0x1004, nvmlDeviceGetArchitecture=99)
    assert found.values["gpu[0].clocks_event_reasons"] == ["bit_12", "sw_power_cap"]
    assert found.values["gpu[0].architecture"] == "unknown_99"


def test_no_reason_is_an_empty_list() -> None:
    assert section(nvmlDeviceGetCurrentClocksEventReasons=0).values["gpu[0].clocks_event_reasons"] == []


def test_affinity_over_several_words() -> None:
    words = [0xF0F, 1 << 63, 1] + [0] * 61
    assert section(nvmlDeviceGetCpuAffinity=words).values["gpu[0].cpu_affinity"] == "0-3,8-11,127-128"


def test_fabric_health_is_taken_apart() -> None:
    info = {
        "state": 2, "status": 0, "cliqueId": 5, "clusterUuid": [1] * 16, "healthSummary": 3,
        "healthMask": 0b1 | 0b10 << 2 | 0b01 << 4 | 5 << 8,
    }  # fmt: skip
    found = section(nvmlDeviceGetGpuFabricInfoV=info)
    assert found.values["gpu[0].fabric_state"] == "in_progress"
    assert found.values["gpu[0].fabric_health"] == "limited_capacity"
    assert found.values["gpu[0].fabric_degraded_bandwidth"] is True
    assert found.values["gpu[0].fabric_route_recovery"] is False
    assert found.values["gpu[0].fabric_route_unhealthy"] is True
    assert found.unavailable["gpu[0].fabric_access_timeout_recovery"].why is Why.NOT_SUPPORTED
    assert found.values["gpu[0].fabric_misconfiguration"] == "insufficient_nvlinks"


def test_a_gpu_outside_any_fabric_has_no_clique_zero() -> None:
    info = {"state": 0, "status": 0, "cliqueId": 0, "clusterUuid": [0] * 16, "healthMask": 0}
    found = section(nvmlDeviceGetGpuFabricInfoV=info)
    assert found.unavailable["gpu[0].fabric_clique_id"].why is Why.NOT_SUPPORTED


@pytest.mark.parametrize("links", [0, None])
def test_a_gpu_without_nvlink_says_so_once(links: int | None) -> None:
    found = section(nvmlDeviceGetFieldValues=field_values({91: links}))
    assert found.unavailable["gpu[0].nvlink"].why is Why.NOT_SUPPORTED
    assert found.unavailable["gpu[0].nvlink_active_count"].why is Why.NOT_SUPPORTED
    assert not [path for path in (*found.values, *found.unavailable) if "nvlink[" in path]
    assert not found.errors


def test_a_link_that_is_down_is_counted_out() -> None:
    usual = replies()[("nvml",)]

    def state(function: str, device: str, link: int) -> Any:
        return 0 if (device, link) == ("gpu:1", 4) else usual(function, device, link)

    found = section(nvmlDeviceGetNvLinkState=state)
    assert found.values["gpu[1].nvlink_active_count"] == 17
    assert found.values["gpu[1].nvlink[4].active"] is False
    assert found.values["gpu[0].nvlink_active_count"] == 18


def test_links_of_blackwell_have_other_counters() -> None:
    found = section(nvmlDeviceGetArchitecture=10, nvmlDeviceGetFieldValues=field_values({208: 3, 215: 1, 221: 9}))
    assert found.values["gpu[0].nvlink[0].symbol_error_count"] == 9
    assert "gpu[0].nvlink[0].replay_error_count" not in {*found.values, *found.unavailable}


@pytest.mark.parametrize(
    ("driver", "asked"), [("580.159.04", True), ("590.44.01", True), ("580.65.06", False), ("575.51.03", False)]
)
def test_fields_whose_number_moved_are_asked_only_of_drivers_that_agree(driver: str, asked: bool) -> None:
    found = section(nvmlSystemGetDriverVersion=driver, nvmlDeviceGetFieldValues=field_values({269: 77}))
    reading = found.reading("gpu[0].sw_thermal_slowdown_nanoseconds")
    assert (reading == Unavailable(Why.NOT_SUPPORTED, getattr(reading, "detail", ""))) is not asked
    assert found.values["gpu[0].thermal_violation_nanoseconds"] == 0


def test_processes_by_name_never_by_pid() -> None:
    listed = [{"pid": 4242, "usedGpuMemory": 1 << 30}, {"pid": 17, "usedGpuMemory": 2 << 30}]
    host = FakeHost(
        files={"/proc/4242/comm": "sglang::schedul\n", "/proc/17/comm": "python3\n", "/proc/5/comm": "Xorg\n"},
        replies=replies(
            nvmlDeviceGetComputeRunningProcesses=listed,
            nvmlDeviceGetGraphicsRunningProcesses=[{"pid": 5, "usedGpuMemory": None}, listed[1]],
        ),
    )
    found = capture(host=host, only=["gpu"]).sections["gpu"]
    assert found.values["gpu[0].compute_process_count"] == 2
    assert found.values["gpu[0].compute_process_memory_bytes"] == 3 << 30
    assert found.values["gpu[0].process_names"] == ["Xorg", "python3", "sglang::schedul"]
    assert found.unavailable["gpu[0].graphics_process_memory_bytes"].why is Why.NOT_SUPPORTED
    assert not [path for path in found.values if "4242" in path]


def test_processes_of_the_host_seen_from_a_container_are_not_nobody() -> None:
    host = FakeHost(replies=replies(nvmlDeviceGetComputeRunningProcesses=[{"pid": 4242, "usedGpuMemory": 1}]))
    found = capture(host=host, only=["gpu"]).sections["gpu"]
    assert found.unavailable["gpu[0].process_names"].why is Why.GONE
    assert found.values["gpu[0].compute_process_count"] == 1


class Counting(FakeHost):
    batches = 0

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        self.batches += 1
        return super().ask(requests)


def test_few_round_trips() -> None:
    host = Counting(replies=replies())
    capture(host=host, only=["gpu"])
    assert host.batches <= 2 + 2 * 3  # the count and the driver; per GPU two rounds and the names of its processes
