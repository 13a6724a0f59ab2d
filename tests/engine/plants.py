"""Planted causes: one table of levers, each switched on for a run without touching anything outside it.

A plant is one deed on top of a bench's usual state. Whether it is a cause is not declared but measured: only where
interleaved trials show its slowdown is it one, else the right answer to *what made it slow* is *none of these*.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.engine.checkout import Edit

CPU, H200 = "cpu", "h200"
BENCHES = (CPU, H200)

NCCL = "{nccl}"
"""In a variable's value: another copy of the NCCL library."""
EMPTY = "{empty}"
"""In a variable's value: an empty folder, made anew for each run."""
CONF = "{conf}"
"""In a variable's value: a file with the lever's `conf_file`."""


@dataclass(frozen=True)
class Lever:
    """What a run gets. Variables go to the shell and so to the server; None removes one.

    `arguments` are added to the server's command, and `without` names options that are left out of it. `edit` is the
    engine's commit or local patch. `rank_cpus` binds ranks by role once they exist, `cpu_hogs` and `gpu_hog` are
    processes beside it. `prompts` is the seed of other prompts with their length in words. `again` measures the second
    repetition on one server, `stale` one that was started at this edit before the checkout moved on. `conf_file` is the
    text of a file that a variable names by `{conf}`.
    """

    environment: Mapping[str, str | None] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    edit: str = ""
    rank_cpus: Mapping[str, int] = field(default_factory=dict)
    cpu_hogs: int = 0
    gpu_hog: bool = False
    prompts: tuple[int, int] | None = None
    again: bool = False
    stale: str = ""
    conf_file: str = ""

    @property
    def on_client(self) -> bool:
        """Whether it leaves the server as it is, so that it can be pulled on the usual one."""
        return bool(self.cpu_hogs or self.gpu_hog or self.prompts or self.again)


@dataclass(frozen=True)
class Plant:
    """One planted cause. `levers` hold its lever by the bench on which it exists, `absent` why it does not on others.

    `shows` are patterns of the changes that tell of it, as paths or as `--option`. `ranks`: how many ranks it takes at
    least. `idle` says that it can do nothing by construction. Without `simulated`, acceptance is the models' own.
    """

    id: str
    title: str
    levers: Mapping[str, Lever]
    shows: tuple[str, ...] = ()
    absent: str = ""
    ranks: int = 1
    idle: bool = False
    simulated: bool = True

    def tells(self, place: str) -> bool:
        """Whether a change at that place is the plant's."""
        return any(re.fullmatch(pattern, place) for pattern in self.shows)


_NATIVE = "sglang/srt/layers/attention/torch_native_backend.py"
_TRITON = "sglang/srt/layers/attention/triton_backend.py"
_SCHEDULER = "sglang/srt/managers/scheduler.py"
_STEP = "            seq_len_q = 1\n"
_RANK_STARTS = "def run_scheduler_process(\n"
_PLANS = "    def init_forward_metadata(self, forward_batch: ForwardBatch):\n"

EDITS: Mapping[str, Edit] = {
    "slow-decode": Edit("Decode from a dense copy of the cache", _NATIVE, _STEP, f"""{_STEP}
            # From a copy, so that a pool that is written meanwhile cannot be seen half.
            k_cache, v_cache = k_cache.float().to(k_cache.dtype), v_cache.float().to(v_cache.dtype)
"""),
    "nobody-runs": Edit("Sliding window: offsets by their mean", _NATIVE, "        q_pos = torch.arange(\n", """\
        query_offset = sum(range(2 * query_offset + 1)) // max(2 * query_offset + 1, 1)
        q_pos = torch.arange(
"""),
    "off-patch": Edit("An experiment behind a variable", _NATIVE, _STEP, f"""{_STEP}
            if os.environ.get("SGLANG_OPPORTUNISTIC_CACHE", "0") == "1":
                k_cache, v_cache = k_cache.float().to(k_cache.dtype), v_cache.float().to(v_cache.dtype)
""", also=("import torch\nfrom torch.nn", "import os\n\nimport torch\nfrom torch.nn"), committed=False),
    "slow-verify": Edit("Plan attention from settled lengths", _TRITON, _PLANS, f"""\
{_PLANS}        for _ in range(400):  # let the lengths settle before they are planned with
            forward_batch.seq_lens.cpu()
""", first=True),
    "nobody-verifies": Edit(
        "MLA: the lengths on the host", "sglang/srt/layers/attention/flashinfer_mla_backend.py", _PLANS,
        f"{_PLANS}        forward_batch.seq_lens.cpu()\n", first=True,
    ),
    "lost-variable": Edit("Workers start from a clean environment of NCCL", _SCHEDULER, _RANK_STARTS, f"""\
for _name in ("NCCL_PROTO", "NCCL_ALGO"):
    os.environ.pop(_name, None)


{_RANK_STARTS}"""),
    "one-rank": Edit("The second worker waits for its kernels", _SCHEDULER, _RANK_STARTS, f"""\
if __import__("multiprocessing").current_process().name.endswith("-2"):
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"


{_RANK_STARTS}"""),
}  # fmt: skip
"""Commits and local patches of the engine (0.5.16), by name."""

