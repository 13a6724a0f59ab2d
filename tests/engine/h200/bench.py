"""The bench: EAGLE-3 on one or two H200 GPUs, never with NVLink multicast."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.planted.bench import Asked, without
from tests.engine.h200.shapes import DRAFT, TARGET, TOKENS, Load
from tests.engine.plants import H200, Lever

NO_MULTICAST = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
    "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2": "0",
}
"""NVLink multicast can put a host's GPUs, which others share, out of service: always off."""
_NEEDED = ("--disable-custom-all-reduce", "--enforce-disable-flashinfer-allreduce-fusion")
_FORBIDDEN = ("nvls", "symm", "multicast", "flashinfer-allreduce-fusion")

USUAL_VARIABLES = {"NCCL_PROTO": "LL", "OMP_NUM_THREADS": "8"}
"""What somebody has tuned: an NCCL variable that can be lost or changed."""
ACCEPTED = "2.5"
_SHARE = "0.97"
"""Of the memory that is free when a server starts, less what others take meanwhile: what bounds it is its tokens."""


class Unsafe(Exception):
    """A command or an environment that could use NVLink multicast; nothing was started."""


@dataclass(frozen=True)
class H200Bench:
    """`dest` is where the kit was unpacked, `models` the folder of the load's models."""

    dest: Path
    models: Path
    load: Load
    python: str = sys.executable
    name: str = H200

    @property
    def package(self) -> Path:
        """The engine's package in the kit."""
        return self.dest / "site" / "sglang"

    def command(self, port: int, ranks: int, lever: Lever) -> list[str]:
        """EAGLE-3 with CUDA graphs, asleep while nobody asks, and what the lever adds."""
        usual = [
            self.python, "-m", "sglang.launch_server", "--model-path", str(self.models / TARGET), "--load-format",
            "dummy", "--attention-backend", "triton", "--sampling-backend", "pytorch", *_NEEDED,
            "--mem-fraction-static", _SHARE, "--max-total-tokens", str(TOKENS), "--tp", str(ranks), "--sleep-on-idle",
            "--host", "127.0.0.1", "--port", str(port), "--enable-metrics", "--speculative-algorithm", "EAGLE3",
            "--speculative-draft-model-path", str(self.models / DRAFT), "--speculative-num-steps", "3",
            "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4", "--cuda-graph-max-bs", "4",
            "--cuda-graph-backend-prefill", "disabled",
        ]  # fmt: skip
        return without(usual, lever.without) + list(lever.arguments)

    def variables(self, ranks: int, simulated: bool) -> Mapping[str, str]:
        """What the shell exports."""
        return {
            "PYTHONPATH": str(self.dest / "site"), "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1", "TVM_FFI_CACHE_DIR": str(self.dest / "cache/tvm-ffi"),
            "TRITON_CACHE_DIR": str(self.dest / "cache/triton"), "SGLANG_ENABLE_JIT_DEEPGEMM": "0",
            # Cards have other servers on them, not as many on each.
            "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK": "0", **NO_MULTICAST,
            **USUAL_VARIABLES, **({"SGLANG_SIMULATE_ACC_LEN": ACCEPTED} if simulated else {}),
        }  # fmt: skip

    def allowed(self, command: list[str], environment: Mapping[str, str]) -> list[str]:
        """The command. Raises: Unsafe."""
        refuse_multicast(command, environment)
        return command

    def asked(self, ranks: int) -> Asked:
        """The load."""
        return self.load.asked


def refuse_multicast(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raises: Unsafe unless multicast is off by variables and by options, and nothing turns it on."""
    for name, value in NO_MULTICAST.items():
        if environment.get(name) != value:
            raise Unsafe(f"{name} has to be {value}, not {environment.get(name)!r}")
    for option in _NEEDED:
        if option not in command:
            raise Unsafe(f"{option} is missing")
    for word in command:
        if word.startswith("--") and word not in _NEEDED and any(part in word for part in _FORBIDDEN):
            raise Unsafe(f"{word} is not allowed")
