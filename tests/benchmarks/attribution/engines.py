"""What serves on a machine: SGLang as recorded, vLLM, or some other program."""

from __future__ import annotations

from dataclasses import replace

from envsnap.reading import Json
from envsnap.snapshot import Snapshot
from tests.benchmarks.attribution.snapshots import changed, renamed, without


def role(engine: str, ranks: int, rank: int) -> str:
    """What envsnap calls the process of a rank."""
    names = {"sglang": "scheduler_TP", "vllm": "Worker_TP", "other": "rank"}
    if ranks == 1:
        return {"sglang": "scheduler", "vllm": "EngineCore", "other": "main"}[engine]
    return f"{names[engine]}{rank}"


def served(snapshot: Snapshot, engine: str, here: int, ranks: int, speculative: bool) -> Snapshot:
    """The machine with ranks of that engine, `here` of them on this machine."""
    spare = [f"[scheduler_TP{i}]" for i in range(here, 8)]
    for name in ("worker", "worker_record", "during"):
        snapshot = without(snapshot, name, *(f"{root}{s}" for s in spare for root in _ROOTS[name]))
    readings: dict[str, Json] = {"server[0].argument[tp_size]": ranks}
    if ranks > here:
        readings["server[0].argument[nnodes]"] = ranks // here
    snapshot = changed(snapshot, readings)
    if not speculative:
        plain = dict.fromkeys((p for p in snapshot.values if "argument[speculative_" in p), None)
        snapshot = changed(snapshot, {**plain, "server[0].dp[0].accept_length": None, "model[draft].config": None})
        snapshot = without(snapshot, "models", "model[draft]")
    snapshot = changed(snapshot, {"worker[main].argv": _command(engine, here, ranks, speculative)})
    if engine == "vllm":
        snapshot = _as_vllm(snapshot, ranks)
    elif engine == "other":
        sections = {n: s for n, s in snapshot.sections.items() if n not in ("server", "models")}
        snapshot = replace(snapshot, sections=sections)
        nothing = dict.fromkeys((p for p in snapshot.values if p.startswith("record[") and ".engine" in p), None)
        snapshot = changed(snapshot, {**nothing, **dict.fromkeys((p for p in snapshot.values if "sgl" in p), None)})
        snapshot = without(snapshot, "git", "repo[")
    return renamed(snapshot, {f"[scheduler_TP{i}]": f"[{role(engine, here, i)}]" for i in range(here)})


_ROOTS = {"worker": ("worker",), "worker_record": ("record",), "during": ("during.worker",)}


def _as_vllm(snapshot: Snapshot, ranks: int) -> Snapshot:
    """VLLM in place of SGLang, which tells its arguments under VLLM_SERVER_DEV_MODE."""
    arguments: dict[str, Json] = {
        "model_config.dtype": "bfloat16",
        "model_config.max_model_len": 32768,
        "model_config.enforce_eager": False,
        "model_config.generation_config": "vllm",
        "cache_config.gpu_memory_utilization": 0.9,
        "cache_config.block_size": 16,
        "cache_config.enable_prefix_caching": True,
        "parallel_config.tensor_parallel_size": ranks,
        "parallel_config.disable_custom_all_reduce": False,
        "scheduler_config.max_num_seqs": 256,
        "scheduler_config.max_num_batched_tokens": 8192,
        "scheduler_config.async_scheduling": True,
        "compilation_config.cudagraph_mode": "FULL_AND_PIECEWISE",
        "attention_config.backend": "FLASH_ATTN",
        "observability_config.collect_detailed_traces": False,
    }
    readings: dict[str, Json] = dict.fromkeys((p for p in snapshot.values if p.startswith("server[0].")), None)
    readings |= {f"server[0].argument[{name}]": value for name, value in arguments.items()}
    readings |= {"server[0].engine": "vllm", "server[0].version": "0.13.0"}
    for path, value in snapshot.values.items():
        if path.startswith("record[") and path.endswith((".engine", ".engine_version", ".graph_batch_sizes[decode]")):
            readings[path] = {"engine": "vllm", "engine_version": "0.13.0"}.get(path.rsplit(".", 1)[1])
        if path.startswith(("package[sglang]", "package[sglang-kernel]", "repo[")) or "[sglang]" in path:
            readings[path] = None
        if "package_origin[sgl_kernel]" in path or "package_hash[sgl_kernel]" in path:
            readings[path] = None
            readings[path.replace("sgl_kernel", "vllm")] = value
    readings |= {
        "package[vllm].version": "0.13.0",
        "package[vllm].origin": "index",
        "package[vllm].record_sha256": "5c1f" * 16,
    }
    return changed(snapshot, readings)


def _command(engine: str, here: int, ranks: int, speculative: bool) -> list[str]:
    if engine == "vllm":
        found = ["/opt/venv/bin/python3", "/opt/venv/bin/vllm", "serve", "/models/target"]
        return [*found, "--tensor-parallel-size", str(ranks)]
    if engine == "other":
        found = ["/opt/venv/bin/python3", "/opt/venv/bin/torchrun", "--nproc-per-node", str(here)]
        if ranks > here:
            found += ["--nnodes", str(ranks // here), "--node-rank", "0", "--rdzv-endpoint", "head:29500"]
        return [*found, "/srv/bench/job.py"]
    found = ["python3", "-m", "sglang.launch_server", "--model-path", "/models/target", "--tp-size", str(ranks)]
    if ranks > here:
        found += ["--nnodes", str(ranks // here), "--node-rank", "0", "--dist-init-addr", "head:20000"]
    if speculative:
        found += ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/models/draft"]
        found += ["--speculative-num-steps", "2", "--speculative-eagle-topk", "1"]
        found += ["--speculative-num-draft-tokens", "3"]
    return [*found, "--port", "30000"]
