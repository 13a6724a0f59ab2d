"""A real machine's NVML (two NVIDIA H200, driver 580.159.04) as replies of a FakeHost.

`data/h200x2/nvml.json` holds every getter that takes one device, as [value, milliseconds]. What getters with more
arguments gave is taken from nvidia-smi's output and NCCL's log of the same moment; an NVLink's speed was not in
them and is that of any NVLink 4.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fakes import Reply, missing

DATA: dict[str, Any] = json.loads((Path(__file__).parent / "data/h200x2/nvml.json").read_text())
NOT_SUPPORTED = missing("not_supported", "NVML: Not Supported")

SYSTEM = {
    "nvmlSystemGetDriverVersion": DATA["driver"],
    "nvmlSystemGetNVMLVersion": DATA["nvml"],
    "nvmlSystemGetCudaDriverVersion_v2": DATA["cuda"],
    "nvmlSystemGetConfComputeState": {"environment": 0, "ccFeature": 0, "devToolsMode": 0},
    "nvmlDeviceGetCount": 2,
}
WITH_ARGUMENTS: dict[tuple[Any, ...], Any] = {
    ("nvmlDeviceGetInforomVersion", 0): "2.1",
    ("nvmlDeviceGetInforomVersion", 1): "7.16",
    ("nvmlDeviceGetTemperatureV", 0): 34,
    ("nvmlDeviceGetMemoryInfo", 0x0200_0028): {
        "version": 0x0200_0028, "total": 150754820096, "reserved": 644939776, "free": 150109880320, "used": 0,
    },
    **{("nvmlDeviceGetTotalEccErrors", error, counter): 0 for error in (0, 1) for counter in (0, 1)},
    ("nvmlDeviceGetSramEccErrorStatus", "struct:c_nvmlEccSramErrorStatus_v1_t"): {"bThresholdExceeded": 0},
    ("nvmlDeviceGetCpuAffinity", 64): [0xFFFF_FFFF] + [0] * 63,
    ("nvmlDeviceGetMemoryAffinity", 16, 0): [1] + [0] * 15,
    ("nvmlDeviceGetGpuFabricInfoV", "struct:c_nvmlGpuFabricInfo_v3_t"): {
        "version": 0x300_0028, "clusterUuid": [0] * 16, "status": 0, "cliqueId": 0, "state": 3, "healthMask": 0,
        "healthSummary": 0,
    },
}  # fmt: skip
CLOCKS = ("graphics", "sm", "mem", "video")
FIELDS = {
    **dict.fromkeys(range(74, 82), 0), **dict.fromkeys(range(269, 272), 0),
    82: 36, 91: 18, 95: 0, 186: 78530, 193: -8, 194: -2, 195: 0, 196: 0, 230: 0,
}  # fmt: skip
LINK_FIELDS = {161: 0, 162: 0, 163: 0, 164: 26562}


def replies(**changed: Reply) -> dict[tuple[Any, ...], Reply]:
    """Replies for a FakeHost; `changed` gives a getter (by its name) another reply for every GPU."""
    return {("nvml",): _reply, **{("nvml", name): reply for name, reply in changed.items()}}


def _reply(function: str, gpu: str = "", *arguments: Any) -> Any:
    if not gpu.startswith("gpu:"):
        return SYSTEM.get(function, NOT_SUPPORTED)
    device = DATA["dev"][int(gpu[4:])]
    if function == "nvmlDeviceGetFieldValues":
        return [_field(*field) for field in arguments[0]]
    call = (function, *arguments)
    if call in WITH_ARGUMENTS:
        return WITH_ARGUMENTS[call]
    if function.startswith("nvmlDeviceGetNvLink"):
        link = device.get(f"nvlink{arguments[0]}")
        which = {"State": 0, "Version": 1, "RemoteDeviceType": 2}[function.removeprefix("nvmlDeviceGetNvLink")]
        return NOT_SUPPORTED if link is None else link[0][which]
    if function == "nvmlDeviceGetTopologyCommonAncestor":
        return device[f"topo{arguments[0][4:]}"][0]
    if function == "nvmlDeviceGetP2PStatus":
        return device[f"p2p{arguments[0][4:]}.{arguments[1]}"][0]
    if arguments:
        name = CLOCKS[arguments[0]] if function.endswith(("Clock", "ClockInfo")) else arguments[0]
        function = f"{function}.{name}"
    return _recorded(device.get(function, ["ERR:Not Supported"])[0])


def _recorded(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("ERR:"):
        return missing("not_supported", f"NVML: {value[4:]}")
    return value


def _field(number: int, scope: int) -> list[Any]:
    value = LINK_FIELDS.get(number, FIELDS.get(number))
    return NOT_SUPPORTED if value is None else ["ok", value]
