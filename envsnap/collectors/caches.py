"""Caches: where compiled kernels and tuning results are kept, how full they are, and what was tuned."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape
from typing import Any

from envsnap.collectors._homes import Place, hub, placed, user
from envsnap.collectors._interpreter import environ_of
from envsnap.host import Host, value_of
from envsnap.keys import At, Effect, Key, Kind, Lever, Type
from envsnap.reading import Found, Missing, Unavailable, Value, Why, attempt
from envsnap.scope import Scope

METHOD = (
    "directories named by the environment of the processes of interest, else of the calling one; walked within bounds"
)

SCAN_FILES = 10_000
SCAN_SECONDS = 0.8
"""For all caches together."""
MAX_TUNED = 1000

_COMPILE = (Effect.COMPUTE, Effect.HOST_LAUNCH, Effect.PREFILL)
_TUNED = (Effect.COMPUTE, Effect.VERIFY, Effect.DRAFT)
_MOVE = "Take both runs with the same cache, warmed by one discarded run."

KEYS = (
    Key("cache[].path", Type.STRING, Kind.TUNABLE, "Where a cache of compiled or tuned kernels is.",
        _COMPILE, 0.1, Lever.ENV, _MOVE, at=(At("hf_hub", effects=(Effect.STORAGE,), prior=0.02),)),
    Key("cache[].moved_by", Type.STRING, Kind.TUNABLE, "Variable that moved a cache away from its default place.",
        _COMPILE, 0.1, Lever.ENV, at=(At("hf_hub", effects=(Effect.STORAGE,), prior=0.02),)),
    Key("cache[].warm", Type.BOOLEAN, Kind.TUNABLE,
        "Whether a cache holds anything; a cold one compiles or tunes within the first requests.",
        (*_COMPILE, Effect.VALIDITY), 0.3, Lever.CACHE, _MOVE),
    Key("cache[].entries_count", Type.INTEGER, Kind.COUNTER,
        "Files in a cache; growth during a measurement means that something was compiled in it.",
        (*_COMPILE, Effect.VALIDITY), 0.3, Lever.CACHE, "Warm up with the same batch sizes and lengths first."),
    Key("cache[].size_bytes", Type.INTEGER, Kind.COUNTER, "Bytes of all files in a cache.",
        _COMPILE, 0.05, Lever.CACHE),
    Key("cache[].newest_change_seconds", Type.NUMBER, Kind.COUNTER,
        "When a file in a cache was last changed, in seconds since 1970; it grows when something was compiled.",
        _COMPILE, 0.1, Lever.CACHE),
    Key("cache[].counted_whole", Type.BOOLEAN, Kind.LABEL,
        "Whether all of a cache was counted; a scan ends at 10,000 files and at its share of 0.8 seconds."),
    Key("cache[].tuned_count", Type.INTEGER, Kind.TUNABLE, "Files of autotuning results in a cache.",
        _TUNED, 0.3, Lever.CACHE),
    Key("cache[].tuned_sha256", Type.STRING, Kind.TUNABLE,
        "Hash of all files of autotuning results in a cache: they are draws of timings, and differ between tunings.",
        _TUNED, 0.5, Lever.CACHE, "Copy the fast run's files back; SGLANG_FLASHINFER_AUTOTUNE_CACHE=0 tunes anew."),
    Key("cache[].p2p_sha256", Type.STRING, Kind.TUNABLE,
        "Hash of the files in which an engine keeps, for good, which GPUs can reach which directly.",
        (Effect.COMMUNICATION,), 0.5, Lever.CACHE, "Delete gpu_p2p_access_cache_for_*.json; the engine tests again."),
    Key("cache[].p2p_refused_count", Type.INTEGER, Kind.TUNABLE,
        "Pairs of GPUs that an engine's kept test result holds for unable to reach each other directly.",
        (Effect.COMMUNICATION,), 0.6, Lever.CACHE,
        "If the topology says otherwise, delete gpu_p2p_access_cache_for_*.json; the engine tests again."),
)  # fmt: skip


@dataclass(frozen=True)
class Tool:
    """Whose cache it is: the variables that move it (name -> what is appended), and where it is by default.

    The first variable moves nothing but this cache.
    """

    variables: dict[str, str]
    default: str
    tuned: str = ""
    """Regular expression of the names of its files that hold autotuning results."""


TOOLS: Mapping[str, Tool] = {
    "triton": Tool({"TRITON_CACHE_DIR": "", "TRITON_HOME": ".triton/cache"}, "~/.triton/cache", r"\.autotune\.json$"),
    "inductor": Tool(
        {"TORCHINDUCTOR_CACHE_DIR": "", "TMPDIR": "torchinductor_{user}"},
        "/tmp/torchinductor_{user}",
        r"\.best_config$|\.autotune\.json$",
    ),
    "cuda": Tool({"CUDA_CACHE_PATH": ""}, "~/.nv/ComputeCache"),
    "flashinfer": Tool({"FLASHINFER_WORKSPACE_BASE": ".cache/flashinfer"}, "~/.cache/flashinfer"),
    "deep_gemm": Tool({"DG_JIT_CACHE_DIR": ""}, "~/.deep_gemm"),
    "tilelang": Tool({"TILELANG_CACHE_DIR": ""}, "~/.tilelang/cache"),
    "tvm_ffi": Tool({"TVM_FFI_CACHE_DIR": ""}, "~/.cache/tvm-ffi"),
    "torch_extensions": Tool(
        {"TORCH_EXTENSIONS_DIR": "", "XDG_CACHE_HOME": "torch_extensions"}, "~/.cache/torch_extensions"
    ),
    "vllm": Tool({"VLLM_CACHE_ROOT": "", "XDG_CACHE_HOME": "vllm"}, "~/.cache/vllm", r"autotune.*\.json$"),
    # SGLang moves the caches of others below its own root, in the version of the day: all such places count.
    "sglang/jit": Tool({"SGLANG_JIT_CACHE_DIR": ""}, "~/.cache/sglang/jit"),
    "sglang/deep_gemm_home": Tool({"SGLANG_DG_CACHE_DIR": ""}, "~/.cache/deep_gemm"),
}
SGLANG_ROOT = Tool({"SGLANG_CACHE_DIR": ""}, "~/.cache/sglang")
BELOW_SGLANG: Mapping[str, tuple[str, str]] = {
    "sglang/triton": ("triton", r"\.autotune\.json$"),
    "sglang/inductor": ("inductor", r"\.best_config$|\.autotune\.json$"),
    "sglang/cuda": ("nv", ""),
    "sglang/flashinfer": (".cache/flashinfer", ""),
    "sglang/flashinfer_autotune": ("flashinfer/autotune", r"\.json$"),
    "sglang/deep_gemm": ("deep_gemm", ""),
    "sglang/tilelang": ("tilelang", ""),
    "sglang/cute_aot": ("cute_aot", ""),
    "sglang/torch_compile": ("torch_compile_cache", ""),
    "sglang/rust_extensions": ("rust_extensions", ""),
}
"""Caches below that root: where, and the regular expression of what tuning left there."""
_TUNING_FILES = {**{name: tool.tuned for name, tool in TOOLS.items()},
          **{name: pattern for name, (_, pattern) in BELOW_SGLANG.items()}}  # fmt: skip
"""Cache -> the regular expression of the names of its files that hold autotuning results; empty for none."""
_P2P = "gpu_p2p_access_cache_for_*.json"


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    environ = environ_of(host, scope)
    places = {name: attempt(_placed, host, environ, tool) for name, tool in TOOLS.items()}
    root = attempt(_placed, host, environ, SGLANG_ROOT)
    for name, (below, _) in BELOW_SGLANG.items():
        places[name] = (
            Value(replace(root.value, path=f"{root.value.path}/{below}")) if isinstance(root, Value) else root
        )
    for name, place in {**places, "sglang": root, "hf_hub": attempt(hub, host, environ)}.items():
        yield from _place(name, place)
    known = {name: str(place.value.path) for name, place in places.items() if isinstance(place, Value)}
    yield from _contents(host, known)
    for name, place in (("sglang", root), ("vllm", places["vllm"])):
        if isinstance(place, Value):
            yield from _p2p(host, name, place.value.path)


def _placed(host: Host, environ: Mapping[str, str], tool: Tool) -> Place:
    variables, default = tool.variables, tool.default
    if "{user}" in default:
        name = re.sub(r'[\\/:*?"<>|]', "_", user(host, environ))
        variables = {variable: below.format(user=name) for variable, below in variables.items()}
        default = default.format(user=name)
    return placed(host, environ, variables, default)


def _place(name: str, place: Found) -> Iterator[tuple[str, Found]]:
    if not isinstance(place, Value):
        yield f"cache[{name}]", place
        return
    yield f"cache[{name}].path", Value(place.value.path)
    if place.value.moved_by:
        yield f"cache[{name}].moved_by", Value(place.value.moved_by)


def _contents(host: Host, places: Mapping[str, str]) -> Iterator[tuple[str, Found]]:
    """What the caches hold; two of them in one place are walked once."""
    paths = list(dict.fromkeys(places.values()))
    kinds = dict(zip(paths, host.found([["stat", path] for path in paths])))
    there = [path for path in paths if _is_directory(kinds[path])]
    wanted = {
        path: "|".join(filter(None, (_TUNING_FILES[n] for n, p in places.items() if p == path))) for path in there
    }
    share = SCAN_SECONDS / max(1, len(there))
    used = dict(zip(there, host.found([["usage", path, SCAN_FILES, share, wanted[path]] for path in there])))
    for name, path in places.items():
        usage = used.get(path)
        if usage is None:
            yield from _nothing(name, kinds[path])
        elif isinstance(usage, Value):
            yield from _usage(host, name, path, usage.value)
        else:
            yield f"cache[{name}]", usage


def _is_directory(found: Found) -> bool:
    return isinstance(found, Value) and found.value["type"] == "dir"


def _nothing(name: str, found: Found) -> Iterator[tuple[str, Found]]:
    """A cache without a directory is cold; one that cannot be looked at is unknown."""
    if isinstance(found, Unavailable) and found.why is Why.ABSENT:
        yield f"cache[{name}].warm", Value(False)
        yield f"cache[{name}].entries_count", Value(0)
        return
    reason = Unavailable(Why.NOT_SUPPORTED, "not a directory") if isinstance(found, Value) else found
    for key in ("warm", "entries_count", "size_bytes", "newest_change_seconds"):
        yield f"cache[{name}].{key}", reason


def _usage(host: Host, name: str, path: str, used: Mapping[str, Any]) -> Iterator[tuple[str, Found]]:
    cut_short = Unavailable(Why.TOO_LARGE, "the scan ended before it found anything")
    yield f"cache[{name}].warm", Value(used["files"] > 0) if used["files"] or used["complete"] else cut_short
    yield f"cache[{name}].entries_count", Value(used["files"])
    yield f"cache[{name}].size_bytes", Value(used["bytes"])
    yield f"cache[{name}].counted_whole", Value(used["complete"])
    if used["files"]:
        yield f"cache[{name}].newest_change_seconds", Value(round(used["newest_ns"] / 1e9, 3))
    files = used.get("matching", [])
    if files:
        yield f"cache[{name}].tuned_count", Value(len(files))
        whole = used["complete"] and len(files) < MAX_TUNED
        yield f"cache[{name}].tuned_sha256", attempt(_combined_hash, host, path, files) if whole else _NOT_WHOLE


_NOT_WHOLE = Unavailable(Why.TOO_LARGE, "not all files were found within the bounds of the scan")


def _combined_hash(host: Host, base: str, files: Sequence[str]) -> str:
    """One hash over the names below `base` and contents of files. Raises: Missing where one cannot be read."""
    digest = hashlib.sha256()
    for path, found in zip(files, host.found([["hash", path] for path in files])):
        line = f"{posixpath.relpath(path, base)} {value_of(found)}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def tuned_hash(host: Host, name: str, path: str) -> str:
    """What `cache[NAME].tuned_sha256` would say of a folder. Raises: Missing, HostError."""
    used = host.one("usage", path, SCAN_FILES, SCAN_SECONDS, _TUNING_FILES[name])
    if not used["complete"] or not used.get("matching"):
        raise Missing(Why.ABSENT, f"{path} holds no results of tuning")
    return _combined_hash(host, path, used["matching"])


def _p2p(host: Host, name: str, path: str) -> Iterator[tuple[str, Found]]:
    """SGLang and vLLM test once which GPUs reach each other, and believe the file ever after, whatever the driver."""
    files = host.found([["glob", f"{escape(path)}/{_P2P}"]])[0]
    if not isinstance(files, Value):
        yield f"cache[{name}].p2p_sha256", files
    elif files.value:
        yield f"cache[{name}].p2p_sha256", attempt(_combined_hash, host, path, files.value)
        yield f"cache[{name}].p2p_refused_count", attempt(_refused, host, files.value)


def _refused(host: Host, files: Sequence[str]) -> int:
    """How many pairs the files hold for unreachable. Raises: Missing."""
    count = 0
    for path, found in zip(files, host.found([["read", path, 1 << 20] for path in files])):
        try:
            answer = json.loads(value_of(found))
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise Missing(Why.NOT_SUPPORTED, f"{path} holds no JSON object")
        count += sum(1 for reachable in answer.values() if reachable is False)
    return count
