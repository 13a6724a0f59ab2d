"""What a suspect is: the class that it counts to, and on what it acts."""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.explain.candidates import Candidate
from envsnap.keys import Effect, pattern_of

STEP = frozenset({Effect.COMMUNICATION, Effect.VERIFY, Effect.DRAFT, Effect.HOST_LAUNCH, Effect.COMPUTE, Effect.MEMORY})
"""Effects that make a step longer."""

_SPECULATION = frozenset({Effect.ACCEPTANCE, Effect.DRAFT, Effect.VERIFY})


def is_exchange(candidate: Candidate) -> bool:
    """Whether it acts on the exchange between ranks, rather than on that as on everything else."""
    held = {*candidate.effects}
    return candidate.effects[:1] == (Effect.COMMUNICATION,) and not held & {Effect.DRAFT, Effect.ACCEPTANCE}


def is_speculation(effects: Iterable[Effect]) -> bool:
    """Whether it acts on speculation alone."""
    held = set(effects)
    return bool(held & {Effect.ACCEPTANCE, Effect.DRAFT}) and held <= _SPECULATION


def class_of(candidate: Candidate) -> str:
    """The class of a suspect, a name in `weights.CLASSES`."""
    if candidate.prior <= 0.05:
        return "cosmetic"
    kind, _, name = candidate.id.partition(":")
    if candidate.id in _BY_ID:
        return _BY_ID[candidate.id]
    if kind in _BY_ID:
        return _BY_ID[kind]
    if kind in ("argument", "env") and any(word in name.lower() for word in _PATHS):
        return "engine_path"
    if candidate.effects[:1] == (Effect.COMMUNICATION,):
        return "communication"
    if kind in ("argument", "env", "lost"):
        return "engine"
    if pattern_of(candidate.principal.path).startswith("request["):
        return "workload"
    return "host"


_PATHS = ("cuda_graph", "cudagraph", "attention", "speculative", "spec_", "draft", "eagle", "enforce_eager")
_BY_ID = {
    "git": "code",
    "library:nccl": "communication",
    "package": "library",
    "packages": "library",
    "library": "library",
    "model": "workload",
    "load:clocks": "clocks",
    "clocks_set": "clocks",
    "gpu:model": "clocks",
    "load:foreign": "neighbour",
    "load:cpu": "neighbour",
    "driver": "driver",
    "module": "driver",
    "kernel": "driver",
    "firmware": "driver",
    "pcie": "pcie",
    "power_limit": "power",
}
