"""What one GPU does, measured with torch in the process that holds it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from envsnap.host import LiveHost
from envsnap.probe.repeat import REPETITIONS, repeated
from envsnap.probe.result import Figure
from envsnap.reading import Missing, Why, describe

CPU_WORDS = 64
_MATMUL_SIZE = 8192
_COPY_BYTES = 1 << 30
_PINNED_BYTES = 256 << 20
_LAUNCHES = 2000
_BURST_SECONDS = 0.1
_WARM_UP_SECONDS = 0.4
_SM_CLOCK = 1
"""NVML_CLOCK_SM"""


@dataclass(frozen=True)
class Place:
    """A GPU: its number among the devices that CUDA shows, and NVML's. The rest is for all-reduces.

    `gpus` are NVML's indices of all ranks, `store` is the file through which they find each other.
    """

    device: int
    nvml: int
    gpus: Sequence[int]
    store: str
    multicast: bool


@dataclass(frozen=True)
class Gpu:
    """A GPU that this process holds."""

    torch: Any
    place: Place
    bound: bool
    """Whether this process runs on the CPUs next to it."""

    @property
    def name(self) -> str:
        """Its branch of figures."""
        return f"gpu[{self.place.nvml}]"

    @property
    def device(self) -> Any:
        """Its torch device."""
        return self.torch.device("cuda", self.place.device)

    def timed(self, work: Callable[[], object], count: int) -> float:
        """Seconds per call on the GPU, of `count` calls one after the other."""
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(count):
            work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000 / count

    def count_for(self, work: Callable[[], object], seconds: float) -> int:
        """How many calls take about so long."""
        self.timed(work, 1)  # the first call loads kernels
        return max(1, min(10_000, round(seconds / max(1e-7, self.timed(work, 1)))))


def take_hold(place: Place) -> Gpu:
    """Make a CUDA context on it. Raises: Missing, or what torch raises."""
    if importlib.util.find_spec("torch") is None:
        raise Missing(Why.ABSENT, "torch is not installed for this Python")
    bound = _bind(place.nvml)
    torch: Any = importlib.import_module("torch")
    if torch.version.cuda is None:
        raise Missing(Why.NOT_SUPPORTED, f"torch {torch.__version__} is built without CUDA")
    torch.cuda.init()
    if torch.cuda.device_count() <= place.device:
        raise Missing(Why.ABSENT, f"CUDA shows {torch.cuda.device_count()} of the GPUs that were asked for")
    torch.cuda.set_device(place.device)
    gpu = Gpu(torch, place, bound)
    torch.zeros(1, device=gpu.device)
    torch.cuda.synchronize()
    return gpu


def _bind(nvml: int) -> bool:
    """Move this process, and it alone, to the CPUs next to the GPU: its pinned memory shall lie there too."""
    try:
        words = LiveHost().nvml("nvmlDeviceGetCpuAffinity", f"gpu:{nvml}", CPU_WORDS)
        near = {64 * i + bit for i, word in enumerate(words) for bit in range(64) if word >> bit & 1}
        usable = near & os.sched_getaffinity(0)
        if usable:
            os.sched_setaffinity(0, usable)
        return bool(usable)
    except (Missing, OSError):
        return False


def matmul(gpu: Gpu) -> Iterator[Figure]:
    """Dense products long enough for clocks to settle, with the SM clock sampled meanwhile."""
    torch = gpu.torch
    dtype = torch.bfloat16 if torch.cuda.get_device_capability(gpu.device) >= (8, 0) else torch.float16
    a, b = (torch.randn(_MATMUL_SIZE, _MATMUL_SIZE, device=gpu.device, dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)

    def work() -> None:
        torch.mm(a, b, out=out)

    count = gpu.count_for(work, _BURST_SECONDS)
    gpu.timed(work, max(1, round(count * _WARM_UP_SECONDS / _BURST_SECONDS)))
    clocks: list[float] = []
    problem = ""

    def once() -> float:
        nonlocal problem
        with _sampled(lambda: _sm_clock(gpu)) as (seen, failed):
            seconds = gpu.timed(work, count)
        if seen:
            clocks.append(median(seen))
        problem = failed[0] if failed else problem
        return float(2 * _MATMUL_SIZE**3 / seconds / 1e12)

    method = f"{_MATMUL_SIZE}³ {str(dtype).removeprefix('torch.')}"
    yield Figure(f"{gpu.name}.matmul_tflops", repeated(once), method)
    clock = f"{gpu.name}.matmul_sm_clock_mhz"
    if clocks:
        yield Figure(clock, tuple(clocks), method)
    else:
        yield Figure(clock, unavailable=problem or "NVML gave no sample")


def _sm_clock(gpu: Gpu) -> float:
    return float(LiveHost().nvml("nvmlDeviceGetClockInfo", f"gpu:{gpu.place.nvml}", _SM_CLOCK))


@contextmanager
def _sampled(read: Callable[[], float]) -> Iterator[tuple[list[float], list[str]]]:
    """Samples taken in a thread while the block runs, and why there are no more of them."""
    seen: list[float] = []
    failed: list[str] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.01):
            try:
                seen.append(read())
            except Exception as error:
                failed.append(error.detail if isinstance(error, Missing) else describe(error))
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen, failed
    finally:
        stop.set()
        thread.join(1.0)


def memory(gpu: Gpu) -> Iterator[Figure]:
    """A copy within the device, far larger than its caches."""
    source = gpu.torch.ones(_COPY_BYTES, device=gpu.device, dtype=gpu.torch.uint8)
    target = gpu.torch.empty_like(source)
    speeds = _speeds(gpu, lambda: target.copy_(source, non_blocking=True), 2 * _COPY_BYTES)
    yield Figure(f"{gpu.name}.memory_copy_gb_per_second", speeds, "1 GiB")


def host_link(gpu: Gpu) -> Iterator[Figure]:
    """Copies between the GPU and pinned memory of the CPUs next to it."""
    host = gpu.torch.ones(_PINNED_BYTES, dtype=gpu.torch.uint8).pin_memory()
    device = gpu.torch.ones(_PINNED_BYTES, device=gpu.device, dtype=gpu.torch.uint8)
    method = f"256 MiB, {'from the CPUs next to it' if gpu.bound else 'from any CPU'}"
    to_device = _speeds(gpu, lambda: device.copy_(host, non_blocking=True), _PINNED_BYTES)
    yield Figure(f"{gpu.name}.host_to_device_gb_per_second", to_device, method)
    to_host = _speeds(gpu, lambda: host.copy_(device, non_blocking=True), _PINNED_BYTES)
    yield Figure(f"{gpu.name}.device_to_host_gb_per_second", to_host, method)


def _speeds(gpu: Gpu, copy: Callable[[], object], moved_bytes: int) -> tuple[float, ...]:
    """GB/s of each repetition."""
    count = gpu.count_for(copy, _BURST_SECONDS / 2)
    gpu.timed(copy, count)
    return repeated(lambda: moved_bytes / gpu.timed(copy, count) / 1e9)


def launch(gpu: Gpu) -> Iterator[Figure]:
    """Kernels too small to take time themselves, launched in a row."""
    torch = gpu.torch
    one = torch.zeros(1, device=gpu.device)

    def once() -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(_LAUNCHES):
            one.add_(1)
        torch.cuda.synchronize()
        return 1e6 * (time.perf_counter() - start) / _LAUNCHES

    once()
    yield Figure(f"{gpu.name}.launch_microseconds", repeated(once, 2 * REPETITIONS + 1), "torch add_ of one element")
