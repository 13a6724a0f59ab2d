"""Another kernel compiler, and tuned tables that were made for the old one.

Triton compiles the kernels of experts and of some attention backends; a new release brings other code from the same
source, and engines look for tuned tables by its version. Where none is there, they take an older one's or a
default, and the log says so in one line.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.stories._look import argument, package_changes
from envsnap.explain.stories._models import is_moe
from envsnap.explain.story import Clue, Finding, View
from envsnap.explain.weights import FAIR, WEAK

CODE = "kernel_compiler"
NEEDS = ("package[].version",)

_COMPILERS = ("triton", "pytorch-triton*", "triton-*", "tilelang", "nvidia-cutlass-dsl*", "apache-tvm-ffi",
              "nvidia-cuda-nvcc*", "nvidia-cuda-nvrtc*")  # fmt: skip


def tell(view: View) -> Iterator[Finding]:
    """Yield a compiler that changed under kernels that it makes."""
    triton = package_changes(view, "triton", "pytorch-triton*", "triton-*")
    others = [c for c in package_changes(view, *_COMPILERS) if c not in triton]
    backend = str(argument(view.settings[1], "attention_backend", "decode_attention_backend") or "").lower()
    runner = str(argument(view.settings[1], "moe_runner_backend") or "").lower()
    experts = any(is_moe(facts) for facts in view.sides)
    if triton and experts and runner in ("", "auto", "triton"):
        yield Clue(
            "Experts run kernels that Triton compiles, tuned by its version: other code, and perhaps no table for it.",
            FAIR,
            tuple(triton),
        )
    elif triton and "triton" in backend:
        yield Clue("Attention runs kernels that Triton compiles: other code from the same source.", FAIR, tuple(triton))
    elif triton or others:
        yield Clue("It compiles kernels: other code from the same source.", WEAK, (*triton, *others))