_CODE = (r"repo\[.*\]\..*", r"record\[.*\]\.package_hash\[.*\]", r"record\[.*\]\.source_newer.*")


def _env(name: str) -> tuple[str, ...]:
    """The places in which a variable shows."""
    return (rf".*\benv\[{name}\]", rf".*\.set\[{name}\]", rf".*os_environ_differs\[{name}\]")


def _both(lever: Lever) -> dict[str, Lever]:
    return {CPU: lever, H200: lever}


NO_GPU = "there is no GPU"
ONLY_NATIVE = "on CPU only torch_native serves, without speculation and graphs"

PLANTS: tuple[Plant, ...] = (
    Plant("threads", "more threads than CPUs", {
        CPU: Lever({"OMP_NUM_THREADS": "4"}), H200: Lever({"OMP_NUM_THREADS": "64"}),
    }, (*_env("OMP_NUM_THREADS"), r"record\[.*\]\.torch\.num_threads")),
    Plant("debug-variable", "a debugging variable left set", {
        CPU: Lever({"PYTHONMALLOC": "debug"}), H200: Lever({"CUDA_LAUNCH_BLOCKING": "1"}),
    }, (*_env("PYTHONMALLOC"), *_env("CUDA_LAUNCH_BLOCKING"))),
    Plant("argument", "prefill in small pieces", _both(Lever(arguments=("--chunked-prefill-size", "64"))),
        (r"(server|record)\[.*\].*argument.*\[chunked_prefill_size\]", r"--chunked_prefill_size")),
    Plant("slow-commit", "a commit that slows every step", {
        CPU: Lever(edit="slow-decode"), H200: Lever(edit="slow-verify"),
    }, _CODE),
    Plant("idle-commit", "a commit in code that nobody runs", {
        CPU: Lever(edit="nobody-runs"), H200: Lever(edit="nobody-verifies"),
    }, _CODE, idle=True),
    Plant("off-patch", "a local patch behind a variable that is off", {CPU: Lever(edit="off-patch")}, _CODE,
        "the same on every bench; tried on the one that is cheaper", idle=True),
    Plant("cold-cache", "the compile caches are cold", {
        CPU: Lever({"TORCHINDUCTOR_CACHE_DIR": f"{EMPTY}/inductor", "TRITON_CACHE_DIR": f"{EMPTY}/triton"}),
        H200: Lever({"TVM_FFI_CACHE_DIR": f"{EMPTY}/tvm", "TRITON_CACHE_DIR": f"{EMPTY}/triton"}),
    }, (r"cache\[.*\]\..*", *_env("TORCHINDUCTOR_CACHE_DIR"), *_env("TRITON_CACHE_DIR"), *_env("TVM_FFI_CACHE_DIR"))),
    Plant("stale-server", "the server is older than the code", {
        CPU: Lever(stale="slow-decode"), H200: Lever(stale="slow-verify"),
    }, (*_CODE, r"worker\[.*\]\.started_seconds")),
    Plant("nothing", "nothing at all", _both(Lever()), idle=True),
    Plant("nothing-again", "nothing at all, once more", _both(Lever()), idle=True),
    Plant("prefix-warm", "the prompts are in the prefix cache", _both(Lever(again=True)),
        (r'server\[.*\]\.metric\[.*(cache|cached).*\]', r"during\.server.*cache.*", r"request\[.*\]")),
    Plant("other-prompts", "other prompts, twice as long", {
        CPU: Lever(prompts=(7, 520)), H200: Lever(prompts=(7, 1200)),
    },
        (r"request\[.*\]", r"during\.server.*prompt.*")),
    Plant("cpu-hog", "a program takes the CPUs", {CPU: Lever(cpu_hogs=2), H200: Lever(cpu_hogs=32)},
        (r"during\.host\..*", r"during\.worker\[.*\]\.(run_delay|involuntary).*", r"load\..*")),
    Plant("rank-affinity", "one rank is bound to the other's CPU", _both(Lever(rank_cpus={"scheduler_TP1": 0})),
        (r"worker\[scheduler_TP1\]\.cpus(_count)?", r"during\.worker\[.*\]\..*"), ranks=2),
    Plant("nothing-2", "nothing at all, two ranks", _both(Lever()), ranks=2, idle=True),
    Plant("nccl-lost", "an NCCL variable that is exported and lost in the workers", {H200: Lever(edit="lost-variable")},
        (*_env("NCCL_PROTO"), *_CODE), NO_GPU, ranks=2),
    Plant("one-rank", "a variable in one rank only", {H200: Lever(edit="one-rank")},
        (*_env("CUDA_LAUNCH_BLOCKING"), *_CODE), NO_GPU, ranks=2),
    Plant("nccl-conf", "an nccl.conf", {H200: Lever({"NCCL_CONF_FILE": CONF}, conf_file="NCCL_P2P_DISABLE=1\n")},
        (*_env("NCCL_CONF_FILE"), *_env("NCCL_P2P_DISABLE"), r"nccl\.conf\[.*"), NO_GPU, ranks=2),
    Plant("p2p-disable", "NCCL_P2P_DISABLE", {H200: Lever({"NCCL_P2P_DISABLE": "1"})}, _env("NCCL_P2P_DISABLE"), NO_GPU,
        ranks=2),
    Plant("nccl-proto", "NCCL_PROTO=Simple", {H200: Lever({"NCCL_PROTO": "Simple"})}, _env("NCCL_PROTO"), NO_GPU,
        ranks=2),
    Plant("graphs-off", "CUDA graphs off", {
        H200: Lever(arguments=("--disable-cuda-graph",),
                    without=("--cuda-graph-max-bs", "--cuda-graph-backend-prefill")),
    }, (r".*argument.*\[.*cuda_graph.*\]", r".*graph_batch_sizes.*", r"--.*cuda_graph.*"), NO_GPU),
    Plant("capture-small", "graphs captured under the batch", {
        H200: Lever(arguments=("--cuda-graph-max-bs", "1"), without=("--cuda-graph-max-bs",)),
    }, (r".*argument.*\[.*cuda_graph.*\]", r".*graph_batch_sizes.*", r"--cuda_graph_max_bs"), NO_GPU),
    Plant("attention-backend", "another attention backend", {
        H200: Lever(arguments=("--attention-backend", "flashinfer"), without=("--attention-backend",)),
    }, (r".*argument.*\[.*attention_backend\]", r"--attention_backend"), ONLY_NATIVE),
    Plant("spec-steps", "one speculative step instead of three", {
        H200: Lever(arguments=("--speculative-num-steps", "1", "--speculative-num-draft-tokens", "2"),
                    without=("--speculative-num-steps", "--speculative-num-draft-tokens")),
    }, (r".*argument.*\[speculative_num.*\]", r"--speculative_num.*"), ONLY_NATIVE, simulated=False),
    Plant("topk", "a tree of drafts instead of a chain", {
        H200: Lever(arguments=("--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "8"),
                    without=("--speculative-eagle-topk", "--speculative-num-draft-tokens")),
    }, (r".*argument.*\[speculative_(eagle_topk|num_draft_tokens)\]", r"--speculative_.*"), ONLY_NATIVE,
        simulated=False),
    Plant("eagle", "EAGLE instead of EAGLE3", {
        H200: Lever(arguments=("--speculative-algorithm", "EAGLE"), without=("--speculative-algorithm",)),
    }, (r".*argument.*\[speculative_algorithm\]", r"--speculative_algorithm"), ONLY_NATIVE, simulated=False),
    Plant("foreign-gpu", "another program computes on the GPU", {H200: Lever(gpu_hog=True)},
        (r"gpu_?.*process.*", r"during\.gpu\[.*", r"gpu\[.*\]\..*process.*"), NO_GPU),
    Plant("other-nccl", "another libnccl by SGLANG_NCCL_SO_PATH", {H200: Lever({"SGLANG_NCCL_SO_PATH": NCCL})},
        (*_env("SGLANG_NCCL_SO_PATH"), r"worker\[.*\]\.library\[nccl.*"), NO_GPU, ranks=2),
)  # fmt: skip


def plants_of(bench: str, ranks: int | None = None) -> list[Plant]:
    """The plants that exist on a bench, of all or of one number of ranks."""
    return [p for p in PLANTS if bench in p.levers and ranks in (None, p.ranks)]
