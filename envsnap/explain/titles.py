"""What a bundle of changes is called, and in one sentence how it could act."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from envsnap.change import Change
from envsnap.fold import fold, listed
from envsnap.keys import Effect, instances_of, pattern_of
from envsnap.reading import Value
from envsnap.wording import plural

_TITLES = {
    "env": "variable {name}",
    "env:*": "variables that processes set themselves",
    "argument": "server argument {name}",
    "argument:cuda_graph": "CUDA graphs of the server",
    "package": "package {name}",
    "package:engine": "engine",
    "library": "library {name}",
    "library:nccl": "NCCL library",
    "library:cudnn": "cuDNN",
    "library:cublas": "cuBLAS",
    "library:cuda": "CUDA libraries",
    "driver": "NVIDIA driver",
    "kernel": "Linux kernel",
    "boot": "kernel parameter {name}",
    "module": "driver module parameter {name}",
    "daemon": "daemon {name}",
    "os": "operating system and Python",
    "firmware": "firmware",
    "cpu:model": "CPU",
    "cpu:idle": "how deeply CPUs sleep",
    "huge_pages": "huge pages",
    "virtualization": "virtualisation",
    "driver:firmware": "firmware of the GPU's system processor",
    "torch:precision": "precision of PyTorch's matrix products",
    "torch:deterministic": "deterministic kernels of PyTorch",
    "argument:speculative_tree": "how much is drafted in a step",
    "boot:isolcpus": "isolated CPUs",
    "boot:numa_balancing": "automatic NUMA balancing",
    "cpu:clock": "CPU frequency policy",
    "mitigations": "CPU vulnerability mitigations",
    "machine": "machine",
    "gpu:model": "GPU board",
    "pcie": "PCIe link",
    "pci:iommu": "IOMMU translation",
    "p2p": "peer-to-peer access between GPUs",
    "nvlink": "NVLink",
    "fabric": "NVSwitch fabric",
    "nccl:resolved": "what NCCL chose",
    "load:clocks": "GPU clocks under load",
    "load:foreign": "foreign processes on the GPU",
    "load:cpu": "contention for CPUs under load",
    "load:memory": "memory and storage pressure under load",
    "load:cpu_clock": "CPU clocks under load",
    "clocks_set": "GPU clocks as set",
    "power_limit": "GPU power limit",
    "affinity": "CPU affinity",
    "numa_binding": "NUMA binding",
    "numa:layout": "NUMA layout",
    "link_errors": "errors on links",
    "memory_errors": "memory errors of GPUs",
    "faults": "faults that the driver reported",
    "scheduling": "scheduling class",
    "cgroup:cpu": "CPU limit of the container",
    "cgroup:memory": "memory limit of the container",
    "limits": "limit {name}",
    "rdma": "RDMA devices",
    "cache": "{name} cache",
    "caches": "caches of compiled kernels that are cold now",
    "model": "files of the model {name}",
    "storage": "storage {name}",
    "server:capacity": "room for the KV cache",
    "sitecustomize": "code that Python runs at every start",
}
_LISTED = 3
_SHA = 10
_FILES = 6


def title_of(home: str, changes: Sequence[Change]) -> str:
    """The name of a bundle; `changes` with the likeliest first."""
    kind, _, name = home.partition(":")
    if kind == "git":
        return f"code of {name}"
    if kind == "lost":
        return f"{name} variables that the workers no longer have: {listed(_variables(changes))}"
    if home == "packages":
        return _packages(changes)
    # NOTE: what a variable or an argument sets belongs to its bundle, also where that alone changed.
    bare = kind in ("env", "argument") and name != "*" and not any(_is_named(c, name) for c in changes)
    pattern = _TITLES.get(home) or (_TITLES.get(kind) if (name or kind == home) and not bare else None)
    if pattern is not None:
        return pattern.format(name=name)
    titles = [title for title, _ in fold([c.path for c in changes])]
    return ", ".join(titles[:_LISTED]) + ("…" if len(titles) > _LISTED else "")


def _is_named(change: Change, name: str) -> bool:
    return name in instances_of(change.path) or change.leaf.strip("[-]") == name


def _variables(changes: Sequence[Change]) -> list[str]:
    return list(dict.fromkeys(instances_of(c.path)[-1] for c in changes))


def _packages(changes: Sequence[Change]) -> str:
    names = list(dict.fromkeys(instances_of(c.path)[0] for c in changes))
    more = f", … {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{plural(len(names), 'other package')} ({', '.join(names[:_LISTED])}{more})"


_TERMS = {
    Effect.COMMUNICATION: "the exchange between ranks",
    Effect.VERIFY: "the verify step",
    Effect.DRAFT: "the draft step",
    Effect.ACCEPTANCE: "how many drafted tokens are accepted",
    Effect.HOST_LAUNCH: "how fast the host launches kernels",
    Effect.COMPUTE: "the kernels' own time",
    Effect.MEMORY: "memory bandwidth or room",
    Effect.PREFILL: "prefill",
    Effect.STORAGE: "reading files",
    Effect.WORKLOAD: "what work is done at all",
    Effect.VALIDITY: "whether the measurement is one",
}


def effects_text(effects: Sequence[Effect]) -> str:
    """Effects in words, the first few."""
    words = [_TERMS[effect] for effect in effects[:_LISTED]]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def mechanism_of(principal: Change, effects: Sequence[Effect]) -> str:
    """How a change could act, by its key's declaration."""
    words = effects_text(effects)
    return f"{principal.key.meaning}{f' It acts on {words}.' if words else ''}"


def revision_text(changes: Sequence[Change]) -> list[str]:
    """A repository's change in short: its commits, and which files differ beside them."""
    lines = [
        f"commit {str(c.before.value)[:_SHA]} → {str(c.after.value)[:_SHA]}"
        for c in changes
        if pattern_of(c.path) == "repo[].head" and isinstance(c.before, Value) and isinstance(c.after, Value)
    ]
    held = [instances_of(c.path)[1] for c in changes if pattern_of(c.path).startswith("repo[].changed[]")]
    files = list(dict.fromkeys(held))
    if files:
        names = ", ".join(posixpath.basename(name) for name in files[:_FILES])
        more = f" and {len(files) - _FILES} more" if len(files) > _FILES else ""
        lines.append(f"{plural(len(files), 'file')} changed locally: {names}{more}")
    return lines
