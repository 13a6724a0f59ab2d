"""The environment of the real engine: SGLang on CPU and tiny models, as `cpu/setup` makes it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "ENVSNAP_ENGINE"
"""Names the folder that `bash tests/engine/cpu/setup` has made; without it the suite is skipped."""

COMPLETE = "complete"
"""File that `setup` writes last: without it the folder holds a broken install."""


@dataclass(frozen=True)
class Engine:
    """A Python that can serve, where its models are, and the folder of its installed package."""

    python: str
    models: Path
    package: Path

    def command(self, port: int, ranks: int = 1, *more: str) -> list[str]:
        """The command of a server on CPU with made-up weights."""
        return [
            self.python, "-m", "sglang.launch_server", "--model-path", str(self.models / "tiny-llama"), "--load-format",
            "dummy", "--device", "cpu", "--attention-backend", "torch_native", "--tp", str(ranks), "--max-total-tokens",
            "4096", "--mem-fraction-static", "0.2", "--host", "127.0.0.1", "--port", str(port), "--enable-metrics",
            *more,
        ]  # fmt: skip


def variables(ranks: int = 1) -> dict[str, str]:
    """What the server on CPU needs in its environment; several ranks get a CPU each."""
    binding = {"SGLANG_CPU_OMP_THREADS_BIND": "|".join(map(str, range(ranks)))} if ranks > 1 else {}
    return {"SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", **binding}


def find(folder: str) -> Engine | str:
    """The engine in a folder, or why there is none, in a sentence."""
    if not folder:
        return f"{VARIABLE} names no environment of the engine: bash .ci/engine makes one and runs these tests"
    place = Path(folder)
    if not (place / COMPLETE).is_file():
        return f"{place} holds no complete environment of the engine: bash .ci/engine makes one"
    (package,) = (place / "venv").glob("lib/python3*/site-packages/sglang")
    return Engine(str(place / "venv" / "bin" / "python"), place / "models", package)


def here() -> Engine | str:
    """The engine that the variable names, or why there is none."""
    return find(os.environ.get(VARIABLE, ""))
