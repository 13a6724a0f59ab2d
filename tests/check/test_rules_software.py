from __future__ import annotations

import pytest

from envsnap.reading import Unavailable, Why
from tests.check.made import SGLANG, Case, apart, check, fires, gpus, silent, warns

TP2 = f"{SGLANG} --tp 2"
EAGLE = f"{SGLANG} --speculative-algorithm EAGLE --speculative-draft-model-path /m/head"
EAGLE3 = EAGLE.replace("EAGLE ", "EAGLE3 ")
MODULE = {"nvidia.module_version": "580.159.04", "nvml.driver_version": "580.159.04"}
TORCH = {"library[torch].version": "2.9.1", "library[torch].cuda_version": "12.8", "nvml.cuda_driver_version": "13.0"}
NCCL = {"library[torch].version": "2.9.1", "library[torch].nccl_version": "2.27.5"}
CUDNN = {"library[cudnn/1].found_by": ["site_packages"], "library[cudnn/1].version": "9.10.2",
         "library[cudnn/0].version": "8.9.0"}  # fmt: skip
REPO = {"repo[sglang].found_by": ["working_directory"], "repo[sglang].root": "/src/sglang",
        "package[sglang].version": "0.5.23"}  # fmt: skip
LLAMA = {"architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096}
HEAD = {"model[head].path": "/m/head", "model[meta/model].path": "/hub/model", "model[meta/model].config": LLAMA}
BROKEN = Unavailable(Why.ABSENT, "2 weight files cannot be looked at, a.safetensors first")

ONE = {"model[meta/model].path": "/hub/1", "model[meta/model].revision": "1" * 40, "model[meta/model].weights_bytes": 5}
TWO = {**ONE, "model[meta/model@2222222].path": "/hub/2", "model[meta/model@2222222].revision": "2" * 40,
       "model[meta/model@2222222].weights_bytes": 5}  # fmt: skip
SELF = (f"{SGLANG} --speculative-algorithm NEXTN --speculative-draft-model-path meta/model "
        "--revision {}")  # fmt: skip


def head(**config: object) -> dict[str, object]:
    return {**HEAD, "model[head].config": {"architectures": ["LlamaForCausalLMEagle3"], **config}}


CASES = [
    fires("driver_versions", {**MODULE, "nvml.driver_version": "590.1"}, "NVML is of driver 590.1, the loaded module"),
    fires("driver_versions", {**MODULE, "nvidia.library_matches_module": False, "nvidia.library_versions": ["590.1"]},
          "libcuda is of 590.1"),
    warns("driver_versions", {**MODULE, "nvidia.library_versions": ["550.54", "580.159.04"]}, "in 2 versions"),
    silent("driver_versions", {**MODULE, "nvidia.library_versions": ["580.159.04"],
                               "nvidia.library_matches_module": True}, "one version"),
    fires("cuda_runtime", {**TORCH, "library[torch].cuda_version": "13.0", "nvml.cuda_driver_version": "12.4"},
          "built with CUDA 13.0, the driver runs up to 12.4"),
    warns("cuda_runtime", {**TORCH, "nvml.cuda_driver_version": "12.4"}, "12.8"),
    warns("cuda_runtime", {**TORCH, "library[torch].cuda_version": "13.0", "nvml.cuda_driver_version": "12.4",
                           "nvidia.cuda_compat_versions": ["580.65.06"]}, "13.0"),
    warns("cuda_runtime", {**TORCH, "library[cuda_driver/0].path": "/usr/local/cuda/compat/libcuda.so.1",
                           "nvml.driver_version": "580.159.04", "nvidia.cuda_compat_versions": ["550.54"]},
          "takes the place of the driver's own"),
    silent("cuda_runtime", TORCH, "a newer driver"),
    silent("cuda_runtime", {**TORCH, "nvidia.cuda_compat_versions": ["550.54"], "nvml.driver_version": "580.1"},
           "a compatibility package that nothing loads"),
    apart("cuda_runtime", {"nvml.cuda_driver_version": "13.0", "library[cudnn/0].cuda_version": "12"}, "no torch"),
    fires("torch_build", {**gpus(), "library[torch].version": "2.9.1+cpu"}, "built without CUDA", command=SGLANG),
    warns("torch_build", {"library[torch].version": "2.9.1", "library[torch].debug": True}, "debug build"),
    silent("torch_build", {**gpus(), "library[torch].version": "2.9", "library[torch].hip_version": "6.4"}, "ROCm"),
    silent("torch_build", {"library[torch].version": "2.9.1+cpu"}, "a machine without GPUs"),
    warns("nccl_versions", {**NCCL, "library[nccl/0].version": "2.30.4", "library[nccl/0].found_by": ["LD_PRELOAD"]},
          "built with NCCL 2.27.5 and will load 2.30.4 (found by LD_PRELOAD)"),
    silent("nccl_versions", {**NCCL, "library[nccl/0].version": "2.27.5", "library[nccl/1].version": "2.30.4"},
           "another one lies about"),
    warns("shadowed_library", {**CUDNN, "library[cudnn/0].found_by": ["LD_LIBRARY_PATH"]},
          "cudnn 8.9.0 of LD_LIBRARY_PATH takes the place of 9.10.2"),
    silent("shadowed_library", {**CUDNN, "library[cudnn/0].found_by": ["torch_rpath"]}, "by torch itself"),
    warns("pins_violated", {"package[sglang].violated_pins": ["flashinfer_python==0.7.2 (0.6.1)"]}, "sglang requires"),
    silent("pins_violated", {"package[jupyter].violated_pins": ["tornado<6"], "package[sglang].violated_pins": []},
           "of what does not compute"),
    warns("package_copies", {"package[torch].version": "2.9", "package[torch].copy_versions": ["2.8", "2.9"],
                             "packages.broken": ["~orch"]}, "torch is installed as 2.8 and 2.9", "1 interrupted"),
    silent("package_copies", {"package[torch].version": "2.9", "package[torch].copy_versions": ["2.9", "2.9"],
                              "packages.broken": []}, "twice the same"),
    warns("tree_dirty", {"repo[x].dirty": True, "repo[x].unstaged_count": 3, "repo[x].in_progress": ["bisect"]},
          "x differs from its commit (3 unstaged)", "in the middle of a bisect"),
    silent("tree_dirty", {"repo[x].dirty": False, "repo[x].in_progress": []}, "clean"),
    apart("tree_dirty", {}, "no repository"),
    warns("imported_elsewhere", {**REPO, "package[sglang].origin": "index"}, "imports the one installed from index"),
    warns("imported_elsewhere", {**REPO, "package[sglang].editable_path": "/src/sglang-old/python"},
          "imports /src/sglang-old/python"),
    warns("imported_elsewhere", {**REPO, "repo[mine].found_by": ["given"], "package[sglang].origin": "vcs"}, "vcs"),
    silent("imported_elsewhere", {**REPO, "package[sglang].editable_path": "/src/sglang/python"}, "this very tree"),
    silent("imported_elsewhere", {**REPO, "repo[sglang].remote[origin].url": "https://host/me/tools.git",
                                  "package[sglang].editable_path": "/src/sglang"}, "by its directory"),
    apart("imported_elsewhere", {"repo[x].found_by": ["given"], "package[x].version": "1"}, "elsewhere"),
    fires("draft_mismatch", head(), "/m/head is an EAGLE-3 head (LlamaForCausalLMEagle3), under EAGLE", command=EAGLE),
    warns("draft_mismatch", head(architectures=["LlamaForCausalLM"]), "does not call itself", command=EAGLE3),
    fires("draft_mismatch", head(vocab_size=151936), "vocabulary of 151,936, the model has 128,256", command=EAGLE3),
    fires("draft_mismatch", head(target_hidden_size=7168, hidden_size=4096), "width of 7,168", command=EAGLE3),
    silent("draft_mismatch", head(vocab_size=128256, hidden_size=4096), "made for it", EAGLE3),
    silent("draft_mismatch", head(hidden_size=2048, target_hidden_size=4096), "a head of its own width", EAGLE3),
    silent("draft_mismatch", head(architectures=["LlamaForCausalLMEagle"]), "an EAGLE head", EAGLE),
    apart("draft_mismatch", head(), "no speculation", SGLANG),
    apart("draft_mismatch", head(), "NGRAM has no draft", f"{SGLANG} --speculative-algorithm NGRAM"),
    fires("model_files", {}, "/m/gone is not here", command="python -m sglang.launch_server --model-path /m/gone"),
    warns("model_files", {}, "meta/model is not on this disk", command=SGLANG),
    fires("model_files", {"model[meta/model].path": "/hub/model"}, "not whole: 2 weight files", command=SGLANG,
          unavailable={"model[meta/model].weights_bytes": BROKEN}),
    silent("model_files", {"model[meta/model].path": "/h"}, "dummy weights", f"{SGLANG} --load-format dummy",
           unavailable={"model[meta/model].weights_bytes": BROKEN}),
    silent("model_files", {"model[meta/model].path": "/h", "model[meta/model].weights_bytes": 5}, "whole", SGLANG),
    apart("model_files", {}, "no model", "python train.py"),
    warns("model_revision", {"model[meta/model].path": "/h", "model[meta/model].revision": "aaaaaaaaaaaaaa"},
          "is aaaaaaaaaaaa on this disk", command=f"{SGLANG} --revision bbbbbbbb"),
    silent("model_revision", {"model[meta/model].path": "/h", "model[meta/model].revision": "abcdef0123"}, "by prefix",
           f"{SGLANG} --revision abcdef0"),
    warns("model_files", ONE, "meta/model is not on this disk in its revision 2222222", command=SELF.format("2222222"),
          unavailable={"model[meta/model@2222222]": BROKEN}),
    silent("model_files", TWO, "both revisions are here", SELF.format("2222222")),
    warns("model_files", {"model[model].path": "/other/model", "model[model].weights_bytes": 5},
          "meta/model is not on this disk", command=SGLANG),
    silent("model_files", {"model[model].path": "/home/me/meta/model", "model[model].weights_bytes": 5},
           "a directory below this one", SGLANG),
    apart("model_files", {}, "loaded from elsewhere", "python -m sglang.launch_server --model-path s3://bucket/m",
          unavailable={"model[s3://bucket/m]": Unavailable(Why.NOT_SUPPORTED, "an address")}),
    apart("model_files", {}, "seen by a process in another mount namespace, and not from here",
          "python -m sglang.launch_server --model-path /m/served",
          unavailable={"model[/m/served]": Unavailable(Why.NOT_SUPPORTED, "another mount namespace")}),
    apart("model_files", {}, "looked for elsewhere", f"env HF_HOME=/other {SGLANG}"),
    apart("model_revision", ONE, "looked for elsewhere", f"HF_HUB_CACHE=/other {SELF.format('2222222')}"),
    fires("model_files", {}, "/m/gone is not here",
          command="HF_HOME=/x python -m sglang.launch_server --model-path /m/gone"),
    warns("model_revision", ONE, "is 111111111111 on this disk", command=SELF.format("2222222")),
    silent("model_revision", TWO, "the draft's is beside the model's", SELF.format("2222222")),
    silent("model_revision", {**TWO, "model[meta/model].revision": "3" * 40}, "of both, and both are here",
           f"{SELF.format('2222222')} --speculative-draft-model-revision 3333333"),
    warns("model_revision", ONE, "is 111111111111 on this disk",
          command="vllm serve a --speculative-config='{\"model\": \"meta/model\", \"revision\": \"2222222\"}'"),
    silent("model_revision", ONE, "vLLM's tokenizer is of the model's",
           "vllm serve meta/model --tokenizer meta/model --revision 1111111"),
    fires("draft_mismatch", {**TWO, "model[meta/model].config": LLAMA, "model[meta/model@2222222].config": LLAMA | {
        "vocab_size": 7}}, "vocabulary of 7, the model has 128,256",
          command=f"{SGLANG} --speculative-algorithm EAGLE --speculative-draft-model-path meta/model "
                  "--speculative-draft-model-revision 2222222"),
    silent("draft_mismatch", head(architectures=5), "no list of architectures", EAGLE),
    apart("model_revision", {"model[meta/model].path": "/h", "model[meta/model].revision": "aa"}, "a branch",
          f"{SGLANG} --revision main"),
    fires("debug_variables", {"env[CUDA_LAUNCH_BLOCKING]": "1"}, "CUDA_LAUNCH_BLOCKING=1: every launch waits"),
    fires("debug_variables", {"env[SGLANG_SIMULATE_ACC_LEN]": "2.5"}, "acceptance lengths are invented"),
    fires("debug_variables", {"env[NCCL_DEBUG]": "TRACE"}, "NCCL logs every call"),
    warns("debug_variables", {"env[NCCL_DEBUG]": "info", "env[SGLANG_TEST_X]": "1", "env[TORCH_LOGS]": "+dynamo"},
          "NCCL logs its choices", "SGLANG_TEST_X", "TORCH_LOGS"),
    silent("debug_variables", {"env[CUDA_LAUNCH_BLOCKING]": "0", "env[NCCL_DEBUG]": "WARN",
                               "env[SGLANG_SIMULATE_ACC_LEN]": "-1", "env[SGLANG_IS_IN_CI]": "false"}, "off"),
    warns("unknown_variables", {"env_names.unknown[NCCL_PROTOO]": "NCCL_PROTO", "env_names.checked[nccl]": "2.32.3",
                                "env_names.unknown[SGLANG_X]": ""},
          "NCCL_PROTOO is unknown to NCCL (2.32.3); did you mean NCCL_PROTO?", "SGLANG_X is unknown to SGLANG"),
    silent("unknown_variables", {"env_names.checked[nccl]": "2.32.3"}, "all known"),
    warns("expandable_segments", {"env[PYTORCH_CUDA_ALLOC_CONF]": "max_split_size_mb:64, expandable_segments:True"},
          "expandable_segments:True", command=TP2),
    silent("expandable_segments", {"env[PYTORCH_CUDA_ALLOC_CONF]": "expandable_segments:False"}, "off", TP2),
    apart("expandable_segments", {"env[PYTORCH_CUDA_ALLOC_CONF]": "expandable_segments:True"}, "one rank", SGLANG),
    warns("transports_off", {"env[NCCL_P2P_DISABLE]": "1", "nccl.conf[user].set[NCCL_SHM_DISABLE]": "1"},
          "no peer-to-peer access", "no shared memory"),
    warns("transports_off", {**gpus(8, fabric_state="completed"), "env[NCCL_NVLS_ENABLE]": "0"}, "NVSwitches"),
    silent("transports_off", {**gpus(8, fabric_state="completed"), "env[NCCL_NVLS_ENABLE]": "0"}, "SGLang's default",
           SGLANG),
    silent("transports_off", {"env[NCCL_P2P_DISABLE]": "0", "env[NCCL_P2P_LEVEL]": "NVL"}, "on"),
    warns("overwritten_variables", {"env[CUDA_DEVICE_MAX_CONNECTIONS]": "1"}, "always 8", command=SGLANG),
    silent("overwritten_variables", {"env[CUDA_DEVICE_MAX_CONNECTIONS]": "8", "env[CUDA_MODULE_LOADING]": "LAZY",
                                     "env[NCCL_CUMEM_ENABLE]": "1", "env[TRITON_CACHE_DIR]": "/c"}, "kept", SGLANG),
    apart("overwritten_variables", {"env[CUDA_DEVICE_MAX_CONNECTIONS]": "1"}, "another engine", "vllm serve m"),
    warns("nccl_conf", {"nccl.conf[user].path": "/h/.nccl.conf", "nccl.conf[user].set[NCCL_ALGO]": "Tree",
                        "nccl.conf[user].odd_names": ["NCCL_PROTO "]}, "never looks up", "sets NCCL_ALGO where nobody"),
    silent("nccl_conf", {"nccl.conf[user].path": "/h", "nccl.conf[user].set[NCCL_ALGO]": "Tree",
           "env[NCCL_ALGO]": "Ring"},
           "the environment wins"),
    silent("nccl_conf", {"nccl.conf[system].path": "/etc/nccl.conf", "nccl.conf[system].odd_names": ["NVSHMEM_X"]},
           "for another library"),
    apart("nccl_conf", {}, "no file"),
    warns("caches_cold", {"cache[sglang/triton].warm": False, "cache[flashinfer].warm": False,
          "cache[vllm].warm": True},
          "all 2 caches of sglang are empty", command=SGLANG),
    silent("caches_cold", {"cache[sglang/triton].warm": True, "cache[flashinfer].warm": False}, "one is warm", SGLANG),
    apart("caches_cold", {"cache[sglang/triton].warm": False}, "no engine"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)
