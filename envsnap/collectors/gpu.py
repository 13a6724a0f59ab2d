"""GPUs: what NVML says of each, and of the driver."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from queue import Empty, SimpleQueue

from envsnap.collectors import (
    Partial,
    _gpu_board,
    _gpu_clocks,
    _gpu_links,
    _gpu_memory,
    _gpu_nvlink,
    _gpu_power,
    _gpu_processes,
)
from envsnap.collectors._nvml import FIELD_VALUES, Call, ask, fact, flag, gpu_count, item, named
from envsnap.host import Host
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Error, Found, Missing, Unavailable, Value, Why, describe
from envsnap.scope import Scope

METHOD = "NVML"

FIRST_UNSETTLED_FIELD, FIELDS_SETTLED = 251, (580, 82)
"""NVML's fields from here on were renumbered twice; since this driver version they are as pynvml has them."""

MARGIN_SECONDS = 0.1
"""How long before the deadline a GPU that has not answered is given up."""


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


SYSTEM_FACTS = (
    fact(Key("nvml.driver_version", Type.STRING, Kind.IDENTITY, "Version of the NVIDIA driver.",
             (Effect.COMPUTE, Effect.MEMORY, Effect.COMMUNICATION, Effect.HOST_LAUNCH), 0.4, Lever.ROOT),
         "nvmlSystemGetDriverVersion"),
    fact(Key("nvml.version", Type.STRING, Kind.IDENTITY, "Version of the NVML library.", (), 0.02, Lever.ROOT),
         "nvmlSystemGetNVMLVersion"),
    fact(Key("nvml.cuda_driver_version", Type.STRING, Kind.IDENTITY, "Newest CUDA version that the driver runs.",
             (Effect.COMPUTE, Effect.HOST_LAUNCH), 0.3, Lever.ROOT),
         "nvmlSystemGetCudaDriverVersion_v2", take=_cuda_version),
    fact(Key("nvml.nvlink_bandwidth_mode", Type.STRING, Kind.TUNABLE, "Bandwidth that all NVLinks were limited to: "
             "full, half, 3quarter, min or off.", (Effect.COMMUNICATION,), 0.6, Lever.ROOT),
         "nvmlSystemGetNvlinkBwMode", take=named(("full", "off", "min", "half", "3quarter"))),
    fact(Key("nvml.confidential_compute", Type.BOOLEAN, Kind.TUNABLE, "Whether the GPUs run in confidential computing "
             "mode, which encrypts what crosses PCIe.", (Effect.COMMUNICATION, Effect.HOST_LAUNCH, Effect.PREFILL), 0.4,
             Lever.ROOT), "nvmlSystemGetConfComputeState", take=item("ccFeature", flag)),
)  # fmt: skip
GPU_COUNT = Key("nvml.gpu_count", Type.INTEGER, Kind.IDENTITY, "GPUs that this process can see.",
                (Effect.COMPUTE, Effect.COMMUNICATION), 0.5)  # fmt: skip

DRIVER_VERSION = SYSTEM_FACTS[0].calls[0]

FACTS = (
    *_gpu_board.FACTS, *_gpu_clocks.FACTS, *_gpu_power.FACTS, *_gpu_memory.FACTS, *_gpu_links.FACTS,
    *_gpu_nvlink.FACTS,
)  # fmt: skip
KEYS = (
    *(f.key for f in SYSTEM_FACTS), GPU_COUNT, *(f.key for f in FACTS),
    *_gpu_nvlink.LINK_KEYS, *_gpu_processes.KEYS,
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings. Every GPU is asked in a thread of its own, so that one that hangs costs only itself."""
    count = gpu_count(host)
    calls = [f.calls[0] for f in SYSTEM_FACTS]
    driver = dict(zip(calls, host.found([["nvml", *call] for call in calls])))
    for f in SYSTEM_FACTS:
        yield f.key.pattern, f.reading(driver)
    yield GPU_COUNT.pattern, Value(count)

    unsure = _unsure_fields(driver[DRIVER_VERSION])
    results: SimpleQueue[tuple[int, list[tuple[str, Found]]]] = SimpleQueue()

    def work(gpu: int) -> None:
        readings: list[tuple[str, Found]] = []
        try:
            for reading in _readings(host, gpu, unsure):
                readings.append(reading)
        except Missing as missing:
            readings.append((f"gpu[{gpu}]", Unavailable(missing.why, missing.detail)))
        except Exception as error:
            readings.append((f"gpu[{gpu}]", Error(describe(error))))
        results.put((gpu, readings))

    for gpu in range(count):
        threading.Thread(target=work, args=(gpu,), daemon=True, name=f"gpu{gpu}").start()
    answered: dict[int, list[tuple[str, Found]]] = {}
    late = [(f"gpu[{gpu}]", Unavailable(Why.TIMEOUT, "NVML did not answer")) for gpu in range(count)]
    try:
        while len(answered) < count:
            gpu, readings = results.get(timeout=max(host.left(threading.TIMEOUT_MAX) - MARGIN_SECONDS, 0))
            answered[gpu] = readings
    except (Empty, Missing):
        pass
    # NOTE: by number, whoever answered first: what a snapshot holds does not depend on how threads ran.
    for gpu in range(count):
        yield from answered.get(gpu, [late[gpu]])
    if len(answered) < count:
        raise Partial(f"NVML did not answer for {count - len(answered)} of {count} GPUs")


def _unsure_fields(driver_version: Found) -> dict[Call, Found]:
    """The field values that this driver may number otherwise, as answers that say so."""
    version = driver_version.value if isinstance(driver_version, Value) else ""
    if tuple(map(int, re.findall(r"\d+", str(version))[:2])) >= FIELDS_SETTLED:
        return {}
    why = Unavailable(Why.NOT_SUPPORTED, "NVML: drivers before 580.82 do not agree on the number of this field")
    fields = (call for f in FACTS for call in f.calls if call[0] == FIELD_VALUES)
    return {call: why for call in fields if call[1] >= FIRST_UNSETTLED_FIELD}


def _readings(host: Host, gpu: int, unsure: dict[Call, Found]) -> Iterator[tuple[str, Found]]:
    processes = _gpu_processes.CALLS.values()
    first = [f.calls[0] for f in FACTS] + [calls[0] for calls in processes] + [_gpu_nvlink.COUNT]
    answers = ask(host, gpu, [call for call in first if call not in unsure])
    if not any(isinstance(found, Value) for found in answers.values()):
        yield f"gpu[{gpu}]", next(iter(answers.values()))
        return
    answers.update(unsure)

    unanswered = [f.calls for f in FACTS if not isinstance(answers[f.calls[0]], Value)]
    unanswered += [calls for calls in processes if not isinstance(answers[calls[0]], Value)]
    second = [call for calls in unanswered for call in calls[1:]]
    links = _gpu_nvlink.Links(answers[_gpu_nvlink.COUNT], answers[_gpu_nvlink.ARCHITECTURE])
    answers.update(ask(host, gpu, second + links.calls()))

    for f in FACTS:
        yield path_of(f.key.pattern, gpu), f.reading(answers)
    yield from links.readings(gpu, answers)
    yield from _gpu_processes.readings(host, gpu, answers)
