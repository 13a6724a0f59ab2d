"""Deeds: what somebody did between two records, and all the readings in which it shows.

One and the same for causes and for innocent changes: an exported variable stands in the shell, in the launcher and in
each rank, a new driver in a dozen places.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from envsnap.keys import path_of
from envsnap.reading import Json
from tests.benchmarks.attribution.machine import Machine

Pair = tuple[Json, Json]
"""A value on the fast and on the slow side; None is unset."""

SHELL, LAUNCHER, RANKS = "shell", "launcher", "ranks"
EVERYWHERE = (SHELL, LAUNCHER, RANKS)


@dataclass(frozen=True)
class Deed:
    """`shows` are readings by path, `typed` options of the command line; a deed is known by its `name`."""

    name: str
    shows: Mapping[str, Pair] = field(default_factory=dict)
    typed: Mapping[str, Pair] = field(default_factory=dict)

    @property
    def paths(self) -> frozenset[str]:
        """Where it shows, the command line aside."""
        return frozenset(self.shows)


def digest(text: str, length: int = 64) -> str:
    """A hash that stands for some content."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def variable(machine: Machine, name: str, pair: Pair, where: Iterable[str] = EVERYWHERE) -> Deed:
    """An environment variable, in the shell, in the launcher, in each rank."""
    where = set(where)
    paths = [path_of("env[]", name)] if SHELL in where else []
    if LAUNCHER in where:
        paths.append(path_of("worker[].env[]", "main", name))
    if RANKS in where:
        paths += [path_of("worker[].env[]", role, name) for role in machine.roles]
        if name.startswith("NCCL_") and machine.value("nccl.log.rank_count"):
            paths += [path_of("nccl.rank[].set[]", i, name) for i in range(machine.ranks)]
    return Deed(f"env {name}", dict.fromkeys(paths, pair))


def argument(machine: Machine, name: str, pair: Pair, typed: bool = True, resolved: bool = True) -> Deed:
    """An argument of the engine, as typed and as resolved. Where the engine tells nothing, only as typed."""
    shows: dict[str, Pair] = {}
    if resolved and machine.engine != "other":
        shows[path_of("server[].argument[]", 0, name)] = pair
    return Deed(f"--{name}", shows, {name: pair} if typed or not shows else {})


def package(machine: Machine, name: str, pair: Pair, local: Pair | None = None) -> Deed:
    """Another release of a package, as installed and as ranks imported it; `local` is a tag as in `+cu130`."""
    shows = _package(name, pair)
    if local:
        shows[f"package[{name}].local_tag"] = local
    module = {"flashinfer-python": "flashinfer", "sglang-kernel": "sgl_kernel"}.get(name, name)
    for role in machine.roles:
        if machine.value(f"record[{role}].package_hash[{module}]"):
            shows[f"record[{role}].package_hash[{module}]"] = _digests(module, pair)
        if name == "torch":
            tags = local or ("cu130", "cu130")
            versions = tuple(f"{v}+{tag}" if tag else v for v, tag in zip(pair, tags))
            shows[f"record[{role}].torch.version"] = (versions[0], versions[1])
            shows[f"record[{role}].torch.git_version"] = _digests("torch commit", (versions[0], versions[1]), 40)
        if name in ("sglang", "vllm") and machine.value(f"record[{role}].engine_version"):
            shows[f"record[{role}].engine_version"] = pair
    if name in ("sglang", "vllm") and machine.value("server[0].version"):
        shows["server[0].version"] = pair
    if name == "torch":
        shows["library[torch].version"] = (f"{pair[0]}+{(local or ('cu130', ''))[0]}", f"{pair[1]}")
        shows["library[torch].git_commit"] = _digests("torch commit", pair, 40)
    return Deed(f"package {name}", shows)


def _package(name: str, pair: Pair) -> dict[str, Pair]:
    return {f"package[{name}].version": pair, f"package[{name}].record_sha256": _digests(f"record of {name}", pair)}


def _digests(what: str, pair: Pair, length: int = 64) -> Pair:
    return digest(f"{what} {pair[0]}", length), digest(f"{what} {pair[1]}", length)


