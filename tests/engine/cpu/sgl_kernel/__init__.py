"""Import-only stand-in for sgl_kernel where no compiled kernels exist.

Every name, and every submodule, can be imported; calling any of them raises
NotImplementedError. SGLang's torch_native attention path on CPU never calls one.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any

__version__ = "0.0.0+stub"


class _Missing:
    """A named placeholder: attributes give more placeholders, calls raise."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name

    def __getattr__(self, attr: str) -> _Missing:
        if attr.startswith("__"):
            raise AttributeError(attr)
        return _Missing(f"{self.__name__}.{attr}")

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise NotImplementedError(f"sgl_kernel stub: {self.__name__} has no implementation")


def _lookup(module: str) -> Callable[[str], _Missing]:
    def lookup(attr: str) -> _Missing:
        if attr.startswith("__"):
            raise AttributeError(attr)
        return _Missing(f"{module}.{attr}")

    return lookup


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers every import of sgl_kernel.SOMETHING with an empty placeholder package."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        if fullname.startswith(__name__ + "."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__dict__["__getattr__"] = _lookup(spec.name)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


__getattr__ = _lookup(__name__)
sys.meta_path.append(_Finder())
