"""Which GPUs of two snapshots belong together: those that the same rank held, whatever their numbers.

A run on GPUs 4 to 7 is compared with one on GPUs 0 to 3 rank by rank. Where the records of the ranks tell which GPU
each used, that decides; else the GPUs that had processes on them are paired in their order, if both sides have as many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from envsnap.keys import instances_of, path_of, pattern_of
from envsnap.reading import Json
from envsnap.snapshot import Section, Snapshot

T = TypeVar("T")
_Numbers = Mapping[int, int]
"""A GPU's number in B -> the number that it gets in A."""

_BY_NUMBER = re.compile(r"(?:during\.gpu|gpu|nvidia\.gpu)\[(\d+)\]")
_PAIR = re.compile(r"gpu_pair\[(\d+)/(\d+)\]")
_ON_PCI = re.compile(r"pci\[gpu(\d+)\]")


def aligned(a: Snapshot, b: Snapshot) -> tuple[Snapshot, str]:
    """B with its GPUs numbered as in A, and a sentence on that; B itself and nothing where the numbers agree.

    The numbers stand in paths alone: what a variable or a list of device files says stays as it was read.
    """
    every, said = pairing(a, b)
    if not every:
        return b, ""
    return replace(b, sections={name: _renumbered(section, every) for name, section in b.sections.items()}), said


def pairing(a: Snapshot, b: Snapshot) -> tuple[dict[int, int], str]:
    """The number that each GPU of B gets in A, and a sentence on that; nothing where the numbers agree."""
    if "gpu" not in a.sections or "gpu" not in b.sections:
        return {}, ""
    numbers, by = _by_rank(a, b), "the rank that held them"
    if numbers is None:
        numbers, by = _by_use(a, b), "the order of those in use"
    if not numbers or all(old == new for old, new in numbers.items()):
        return {}, ""
    every = _completed(numbers, _gpus(a), _gpus(b))
    moved = ", ".join(f"A's {new} with B's {old}" for old, new in sorted(numbers.items(), key=lambda item: item[1]))
    return every, f"GPUs are paired by {by}, and named as in A: {moved}."


def _by_rank(a: Snapshot, b: Snapshot) -> _Numbers | None:
    """By what the ranks of both sides tell: nothing where they share GPUs otherwise; None where it is not known."""
    one, two = _held(a), _held(b)
    if not one or not two or one.keys() != two.keys():
        return None
    pairs = {two[role]: one[role] for role in one}
    return pairs if len(set(pairs.values())) == len(pairs) and all(pairs[two[r]] == one[r] for r in one) else {}


def _held(snapshot: Snapshot) -> dict[str, int] | None:
    """The GPU of each rank, by NVML's number; None where it is not known of one of them."""
    found: dict[str, int] = {}
    values = snapshot.values
    for role in sorted({instances_of(p)[0] for p in _paths(snapshot, "worker_record") if "].rank[" in p}):
        told = (values.get(path_of("record[].torch.device_index", role)),
                values.get(path_of("record[].rank[]", role, "gpu_id")))  # fmt: skip
        index = next((i for i in told if isinstance(i, int)), None)
        gpu = None if index is None else _number(snapshot, role, index)
        if gpu is None:
            return None
        found[role] = gpu
    return found


def _number(snapshot: Snapshot, role: str, index: int) -> int | None:
    """NVML's number of the GPU that a process counts as `index`; None where that is not known."""
    names = {str(v) for p, v in snapshot.values.items() if p.startswith("gpu[") and p.endswith("].name")}
    if len(names) > 1 and _variable(snapshot, role, "CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return None  # CUDA counts the fastest first, NVML by address
    visible = _variable(snapshot, role, "CUDA_VISIBLE_DEVICES")
    if visible is None:
        return None
    if not visible:
        return index
    listed = [word.strip() for word in visible.split(",")]
    if not 0 <= index < len(listed):
        return None
    word = listed[index]
    if word.isdecimal():
        return int(word)
    ids = [p for p, v in snapshot.values.items() if p.startswith("gpu[") and p.endswith("].uuid") and _is(v, word)]
    return int(instances_of(ids[0])[0]) if len(ids) == 1 and instances_of(ids[0])[0].isdecimal() else None


def _is(uuid: Json, beginning: str) -> bool:
    return bool(beginning) and isinstance(uuid, str) and uuid.startswith(beginning)


def _variable(snapshot: Snapshot, role: str, name: str) -> str | None:
    """A variable as a worker has it; empty where it has none, None where its environment is not known."""
    for pattern in ("worker[].env[]", "record[].env[]"):
        held = snapshot.values.get(path_of(pattern, role, name))
        if isinstance(held, str):
            return held
        branch = path_of(pattern, role, "x").rpartition("[")[0]
        if any(path.startswith(f"{branch}[") for path in snapshot.values):
            return ""
    return None


def _by_use(a: Snapshot, b: Snapshot) -> _Numbers | None:
    """By which GPUs have processes on them."""
    one, two = _used(a), _used(b)
    return dict(zip(two, one)) if one and len(one) == len(two) else None


def _used(snapshot: Snapshot) -> list[int]:
    counts = {g: snapshot.values.get(path_of("gpu[].compute_process_count", g)) for g in _gpus(snapshot)}
    return [gpu for gpu, count in sorted(counts.items()) if isinstance(count, int) and count > 0]


def _gpus(snapshot: Snapshot) -> set[int]:
    return {int(m[1]) for path in _paths(snapshot, "gpu") if (m := _BY_NUMBER.match(path))}


def _paths(snapshot: Snapshot, name: str) -> list[str]:
    """What a section of a snapshot says anything about."""
    section = snapshot.sections.get(name)
    return [*section.values, *section.unavailable, *section.errors] if section else []


def _completed(numbers: _Numbers, of_a: set[int], of_b: set[int]) -> dict[int, int]:
    """A number for each GPU of B: those that no rank held keep theirs where it is free, else take what is left."""
    every = dict(numbers)
    taken = set(numbers.values())
    rest = sorted(of_b - numbers.keys())
    for gpu in [g for g in rest if g not in taken]:
        every[gpu] = gpu
        taken.add(gpu)
    beyond = max(of_a | of_b | taken) + 1
    free = [*sorted((of_a | of_b) - taken), *range(beyond, beyond + len(rest))]
    for gpu, number in zip([g for g in rest if g not in every], free):
        every[gpu] = number
    return every


def _renumbered(section: Section, numbers: _Numbers) -> Section:
    def path(old: str) -> str:
        return _path(old, numbers)

    def moved(held: Mapping[str, T]) -> dict[str, T]:
        return {path(p): value for p, value in held.items()}

    return replace(
        section, values=moved(section.values), unavailable=moved(section.unavailable), errors=moved(section.errors)
    )


def _path(path: str, numbers: _Numbers) -> str:
    if "gpu" not in path:
        return path
    instances = instances_of(path)
    for pattern, new in _RENAMED:
        if match := pattern.match(path):
            return path_of(pattern_of(path), new(match, numbers), *instances[1:])
    return path


def _pair(match: re.Match[str], numbers: _Numbers) -> str:
    return "/".join(map(str, sorted(numbers.get(int(n), int(n)) for n in match.groups())))


_RENAMED: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], _Numbers], str]], ...] = (
    (_BY_NUMBER, lambda match, numbers: str(numbers.get(int(match[1]), int(match[1])))),
    (_PAIR, _pair),
    (_ON_PCI, lambda match, numbers: f"gpu{numbers.get(int(match[1]), int(match[1]))}"),
)
