"""Which processes use a GPU, as NVML knows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from envsnap.collectors._nvml import Call
from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Type
from envsnap.reading import Found, Json, Missing, Value, Why, attempt

EFFECTS = (Effect.COMPUTE, Effect.MEMORY, Effect.VALIDITY)
FOREIGN = "A process that is not part of the benchmark takes time and memory from it: end it, or move one of the two."

KINDS = ("compute", "graphics", "mps_compute")
GETTERS = {
    "compute": "nvmlDeviceGetComputeRunningProcesses",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses",
    "mps_compute": "nvmlDeviceGetMPSComputeRunningProcesses",
}
KEYS = (
    Key("gpu[].compute_process_count", Type.INTEGER, Kind.VOLATILE, "Processes with a CUDA context on the GPU.",
        EFFECTS, 0.4, advice=FOREIGN),
    Key("gpu[].graphics_process_count", Type.INTEGER, Kind.VOLATILE, "Processes with a graphics context on the GPU.",
        EFFECTS, 0.3, advice=FOREIGN),
    Key("gpu[].mps_compute_process_count", Type.INTEGER, Kind.VOLATILE, "Processes that share the GPU through MPS.",
        EFFECTS, 0.4, advice=FOREIGN),
    *(
        Key(f"gpu[].{kind}_process_memory_bytes", Type.INTEGER, Kind.VOLATILE,
            f"Memory that the GPU's {kind.replace('_', ' ')} processes hold together.", (Effect.MEMORY,), 0.2,
             rel_tol=0.02)
        for kind in KINDS
    ),
    Key("gpu[].process_names", Type.STRINGS, Kind.VOLATILE, "Names of the processes on the GPU.", EFFECTS, 0.4,
        advice=FOREIGN),
)  # fmt: skip

CALLS: dict[str, tuple[Call, ...]] = {
    # NOTE: the unversioned getter means version 3, which drivers before 510 do not have.
    kind: ((getter,), (getter + "_v2",))
    for kind, getter in GETTERS.items()
}


def lists(answers: Mapping[Call, Found]) -> dict[str, Found]:
    """The list of processes of each kind, by whichever version of the getter has one."""
    found: dict[str, Found] = {}
    for kind, calls in CALLS.items():
        given = [answers[call] for call in calls if call in answers]
        found[kind] = next((f for f in given if isinstance(f, Value)), given[0])
    return found


def _listed(found: Found) -> list[dict[str, Json]]:
    processes = value_of(found)
    if not isinstance(processes, list):
        raise TypeError(f"expected a list of processes, got {type(processes).__name__}")
    return processes


def _memory(processes: list[dict[str, Json]]) -> int:
    used = [p["usedGpuMemory"] for p in processes]
    if None in used:
        raise Missing(Why.NOT_SUPPORTED, "NVML does not know what each process uses")
    return sum(used)


def pids(found: Iterable[Found]) -> list[int]:
    """The PIDs in lists of processes."""
    return sorted({p["pid"] for f in found if isinstance(f, Value) for p in _listed(f)})


def readings(host: Host, gpu: int, answers: Mapping[Call, Found]) -> Iterator[tuple[str, Found]]:
    """Yield the readings; asks the host for the names."""
    found = lists(answers)
    for kind, processes in found.items():
        yield f"gpu[{gpu}].{kind}_process_count", attempt(lambda p=processes: len(_listed(p)))
        yield f"gpu[{gpu}].{kind}_process_memory_bytes", attempt(lambda p=processes: _memory(_listed(p)))
    yield f"gpu[{gpu}].process_names", _names(host, found)


def _names(host: Host, found: Mapping[str, Found]) -> Found:
    if not isinstance(found["compute"], Value):
        return found["compute"]

    def names() -> list[str]:
        comms = host.read_all(f"/proc/{pid}/comm" for pid in pids(found.values()))
        unknown = sum(not isinstance(comm, Value) for comm in comms.values())
        if unknown:
            # NOTE: in a container NVML may count in the PIDs of the host.
            raise Missing(Why.GONE, f"{unknown} of {len(comms)} processes have ended or run outside this container")
        return sorted(value_of(comm) for comm in comms.values())

    return attempt(names)
