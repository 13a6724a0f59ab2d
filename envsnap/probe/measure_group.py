"""What GPUs do together: all-reduces through torch.distributed and NCCL, every rank in a process of its own.

NOTE: all ranks have to make the same calls in the same order, or they wait for each other for good. So nothing here
depends on what a rank measured.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from envsnap.probe.declared import BANDWIDTH_SIZES, LATENCY_SIZES
from envsnap.probe.measure_gpu import Gpu
from envsnap.probe.repeat import REPETITIONS
from envsnap.probe.result import Figure
from envsnap.reading import Missing, Why

_TIMEOUT = timedelta(seconds=25)
_WARM_UP, _CALLS, _LARGE_CALLS = 20, 50, 10
_IN_GRAPH, _REPLAYS = 20, 5
_LARGE_BYTES = 8 << 20


def all_reduce(gpu: Gpu) -> Iterator[Figure]:
    """Latency and bandwidth of calls as the host makes them."""
    distributed = _group(gpu)
    method = _method(gpu)
    world = len(gpu.place.gpus)
    for name, size in {**LATENCY_SIZES, **BANDWIDTH_SIZES}.items():
        tensor = _tensor(gpu, size)
        calls = _LARGE_CALLS if size > _LARGE_BYTES else _CALLS
        _call(distributed, tensor, _WARM_UP)
        seconds = []
        for _ in range(REPETITIONS):
            _call(distributed, tensor, 1)  # ranks that come late are waited for here
            seconds.append(gpu.timed(lambda t=tensor: distributed.all_reduce(t), calls))  # type: ignore[misc]
        if name in LATENCY_SIZES:
            yield Figure(f"all_reduce[{name}].microseconds", tuple(1e6 * s for s in seconds), method)
        if name in BANDWIDTH_SIZES:
            moved = size * 2 * (world - 1) / world
            yield Figure(f"all_reduce[{name}].bus_gb_per_second", tuple(moved / s / 1e9 for s in seconds), method)


def all_reduce_graph(gpu: Gpu) -> Iterator[Figure]:
    """Latency of calls in a CUDA graph, as an engine makes them when it decodes."""
    torch = gpu.torch
    distributed = _group(gpu)
    for name, size in LATENCY_SIZES.items():
        tensor = _tensor(gpu, size)
        _call(distributed, tensor, _WARM_UP)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # NOTE: by default a capture fails when another thread queries an event, as torch's watchdog does.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            _call(distributed, tensor, _IN_GRAPH)
        graph.replay()
        torch.cuda.synchronize()
        seconds = []
        for _ in range(REPETITIONS):
            graph.replay()
            seconds.append(gpu.timed(graph.replay, _REPLAYS) / _IN_GRAPH)
        yield Figure(f"all_reduce_graph[{name}].microseconds", tuple(1e6 * s for s in seconds), _method(gpu))
        del graph  # NCCL keeps a communicator that a graph still refers to


def leave(gpu: Gpu) -> None:
    """Leave the group, so that NCCL clears away what it shared with the other ranks."""
    try:
        distributed = _distributed()
        if distributed.is_available() and distributed.is_initialized():
            gpu.torch.cuda.synchronize()
            distributed.destroy_process_group()
    except Exception:
        # The figures are told by now, and the process ends.
        pass


def _group(gpu: Gpu) -> Any:
    """torch.distributed, this process being a rank of it."""
    distributed = _distributed()
    if not (distributed.is_available() and distributed.is_nccl_available()):
        raise Missing(Why.NOT_SUPPORTED, f"torch {gpu.torch.__version__} is built without NCCL")
    if not distributed.is_initialized():
        distributed.init_process_group(
            "nccl",
            init_method=f"file://{gpu.place.store}",
            rank=gpu.place.device,
            world_size=len(gpu.place.gpus),
            timeout=_TIMEOUT,
        )
    return distributed


def _distributed() -> Any:
    return importlib.import_module("torch.distributed")


def _tensor(gpu: Gpu, size: int) -> Any:
    # NOTE: zeros, since sums of anything else would grow with every call and end as infinity.
    return gpu.torch.zeros(size // 2, device=gpu.device, dtype=gpu.torch.bfloat16)


def _call(distributed: Any, tensor: Any, count: int) -> None:
    for _ in range(count):
        distributed.all_reduce(tensor)


def _method(gpu: Gpu) -> str:
    ranks = ", ".join(map(str, gpu.place.gpus))
    return f"bfloat16 through NCCL, GPUs {ranks}, NVLink multicast {'allowed' if gpu.place.multicast else 'off'}"
