"""A torch with CUDA devices that compute nothing, in a made-up time: what the GPU probes call, and no more.

It shows that the probes' own code runs and who is told what; it says nothing of a real torch or GPU.
STAND_IN_TORCH_HANGS=N makes device N hang at its first matrix product, _FAILS=N has it raise there; ranks of a process
group tell of themselves in the file that _TELLS names.
"""

from __future__ import annotations

from pathlib import Path

TORCH = """
import os
import time
from types import SimpleNamespace

__version__ = "0.0.stand-in"
version = SimpleNamespace(cuda="13.0")
bfloat16, float16, uint8 = "torch.bfloat16", "torch.float16", "torch.uint8"
clock = 0.0  # seconds of device time


def spend(seconds):
    global clock
    clock += seconds


class Tensor:
    def copy_(self, other, non_blocking=False):
        assert non_blocking
        spend(0.001)

    def add_(self, number):
        return self

    def pin_memory(self):
        return self


def make(*shape, device=None, dtype=None):
    return Tensor()


randn = zeros = ones = make


def device(kind, index):
    assert kind == "cuda"
    return index


def empty_like(tensor):
    return Tensor()


def mm(a, b, out):
    if os.environ.get("STAND_IN_TORCH_HANGS") == str(cuda.current):
        time.sleep(1000)
    if os.environ.get("STAND_IN_TORCH_FAILS") == str(cuda.current):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    spend(2 * 8192**3 / 700e12)


class Event:
    def __init__(self, enable_timing=False):
        assert enable_timing

    def record(self):
        self.at = clock

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 1000 * (end.at - self.at)


class CUDAGraph:
    def replay(self):
        spend(20 * 8e-6)


class graph:
    def __init__(self, captured, capture_error_mode):
        assert capture_error_mode == "thread_local"

    def __enter__(self):
        self.at = clock

    def __exit__(self, *error):
        global clock
        clock = self.at


def _set_device(index):
    cuda.current = index


cuda = SimpleNamespace(
    current=0,
    init=lambda: None,
    device_count=lambda: len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")),
    set_device=_set_device,
    synchronize=lambda: None,
    get_device_capability=lambda device: (9, 0),
    Event=Event,
    CUDAGraph=CUDAGraph,
    graph=graph,
)
"""

DISTRIBUTED = """
import json
import os
import time

import torch

_initialized = False


def is_available():
    return True


def is_nccl_available():
    return True


def is_initialized():
    return _initialized


def init_process_group(backend, init_method, rank, world_size, timeout):
    global _initialized
    assert backend == "nccl"
    store = init_method.removeprefix("file://")
    about = json.dumps({"rank": rank, "pid": os.getpid(), "env": dict(os.environ)})
    for name in (store, os.environ["STAND_IN_TORCH_TELLS"]):
        with open(name, "a") as file:
            file.write(about + "\\n")
    ranks = []
    while len(ranks) < world_size:
        time.sleep(0.01)
        with open(store) as file:
            ranks = file.readlines()
    _initialized = True


def all_reduce(tensor):
    torch.spend(20e-6)


def destroy_process_group():
    global _initialized
    _initialized = False
"""


def write(folder: Path) -> Path:
    """Write the package below a folder, which is what to put on PYTHONPATH."""
    package = folder / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(TORCH)
    (package / "distributed.py").write_text(DISTRIBUTED)
    return folder
