"""NVML as the machine calls it: the real pynvml over a made-up library, real structures of ctypes."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pynvml
import pytest

from envsnap import machine
from envsnap.collectors import gpu, gpu_pair
from envsnap.host import LiveHost
from envsnap.scope import Scope
from tests import nvml_fixture
from tests.fakes import FakeHost
from tests.nvml_library import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    INVALID_ARGUMENT,
    LIB_RM_VERSION_MISMATCH,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SUCCESS,
    Library,
    fills,
    gives,
    index_of,
    loaded,
)


def ask(function: str, *arguments: Any) -> Any:
    return LiveHost().ask([["nvml", function, *arguments]])[0]


RECORDED = nvml_fixture.DATA["dev"][0]
"""What real getters gave on a real machine, turned to JSON there."""


@pytest.mark.parametrize(
    ("function", "symbol", "fill"),
    [
        ("nvmlDeviceGetBAR1MemoryInfo", "nvmlDeviceGetBAR1MemoryInfo", fills),
        ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetUtilizationRates", fills),
        ("nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v3", fills),
        ("nvmlDeviceGetRowRemapperHistogram", "nvmlDeviceGetRowRemapperHistogram", fills),
        ("nvmlDeviceGetConfComputeMemSizeInfo", "nvmlDeviceGetConfComputeMemSizeInfo", fills),
        ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo", fills),
    ],
)
def test_structures_become_what_was_recorded_on_a_real_machine(function: str, symbol: str, fill: Any) -> None:
    recorded = RECORDED[function][0]
    with loaded(Library({symbol: fill(**recorded)})):
        assert ask(function, "gpu:0") == ["ok", recorded]


def test_numbers_texts_and_tuples() -> None:
    def name(handle: Any, buffer: Any, size: Any) -> int:
        buffer.value = b"NVIDIA H200"
        return SUCCESS

    def capability(handle: Any, major: Any, minor: Any) -> int:
        major._obj.value, minor._obj.value = 9, 0
        return SUCCESS

    library = Library(
        {
            "nvmlDeviceGetName": name,
            "nvmlDeviceGetCudaComputeCapability": capability,
            "nvmlDeviceGetPowerManagementLimit": gives(700000),
            "nvmlDeviceGetP2PStatus": gives(5),
        }
    )
    with loaded(library):
        assert ask("nvmlDeviceGetName", "gpu:0") == ["ok", "NVIDIA H200"]
        assert ask("nvmlDeviceGetCudaComputeCapability", "gpu:0") == ["ok", [9, 0]]
        assert ask("nvmlDeviceGetPowerManagementLimit", "gpu:1") == ["ok", 700000]
        assert ask("nvmlDeviceGetP2PStatus", "gpu:0", "gpu:1", 4) == ["ok", 5]


def test_masks_are_lists_of_words() -> None:
    def affinity(handle: Any, size: int, words: Any) -> int:
        words._obj[0], words._obj[1] = 0xFFFF_FFFF, 1
        return SUCCESS

    with loaded(Library({"nvmlDeviceGetCpuAffinity": affinity})):
        assert ask("nvmlDeviceGetCpuAffinity", "gpu:0", 3) == ["ok", [0xFFFF_FFFF, 1, 0]]


def test_a_structure_that_the_caller_brings_is_the_answer() -> None:
    library = Library({"nvmlDeviceGetGpuFabricInfoV": fills(state=3, status=0, cliqueId=7, healthMask=0x2)})
    with loaded(library):
        status, info = ask("nvmlDeviceGetGpuFabricInfoV", "gpu:0", "struct:c_nvmlGpuFabricInfo_v3_t")
        assert status == "ok"
        assert (info["state"], info["cliqueId"], info["healthMask"], info["clusterUuid"]) == (3, 7, 2, [0] * 16)
        assert info["version"] == pynvml.nvmlGpuFabricInfo_v3
        assert ask("nvmlDeviceGetGpuFabricInfoV", "gpu:0", "struct:c_nvmlNoSuchThing_t")[:2] == [
            "missing",
            "not_supported",
        ]
        # What is no structure of pynvml must not be called.
        assert ask("nvmlDeviceGetGpuFabricInfoV", "gpu:0", "struct:nvmlShutdown")[:2] == ["missing", "not_supported"]


def test_a_return_code_that_pynvml_hands_through_is_not_a_success() -> None:
    with loaded(Library({"nvmlDeviceGetCapabilities": lambda handle, caps: NOT_SUPPORTED})):
        answer = ask("nvmlDeviceGetCapabilities", "gpu:0", "struct:c_nvmlDeviceCapabilities_v1_t")
        assert answer == ["missing", "not_supported", "NVML: Not Supported"]


def test_processes_keep_their_fields() -> None:
    """pynvml hands processes out as objects of its own, which are neither structures nor sequences."""

    def processes(handle: Any, count: Any, found: Any) -> int:
        if found is None:
            count._obj.value = 1
            return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
        count._obj.value = 1
        found[0].pid, found[0].usedGpuMemory = 4242, 2**64 - 1
        return SUCCESS

    with loaded(Library({"nvmlDeviceGetComputeRunningProcesses_v3": processes})):
        status, found = ask("nvmlDeviceGetComputeRunningProcesses", "gpu:0")
        assert status == "ok"
        assert (found[0]["pid"], found[0]["usedGpuMemory"]) == (4242, None)


def test_an_old_library_lacks_the_unversioned_process_list() -> None:
    def none(handle: Any, count: Any, found: Any) -> int:
        count._obj.value = 0
        return SUCCESS

    with loaded(Library({"nvmlDeviceGetComputeRunningProcesses_v2": none})):
        assert ask("nvmlDeviceGetComputeRunningProcesses", "gpu:0")[:2] == ["missing", "not_supported"]
        assert ask("nvmlDeviceGetComputeRunningProcesses_v2", "gpu:0") == ["ok", []]


def test_field_values_are_answers_of_their_own() -> None:
    def field_values(handle: Any, count: Any, values: Any) -> int:
        for value in values._obj:
            number, link = value.fieldId, value.scopeId
            value.nvmlReturn = {2: NOT_SUPPORTED, 3: NO_PERMISSION, 4: 999}.get(number, SUCCESS)
            value.valueType = {
                193: pynvml.NVML_VALUE_TYPE_SIGNED_INT,
                83: pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
            }.get(number, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT)
            if number == 193:
                value.value.siVal = -8
            elif number == 83:
                value.value.ullVal = 2**40
            elif number == 300:
                value.valueType = 99
            else:
                value.value.uiVal = 26562 + link
        return SUCCESS

    with loaded(Library({"nvmlDeviceGetFieldValues": field_values})):
        asked = [[164, 17], [193, 0], [83, 0], [2, 0], [3, 0], [4, 0], [300, 0]]
        status, answers = ask("nvmlDeviceGetFieldValues", "gpu:0", asked)
    assert status == "ok"
    assert answers == [
        ["ok", 26579],
        ["ok", -8],
        ["ok", 2**40],
        ["missing", "not_supported", "NVML: Not Supported"],
        ["missing", "denied", "NVML: Insufficient Permissions"],
        ["error", "NVML: Unknown Error"],
        ["missing", "not_supported", "NVML: value type 99"],
    ]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (GPU_IS_LOST, "gone"),
        (NO_PERMISSION, "denied"),
        (NOT_SUPPORTED, "not_supported"),
        (INVALID_ARGUMENT, "not_supported"),
    ],
)
def test_return_codes_that_are_no_errors(code: int, why: str) -> None:
    with loaded(Library({"nvmlDeviceGetComputeMode": lambda handle, mode: code})):
        assert ask("nvmlDeviceGetComputeMode", "gpu:0")[:2] == ["missing", why]


def test_what_is_no_getter_is_never_called() -> None:
    called: list[Any] = []

    def record(*arguments: Any) -> int:
        called.append(arguments)
        return SUCCESS

    with loaded(Library({"nvmlDeviceSetPersistenceMode": record})):
        for name in ("nvmlDeviceSetPersistenceMode", "nvmlShutdown", "nvmlDeviceGet\n", "os", "", None, 3):
            assert ask(name, "gpu:0", 0)[0] == "missing"  # type: ignore[arg-type]
    assert not called


def test_a_handle_is_looked_up_once() -> None:
    with loaded(Library({"nvmlDeviceGetComputeMode": gives(0)})) as library:
        for _ in range(5):
            ask("nvmlDeviceGetComputeMode", "gpu:1")
        assert library.handles_made == 1


def test_a_gpu_that_does_not_wake_is_not_tried_for_every_reading() -> None:
    """Each try may take seconds, and there are a hundred readings."""
    tries = []

    def never(index: Any, device: Any) -> int:
        tries.append(index.value)
        return GPU_IS_LOST

    with loaded(Library({"nvmlDeviceGetHandleByIndex_v2": never, "nvmlDeviceGetComputeMode": gives(0)})):
        for _ in range(5):
            assert ask("nvmlDeviceGetComputeMode", "gpu:1") == ["missing", "gone", "NVML: GPU is lost"]
    assert tries == [1]


def test_a_gpu_that_is_not_there() -> None:
    with loaded(Library({"nvmlDeviceGetComputeMode": gives(0)}, gpus=1)):
        assert ask("nvmlDeviceGetComputeMode", "gpu:1")[:2] == ["missing", "not_supported"]
        assert ask("nvmlDeviceGetComputeMode", "gpu:x")[0] == "error"


def test_two_gpus_asked_at_once_do_not_get_each_others_number() -> None:
    """pynvml has getters that write into one default argument, shared by all threads."""
    both = threading.Barrier(2, timeout=10)

    def module_id(handle: Any, out: Any) -> int:
        out._obj.value = index_of(handle)
        both.wait()  # both have written before either reads
        return SUCCESS

    answers: dict[int, Any] = {}

    def work(number: int) -> None:
        answers[number] = ask("nvmlDeviceGetModuleId", f"gpu:{number}")

    with loaded(Library({"nvmlDeviceGetModuleId": module_id})):
        threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {0: ["ok", 0], 1: ["ok", 1]}


def test_every_call_of_the_collectors_fits_the_real_pynvml() -> None:
    """Each getter exists and takes these arguments: a library that fills in nothing must draw no TypeError."""

    class Obliging(Library):
        def __getattr__(self, name: str) -> Any:
            return self._functions.get(name, lambda *arguments: SUCCESS)

    host = FakeHost(replies=nvml_fixture.replies())
    for module in (gpu, gpu_pair):
        list(module.collect(host, Scope()))
    asked = {tuple(map(repr, request)): request for request in host.asked if request[0] == "nvml"}
    assert len(asked) > 150
    with loaded(Obliging({})):
        wrong = {key: answer for key, r in asked.items() if (answer := LiveHost().ask([r])[0])[0] == "error"}
    assert not wrong


@pytest.mark.parametrize(("code", "why"), [(DRIVER_NOT_LOADED, "absent"), (LIB_RM_VERSION_MISMATCH, "not_supported")])
def test_an_nvml_that_does_not_start(code: int, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    with loaded(Library({"nvmlInitWithFlags": lambda flags: code})):
        machine._nvml.clear()
        for _ in range(2):
            assert ask("nvmlDeviceGetCount")[:2] == ["missing", why]


def test_an_unforeseen_failure_to_start_is_an_error_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    with loaded(Library({"nvmlInitWithFlags": lambda flags: 999})):
        machine._nvml.clear()
        for _ in range(2):
            assert ask("nvmlDeviceGetCount") == ["error", "RuntimeError: NVML: Unknown Error"]


UNOFFICIAL = {
    # pynvml before 12: a package; its star import leaves private names behind.
    "pynvml/__init__.py": "from .nvml import *\n",
    "pynvml/nvml.py": "_nvmlGetFunctionPointer = nvmlDeviceGetCurrentClocksEventReasons = print\n",
    # nvidia-ml-py3 and old releases of nvidia-ml-py: one file, without what later drivers brought.
    "pynvml.py": "_nvmlGetFunctionPointer = nvmlInit = print\n",
}


@pytest.mark.parametrize("files", [["pynvml/__init__.py", "pynvml/nvml.py"], ["pynvml.py"]])
def test_another_module_of_that_name_is_told_from_the_official_one(files: list[str], tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(UNOFFICIAL[name])
    program = (
        "import ctypes, importlib.util, sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "ctypes.CDLL = lambda name: object()\n"
        f"spec = importlib.util.spec_from_file_location('machine', {machine.__file__!r})\n"
        "machine = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(machine)\n"
        "print(*machine.answer(['nvml', 'nvmlDeviceGetCount']), sep='|')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("missing|not_supported|the module pynvml is not that of nvidia-ml-py")
    assert "pip install nvidia-ml-py" in done.stdout
