"""A made-up libnvidia-ml.so under the real pynvml: C functions as Python ones that fill real ctypes structures."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pynvml

from envsnap import machine

SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED = 0, 2, 3, 4, 9
GPU_IS_LOST, LIB_RM_VERSION_MISMATCH = 15, 18


class Library:
    """Stands for the loaded library. A C function that it does not hold is missing from it, as in an older driver."""

    def __init__(self, functions: dict[str, Callable[..., int]], gpus: int = 2) -> None:
        self._gpus = gpus
        self._functions: dict[str, Callable[..., int]] = {
            "nvmlInitWithFlags": lambda flags: SUCCESS,
            "nvmlDeviceGetHandleByIndex_v2": self._handle,
            **functions,
        }
        self.handles_made = 0

    def __getattr__(self, name: str) -> Callable[..., int]:
        try:
            return self._functions[name]
        except KeyError:
            raise AttributeError(name) from None

    def _handle(self, index: Any, device: Any) -> int:
        if index.value >= self._gpus:
            return INVALID_ARGUMENT
        self.handles_made += 1
        ctypes.c_void_p.from_buffer(device._obj).value = 1 + index.value
        return SUCCESS


def index_of(handle: Any) -> int:
    """The GPU that a handle of `Library` stands for."""
    return int(ctypes.cast(handle, ctypes.c_void_p).value or 0) - 1


def gives(value: Any) -> Callable[..., int]:
    """A C function that writes one number through its last argument."""

    def function(*arguments: Any) -> int:
        arguments[-1]._obj.value = value
        return SUCCESS

    return function


def fills(**elements: Any) -> Callable[..., int]:
    """A C function that fills the structure that its last argument points to."""

    def function(*arguments: Any) -> int:
        for name, value in elements.items():
            setattr(arguments[-1]._obj, name, value)
        return SUCCESS

    return function


@contextmanager
def loaded(library: Library) -> Iterator[Library]:
    """Have `machine` and pynvml use the library."""
    kept = (pynvml.nvmlLib, dict(machine._nvml), dict(machine._nvml_handles))
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    machine._nvml.clear()
    machine._nvml["answer"] = pynvml
    machine._nvml_handles.clear()
    try:
        yield library
    finally:
        pynvml.nvmlLib = kept[0]
        pynvml._nvmlGetFunctionPointer_cache.clear()
        machine._nvml.clear()
        machine._nvml.update(kept[1])
        machine._nvml_handles.clear()
        machine._nvml_handles.update(kept[2])