def library(machine: Machine, kind: str, pair: Pair, from_package: str = "") -> Deed:
    """Another build of a library (`nccl`, `cudnn`, `cublas`) in the package and as each rank has mapped it."""
    shows = _package(from_package, pair) if from_package else {}
    shows |= {f"library[{kind}/0].version": pair, f"library[{kind}/0].build_id": _digests(kind, pair, 40)}
    for role in machine.roles:
        shows[f"worker[{role}].library[{kind}/0].version"] = pair
        shows[f"worker[{role}].library[{kind}/0].build_id"] = _digests(kind, pair, 40)
    if kind == "nccl" and machine.value("nccl.log.rank_count"):
        for i in range(machine.ranks):
            shows[f"nccl.rank[{i}].version"] = (f"{pair[0]}+cuda13.0", f"{pair[1]}+cuda13.0")
    return Deed(f"library {kind}", shows)


_CUDA = {"535": "12.2", "560": "12.6", "570": "12.8", "575": "12.9", "580": "13.0"}
"""Branch of the driver -> the CUDA version that it is made for."""


def driver(machine: Machine, pair: Pair) -> Deed:
    """Another NVIDIA driver: module, libraries, firmware."""
    paths = ["nvml.driver_version", "nvidia.module_version", "library[cuda_driver/0].version"]
    paths += ["kernel.module_version[nvidia]", "kernel.module_version[nvidia_uvm]"]
    paths += machine.places("gpu[{gpu}].gsp_firmware_version")
    paths += machine.places("worker[{rank}].library[cuda_driver/0].version")
    shows: dict[str, Pair] = dict.fromkeys(paths, pair)
    cuda = tuple(_CUDA[str(version).partition(".")[0]] for version in pair)
    shows["nvml.version"] = (f"{cuda[0].partition('.')[0]}.{pair[0]}", f"{cuda[1].partition('.')[0]}.{pair[1]}")
    shows["nvml.cuda_driver_version"] = (cuda[0], cuda[1])
    library_paths = (
        f"/usr/lib/x86_64-linux-gnu/libcuda.so.{pair[0]}",
        f"/usr/lib/x86_64-linux-gnu/libcuda.so.{pair[1]}",
    )
    for path in ("library[cuda_driver/0]", *machine.places("worker[{rank}].library[cuda_driver/0]")):
        shows[f"{path}.path"] = library_paths
        shows[f"{path}.build_id"] = _digests("libcuda", pair, 40)
    return Deed("driver", shows)


def commit(machine: Machine, repo: str, name: str = "pull") -> Deed:
    """A repository that stands at another commit; what ranks imported of it differs too."""
    shows: dict[str, Pair] = {
        f"repo[{repo}].{key}": _digests(f"{key} {repo} {name}", ("before", "after"), 40) for key in ("head", "tree_id")
    }
    for role in machine.roles:
        if machine.value(f"record[{role}].package_hash[{repo}]"):
            shows[f"record[{role}].package_hash[{repo}]"] = _digests(f"source {repo} {name}", ("before", "after"))
    shows[f"repo[{repo}].last_move.time"] = ("2026-05-11T14:02:10+00:00", "2026-06-03T16:40:51+00:00")
    return Deed(f"commit {repo}", shows)


def readings(machine: Machine, name: str, template: str, pair: Pair) -> Deed:
    """Any reading; see `Machine.places` for what a template can hold."""
    return Deed(name, dict.fromkeys(machine.places(template), pair))


def merged(name: str, deeds: Iterable[Deed]) -> Deed:
    """Several deeds as one."""
    shows: dict[str, Pair] = {}
    typed: dict[str, Pair] = {}
    for deed in deeds:
        shows |= deed.shows
        typed |= deed.typed
    return Deed(name, shows, typed)


def reversed_if(deed: Deed, rng: random.Random) -> Deed:
    """The deed the other way round in half of all cases: for settings of which neither value is better."""
    if rng.random() < 0.5:
        return deed
    return Deed(
        deed.name, {p: (b, a) for p, (a, b) in deed.shows.items()}, {o: (b, a) for o, (a, b) in deed.typed.items()}
    )
