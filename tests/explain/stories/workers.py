"""What the ranks have: variables, libraries, devices."""

from __future__ import annotations

from envsnap.explain import Clue, Mistake, Together
from envsnap.explain.weights import FAIR
from tests.explain.stories.case import FOUR, LAUNCHER, TWO, Table, gpus, ranks

case = Table()

case(
    "variable_lost",
    "all ranks",
    {**TWO, **LAUNCHER},
    ranks(2, {"worker[{r}].env[NCCL_PROTO]": "LL"}),
    {},
    Together,
    "NCCL_PROTO set in the launcher and missing",
    "worker[scheduler_TP1].env[NCCL_PROTO]",
)
case(
    "variable_lost",
    "on both sides",
    {**TWO, **LAUNCHER},
    {},
    {},
    Mistake,
    "missing in every worker",
    "worker[main].env[NCCL_PROTO]",
)
case("variable_lost", "unset in the shell too", TWO, ranks(2, {"worker[{r}].env[NCCL_PROTO]": "LL"}), {})
case(
    "variable_lost",
    "arrives",
    {**TWO, **LAUNCHER, **ranks(2, {"worker[{r}].env[NCCL_PROTO]": "LL"})},
    {},
    {"worker[main].env[NCCL_ALGO]": None},
)

OMP = {"worker[scheduler_TP3].env[OMP_NUM_THREADS]": "1"}
case("rank_differs", "a variable of one rank", FOUR, {}, OMP, Clue, "scheduler_TP3 alone", "worker[scheduler_TP3].env")
case("rank_differs", "a variable of all ranks", FOUR, {}, ranks(4, {"worker[{r}].env[OMP_NUM_THREADS]": "1"}))
case(
    "rank_differs",
    "one of two",
    TWO,
    {},
    {"worker[scheduler_TP1].env[OMP_NUM_THREADS]": "1"},
    Clue,
    "scheduler_TP1 alone",
    "worker[scheduler_TP1].env",
)
case(
    "rank_differs",
    "on both sides",
    {**FOUR, **OMP},
    {},
    {},
    Mistake,
    "differs from the other ranks on both",
    "worker[scheduler_TP3].env[OMP_NUM_THREADS]",
)
case("rank_differs", "devices differ by nature", FOUR, {}, ranks(4, {"worker[{r}].env[LOCAL_RANK]": "{n}"}))
CLOCK = "during.gpu[{g}].sm_clock_median_mhz"
case(
    "rank_differs",
    "one slow GPU",
    FOUR,
    gpus(4, {CLOCK: 1900}),
    {**gpus(4, {CLOCK: 1900}), CLOCK.replace("{g}", "2"): 1400},
    Clue,
    "GPU 2 alone",
    "during.gpu[2].sm_clock",
    weight=FAIR,
)
case("rank_differs", "all GPUs slower", FOUR, gpus(4, {CLOCK: 1900}), gpus(4, {CLOCK: 1400}))

LIB = "worker[{r}].library[nccl/0]."
WHEEL, SYSTEM = (
    "/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",
    "/usr/lib/x86_64-linux-gnu/libnccl.so.2",
)
case(
    "mapped_library",
    "the system's",
    TWO,
    ranks(2, {LIB + "path": WHEEL, LIB + "version": "2.27.5"}),
    ranks(
        2,
        {
            LIB + "path": SYSTEM,
            LIB + "version": "2.26.2",
            "worker[{r}].env[LD_LIBRARY_PATH]": "/usr/lib/x86_64-linux-gnu",
        },
    ),
    Together,
    "LD_LIBRARY_PATH changed, and leads to that copy of nccl",
    "library[nccl/0].path",
)
case(
    "mapped_library",
    "the wheel's was updated",
    TWO,
    ranks(2, {LIB + "path": WHEEL, LIB + "version": "2.27.5"}),
    ranks(2, {LIB + "path": WHEEL, LIB + "version": "2.28.9"}),
)
case(
    "mapped_library",
    "two copies",
    TWO,
    ranks(2, {LIB + "path": WHEEL, LIB + "version": "2.27.5"}),
    ranks(2, {LIB + "path": WHEEL, LIB + "version": "2.27.5", "worker[{r}].library[nccl/1].path": SYSTEM}),
    Clue,
    "2 copies of nccl",
    "library[nccl/1].path",
)
case(
    "mapped_library",
    "replaced",
    TWO,
    ranks(2, {LIB + "replaced": False}),
    ranks(2, {LIB + "replaced": True}),
    Clue,
    "replaced while the server ran",
    "replaced",
)
COMPAT = {"worker[{r}].library[cuda_driver/0].path": "/usr/local/cuda-13/compat/libcuda.so.1"}
case(
    "mapped_library",
    "compatibility package",
    TWO,
    ranks(2, {"worker[{r}].library[cuda_driver/0].path": "/usr/lib/x86_64-linux-gnu/libcuda.so.580"}),
    ranks(2, COMPAT),
    Together,
    "compatibility package",
    "cuda_driver/0",
)
case("mapped_library", "both sides alike", {**TWO, **ranks(2, {LIB + "path": SYSTEM})}, {}, {})

GPU = {"record[{r}].torch.device_index": 0}
case(
    "gpu_per_rank",
    "two on one",
    {**TWO, **ranks(2, GPU)},
    {"worker[scheduler_TP0].env[CUDA_VISIBLE_DEVICES]": "0", "worker[scheduler_TP1].env[CUDA_VISIBLE_DEVICES]": "1"},
    ranks(2, {"worker[{r}].env[CUDA_VISIBLE_DEVICES]": "0"}),
    Together,
    "several ranks compute on GPU 0",
    "CUDA_VISIBLE_DEVICES",
)
case(
    "gpu_per_rank",
    "each its own",
    {**TWO, **ranks(2, {"record[{r}].torch.device_index": 0})},
    {"worker[scheduler_TP0].env[CUDA_VISIBLE_DEVICES]": "0", "worker[scheduler_TP1].env[CUDA_VISIBLE_DEVICES]": "1"},
    {"worker[scheduler_TP0].env[CUDA_VISIBLE_DEVICES]": "2", "worker[scheduler_TP1].env[CUDA_VISIBLE_DEVICES]": "3"},
)
