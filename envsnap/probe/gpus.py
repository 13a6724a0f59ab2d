"""Which GPUs are measured, and whether anybody uses them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from envsnap.collectors._gpu_processes import CALLS, lists, pids
from envsnap.collectors._nvml import Call
from envsnap.host import Host, value_of
from envsnap.probe.result import Busy
from envsnap.reading import Found, Json, Missing, Value, Why

BUSY_PERCENT = 5
_NVML_SECONDS = 10.0
_LOOKS, _BETWEEN_SECONDS = 4, 0.5
_UTILIZATION = "nvmlDeviceGetUtilizationRates"


def chosen(host: Host, asked: Sequence[int] | None) -> dict[int, str]:
    """NVML's index -> UUID of each GPU to measure: those asked for, else what CUDA_VISIBLE_DEVICES leaves.

    Raises: Missing where NVML or a GPU cannot be had, ValueError for an index that does not exist.
    """
    count = int(value_of(_nvml(host, [["nvml", "nvmlDeviceGetCount"]])[0]))
    found = _nvml(host, [["nvml", "nvmlDeviceGetUUID", f"gpu:{gpu}"] for gpu in range(count)])
    every = {gpu: str(f.value) for gpu, f in enumerate(found) if isinstance(f, Value)}
    wanted = (
        _visible(every, host.environ().get("CUDA_VISIBLE_DEVICES")) if asked is None else list(dict.fromkeys(asked))
    )
    if strange := [gpu for gpu in wanted if not 0 <= gpu < count]:
        raise ValueError(f"there is no GPU {strange[0]}: NVML counts {count}")
    for gpu in wanted:
        value_of(found[gpu])
    if not wanted:
        raise Missing(Why.ABSENT, "CUDA_VISIBLE_DEVICES leaves no GPU" if count else "NVML counts no GPU")
    return {gpu: every[gpu] for gpu in wanted}


def _visible(every: dict[int, str], variable: str | None) -> list[int]:
    """The GPUs that a value of CUDA_VISIBLE_DEVICES leaves. Raises: Missing for MIG instances."""
    if variable is None:
        return list(every)
    wanted: list[int] = []
    for word in filter(None, (part.strip() for part in variable.split(","))):
        if word.startswith("MIG-"):
            raise Missing(Why.NOT_SUPPORTED, "CUDA_VISIBLE_DEVICES names a MIG instance, and whole GPUs are measured")
        if word.isdigit():
            wanted.append(int(word))
            continue
        same = [gpu for gpu, uuid in every.items() if uuid.startswith(word)]
        if not same:  # as CUDA does: what comes behind a device that does not exist is not visible
            break
        wanted += same
    return wanted


def check_idle(host: Host, gpus: Sequence[int]) -> None:
    """Raises: Busy where one of them is used, by what NVML says."""
    for look in range(_LOOKS):
        held = [sentence for gpu in gpus if (sentence := _holders(host, gpu))]
        if held:
            raise Busy(held[0])
        # NOTE: what NVML calls utilization is that of the last second: what has just ended still shows.
        busy = {gpu: percent for gpu in gpus if (percent := _utilization(host, gpu)) > BUSY_PERCENT}
        if not busy:
            return
        if look < _LOOKS - 1:
            time.sleep(_BETWEEN_SECONDS)
    gpu, percent = next(iter(busy.items()))
    raise Busy(f"GPU {gpu} is {percent} % busy")


def _holders(host: Host, gpu: int) -> str:
    """A sentence about the processes on a GPU; nothing where NVML knows of none."""
    calls: list[Call] = [call for kinds in CALLS.values() for call in kinds]
    answers = dict(zip(calls, _nvml(host, [["nvml", name, f"gpu:{gpu}", *rest] for name, *rest in calls])))
    found = lists(answers)
    others = [pid for pid in pids(found[kind] for kind in ("compute", "mps_compute")) if pid != os.getpid()]
    if not others:
        return ""
    comms = host.read_all(f"/proc/{pid}/comm" for pid in others)
    names = sorted({str(comm.value) for comm in comms.values() if isinstance(comm, Value)})
    told = f" ({', '.join(names[:3])})" if names else ""
    return f"GPU {gpu} is used by {len(others)} process{'es' if len(others) > 1 else ''}{told}"


def _utilization(host: Host, gpu: int) -> int:
    """Percent; 0 where NVML cannot say."""
    (found,) = _nvml(host, [["nvml", _UTILIZATION, f"gpu:{gpu}"]])
    return int(found.value["gpu"]) if isinstance(found, Value) else 0


def _nvml(host: Host, requests: list[list[Json]]) -> list[Found]:
    """Answers of NVML, which may hang."""
    return host.within(_NVML_SECONDS, requests)
