"""Causes and consequences: of two changes of which one brings the other about, the first is the suspect.

A boot parameter withholds CPUs, and the workers wait for CPUs: both differ. What follows is no cause of its own where
something that would bring it about changed too, and is likely by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from envsnap.explain.evidence import Weighed
from envsnap.explain.explanation import Evidence
from envsnap.explain.weights import Consequences, Weights

# Ids of consequences -> ids of what brings them about (regular expressions on the whole id).
_FOLLOWS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("load:cpu", re.compile(r"boot:(isolcpus|nohz_full|maxcpus|nosmt)|affinity|cgroup:cpu|scheduling"
                            r"|cpu\.(isolated|offline)|kernel\.scheduler_extension|env:(OMP|MKL|KMP)_\w+|record\[\]\.torch\.num_threads")),
    ("load:clocks", re.compile(r"power_limit|clocks_set|env:CUDA_\w+")),
    ("load:cpu_clock", re.compile(r"cpu:clock|boot:(intel_pstate|amd_pstate|cpufreq\S*)")),
    ("load:memory", re.compile(r"cgroup:memory|memory\.\S+|storage:\S+")),
    ("nccl:resolved", re.compile(r"env:NCCL_\w+|lost:NCCL|library:nccl\S*|p2p|pci\[\]\.acs_enabled|pci:iommu|rdma"
                                 r"|nvlink|fabric|driver|limits:memlock|memory\.shm_size_bytes|container\.kind|network\S*")),
    ("server:capacity", re.compile(r"argument:(mem_fraction_static|gpu_memory_utilization|max_total_tokens)")),
    ("p2p", re.compile(r"pci\[\]\.acs_enabled|pci:iommu|nvlink|driver|platform\.virtualization|container\.kind")),
)  # fmt: skip


def related(weighed: Sequence[Weighed], weights: Weights) -> list[Weighed]:
    """The same suspects, with what they say of each other."""
    sizes = weights.consequences
    found = list(weighed)
    for consequence, causes in _FOLLOWS:
        at = next((i for i, w in enumerate(found) if w.candidate.id == consequence), None)
        if at is None:
            continue
        likely = [i for i, w in enumerate(found) if causes.fullmatch(w.candidate.id) and _stands_out(w, sizes)]
        for i in likely:
            found[i] = _with(
                found[i], f"It would bring about what changed too: {found[at].candidate.title}.", sizes.cause
            )
        if likely:
            names = " or ".join(found[i].candidate.title for i in likely[:2])
            found[at] = _with(found[at], f"It may follow from another change: {names}.", sizes.consequence)
    return found


def _stands_out(weighed: Weighed, sizes: Consequences) -> bool:
    """Whether something of its own speaks for it, and more for than against it."""
    return weighed.odds > 0 and any(e.weight >= sizes.least for e in weighed.evidence)


def _with(weighed: Weighed, text: str, weight: float) -> Weighed:
    piece = Evidence(text, weight, weighed.candidate.paths[:1])
    return replace(weighed, evidence=(*weighed.evidence, piece))
