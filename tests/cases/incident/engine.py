"""The engine's repository, then and now: what matters of each file, its branches above all."""

from __future__ import annotations

from tests.collectors.git_repo import Repo

SRT = "python/sglang/srt"

BASE = {
    f"{SRT}/server_args.py": """\
class ServerArgs:
    enable_piecewise_cuda_graph: bool = False
    attention_backend: str = "triton"
""",
    f"{SRT}/distributed/device_communicators/pynccl.py": """\
class PyNcclCommunicator:
    def all_reduce(self, tensor, stream):
        self.nccl.all_reduce(tensor, stream)
        return tensor
""",
    f"{SRT}/distributed/parallel_state.py": """\
class GroupCoordinator:
    def __init__(self, server_args):
        self.server_args = server_args

    def all_reduce(self, tensor):
        communicator = self.pynccl
        return communicator.all_reduce(tensor, self.stream)
""",
    f"{SRT}/managers/scheduler.py": """\
import os


class Scheduler:
    def __init__(self, server_args):
        self.server_args = server_args
        self.is_mamba = False

    def run_batch(self, batch):
        result = self.worker.forward(batch)
        return result


def run_scheduler_process(server_args):
    scheduler = Scheduler(server_args)
    scheduler.event_loop()
""",
    f"{SRT}/model_executor/model_runner.py": """\
class ModelRunner:
    def forward(self, batch):
        if self.config.model_type == "mamba":
            return self.forward_mamba(batch)
        return self.model(batch)

    def forward_mamba(self, batch):
        state = batch.state
        return self.model(batch, state)
""",
    f"{SRT}/layers/communicator.py": """\
import torch


def communicate(hidden, group):
    return group.all_reduce(hidden)
""",
    f"{SRT}/layers/moe/topk.py": """\
import os


def select_experts(logits, k):
    weights, ids = logits.topk(k)
    return weights, ids
""",
    f"{SRT}/layers/attention/flashinfer_mla_backend.py": """\
class FlashInferMLABackend:
    def forward_extend(self, q, k, v):
        return self.wrapper.run(q, k, v)
""",
    f"{SRT}/entrypoints/engine.py": """\
import os


def set_envs_and_config(server_args):
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "8"


def launch(server_args):
    set_envs_and_config(server_args)
    return spawn(server_args)
""",
    f"{SRT}/models/deepseek_v2.py": """\
class DeepseekV2:
    def forward(self, hidden):
        hidden = self.layers(hidden)
        return hidden
""",
    f"{SRT}/models/kimi_k25.py": """\
class KimiK25:
    def __init__(self, config):
        self.model = build(config)
""",
    f"{SRT}/models/llama_eagle3.py": """\
class LlamaEagle3:
    def load_weights(self, weights):
        for name, tensor in weights:
            self.load(name, tensor)
""",
}

PULLED = (
    (
        "Fix PCG MoE Error",
        {
            f"{SRT}/distributed/device_communicators/pynccl.py": """\
class PyNcclCommunicator:
    def all_reduce(self, tensor, stream):
        self.nccl.all_reduce(tensor, stream)
        return tensor

    def all_reduce_in_graph(self, tensor, stream):
        out = tensor.clone()
        self.nccl.all_reduce(out, stream)
        return out
""",
            f"{SRT}/distributed/parallel_state.py": """\
class GroupCoordinator:
    def __init__(self, server_args):
        self.server_args = server_args

    def all_reduce(self, tensor):
        communicator = self.pynccl
        if self.server_args.enable_piecewise_cuda_graph:
            return communicator.all_reduce_in_graph(tensor, self.stream)
        return communicator.all_reduce(tensor, self.stream)
""",
        },
    ),
    (
        "Mamba: keep states over extend batches",
        {
            f"{SRT}/managers/scheduler.py": BASE[f"{SRT}/managers/scheduler.py"].replace(
                "        return result\n",
                "        if self.is_mamba:\n            self.keep_states(batch)\n        return result\n",
            ),
            f"{SRT}/model_executor/model_runner.py": BASE[f"{SRT}/model_executor/model_runner.py"].replace(
                "        state = batch.state\n", "        state = batch.kept_state\n"
            ),
        },
    ),
)
"""Commits that were pulled in between, and the files as they left them."""

LOCAL = {
    f"{SRT}/entrypoints/engine.py": ("= \"8\"\n", "= \"8\"\n    os.environ.setdefault(\"NCCL_PROTO\", \"LL\")\n"),
    f"{SRT}/managers/scheduler.py": (
        "    scheduler = Scheduler(server_args)\n",
        "    os.environ.setdefault(\"NCCL_PROTO\", \"LL\")\n    scheduler = Scheduler(server_args)\n",
    ),
    f"{SRT}/layers/communicator.py": ("import torch\n", "import os\n\nimport torch\n"),
    f"{SRT}/layers/moe/topk.py": (
        "    return weights, ids\n",
        "    if os.environ.get(\"SGLANG_OPPORTUNISTIC_EXPERTS\") == \"1\":\n"
        "        weights, ids = prefer_loaded(weights, ids)\n    return weights, ids\n",
    ),
    f"{SRT}/layers/attention/flashinfer_mla_backend.py": (
        "self.wrapper.run(q, k, v)", "self.wrapper.run(q.contiguous(), k, v)",
    ),
    f"{SRT}/models/deepseek_v2.py": (
        "        return hidden\n", "        # captured for the draft head\n        return hidden\n",
    ),
    f"{SRT}/models/kimi_k25.py": ("build(config)\n", "build(config)\n        self.capture_layers = (2, 30, 58)\n"),
    f"{SRT}/models/llama_eagle3.py": (
        "            self.load(name, tensor)\n",
        "            if name.startswith(\"d2t\"):\n                continue\n            self.load(name, tensor)\n",
    ),
}  # fmt: skip
"""What is changed beside the commits now: in each file, text and what it became."""

RAN = {
    f"{SRT}/server_args.py": ("1-3", ""),
    f"{SRT}/distributed/device_communicators/pynccl.py": ("1-2,6", "3-4"),
    f"{SRT}/distributed/parallel_state.py": ("1-3,5", "6-7,9"),
    f"{SRT}/managers/scheduler.py": ("1,4-7,9,16-19", "10-11,13"),
    f"{SRT}/model_executor/model_runner.py": ("1-2,7", "3,5"),
    f"{SRT}/layers/communicator.py": ("1,3,6", "7"),
    f"{SRT}/layers/moe/topk.py": ("1,4", "5-6,8"),
    f"{SRT}/models/deepseek_v2.py": ("1-2", "3,5"),
    f"{SRT}/models/kimi_k25.py": ("1-4", ""),
    f"{SRT}/models/llama_eagle3.py": ("1-6", ""),
}
"""Lines of the files as they are now that the ranks ran: at start-up, and while they served."""


def then(repo: Repo) -> None:
    """The repository as it was."""
    repo.commit(BASE, "Release")


def now(repo: Repo) -> None:
    """Two commits later, with eight files changed."""
    for subject, files in PULLED:
        repo.commit(files, subject)
    for path, (old, new) in LOCAL.items():
        text = (repo.root / path).read_text()
        assert text.count(old) == 1, path
        repo.write({path: text.replace(old, new)})
