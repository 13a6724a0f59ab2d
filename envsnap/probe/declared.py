"""What can be measured: probes and the figures that each yields. One declaration per figure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from envsnap.keys import pattern_of
from envsnap.runs.metrics import Better

LATENCY_SIZES = {"16KiB": 16 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20}
"""What an all-reduce of decode steps carries: a hidden state of some tokens."""

BANDWIDTH_SIZES = {"1MiB": 1 << 20, "64MiB": 64 << 20}


@dataclass(frozen=True)
class Quantity:
    """A figure: `pattern` is its name, [] standing for a GPU or a size.

    `session_difference` is by how much two sessions on a healthy machine may differ, as a 95 % bound on their ratio:
    the allowance where no three baselines show how much they do.
    """

    pattern: str
    unit: str
    better: Better
    session_difference: float
    meaning: str


@dataclass(frozen=True)
class Probe:
    """One measurement; `seconds` is its deadline. `needs` is how many GPUs it runs on: 0, 1 (each by itself) or 2."""

    name: str
    seconds: float
    needs: int
    quantities: tuple[Quantity, ...]


PROBES = (
    Probe("cpu", 10, 0, (
        Quantity("cpu.single_thread_milliseconds", "ms", Better.LOWER, 0.20,
                 "Time of a fixed loop of Python and SHA-256 on one CPU."),
    )),
    Probe("memory", 10, 0, (
        Quantity("memory.copy_gb_per_second", "GB/s", Better.HIGHER, 0.20,
                 "Host memory bandwidth of one CPU's large copy, bytes read and written."),
    )),
    Probe("disk", 20, 0, (
        Quantity("disk.read_gb_per_second", "GB/s", Better.HIGHER, 0.50,
                 "Sequential read of a temporary file past the page cache, one request at a time."),
    )),
    Probe("matmul", 15, 1, (
        Quantity("gpu[].matmul_tflops", "TFLOP/s", Better.HIGHER, 0.05, "Speed of large dense matrix products."),
        Quantity("gpu[].matmul_sm_clock_mhz", "MHz", Better.HIGHER, 0.05, "SM clock during these products."),
    )),
    Probe("gpu_memory", 10, 1, (
        Quantity("gpu[].memory_copy_gb_per_second", "GB/s", Better.HIGHER, 0.05,
                 "GPU memory bandwidth of a copy within the device, bytes read and written."),
    )),
    Probe("host_link", 15, 1, (
        Quantity("gpu[].host_to_device_gb_per_second", "GB/s", Better.HIGHER, 0.10,
                 "Copy of pinned host memory to the GPU."),
        Quantity("gpu[].device_to_host_gb_per_second", "GB/s", Better.HIGHER, 0.10,
                 "Copy from the GPU to pinned host memory."),
    )),
    Probe("launch", 10, 1, (
        Quantity("gpu[].launch_microseconds", "µs", Better.LOWER, 0.20,
                 "Time per kernel of a long row of empty ones: what the host needs to launch one through torch."),
    )),
    Probe("all_reduce", 30, 2, (
        Quantity("all_reduce[].microseconds", "µs", Better.LOWER, 0.20,
                 "Time of one all-reduce of that size, launched from the host."),
        Quantity("all_reduce[].bus_gb_per_second", "GB/s", Better.HIGHER, 0.10,
                 "Bus bandwidth of an all-reduce of that size, as nccl-tests counts it."),
    )),
    Probe("all_reduce_graph", 30, 2, (
        Quantity("all_reduce_graph[].microseconds", "µs", Better.LOWER, 0.20,
                 "Time of one all-reduce of that size within a CUDA graph: the devices alone, no host."),
    )),
)  # fmt: skip


@cache
def _quantities() -> dict[str, Quantity]:
    return {quantity.pattern: quantity for probe in PROBES for quantity in probe.quantities}


def quantity_of(figure: str) -> Quantity:
    """What the figure of that name is. Raises: KeyError."""
    return _quantities()[pattern_of(figure)]


def figures_of(probe: Probe, gpu: int = 0) -> list[str]:
    """The names of all figures of a probe, on one GPU where it runs on each by itself."""
    names = []
    for quantity in probe.quantities:
        if probe.needs < 2:
            names.append(quantity.pattern.replace("[]", f"[{gpu}]"))
        else:
            sizes = BANDWIDTH_SIZES if quantity.better is Better.HIGHER else LATENCY_SIZES
            names += [quantity.pattern.replace("[]", f"[{size}]") for size in sizes]
    return names


MANY_GPUS = 16
"""How many GPUs are reckoned with where nobody says how many."""

START_SECONDS = 60.0
"""In which a worker has to have imported torch and made its CUDA context."""


def longest(gpus: int = MANY_GPUS) -> float:
    """Seconds after which all probes are over, each by its own deadline."""
    return 2 * START_SECONDS + sum(2 * probe.seconds * (gpus if probe.needs == 1 else 1) for probe in PROBES)
