"""What a rule may know: values of the keys that it declared, and what the launch command asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from envsnap.check.wanted import Wanted
from envsnap.fold import listed
from envsnap.keys import instances_of, path_of, pattern_of
from envsnap.reading import Json, Reading, Unavailable, Why
from envsnap.snapshot import Snapshot
from envsnap.wording import absence_text

ERROR, WARNING = "error", "warning"

VISIBLE_DEVICES, GPU_INDEX, GPU_UUID = "env[CUDA_VISIBLE_DEVICES]", "gpu[].name", "gpu[].uuid"
ALWAYS = ("env[]", GPU_INDEX, GPU_UUID)
"""Keys that every rule may look at: they say which GPUs it is about."""


class NotApplicable(Exception):
    """Raised by a rule where there is nothing here that it speaks of, with the reason."""


@dataclass(frozen=True)
class Problem:
    """Something that a rule objects to. `severity`: the rule's, unless it says otherwise."""

    title: str
    evidence: tuple[str, ...] = ()
    advice: str = ""
    severity: str = ""


@dataclass(frozen=True)
class Gpus:
    """Some GPUs, for a title and for evidence."""

    indices: tuple[str, ...]

    def __str__(self) -> str:
        return f"GPU {listed(self.indices)}"

    def __len__(self) -> int:
        return len(self.indices)

    def paths(self, *names: str) -> tuple[str, ...]:
        """Their paths of these facts."""
        return tuple(f"gpu[{index}].{name}" for name in names for index in self.indices)


class Index:
    """A snapshot's values by pattern, made once for all rules."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.values: dict[str, dict[str, Json]] = {}
        for path, value in snapshot.values.items():
            self.values.setdefault(pattern_of(path), {})[path] = value

    def gpus(self, wanted: Wanted) -> tuple[str, ...]:
        """The GPUs that a command would use: those visible to CUDA, and of these as many as it takes."""
        present = [instances_of(path)[0] for path in self.values.get(GPU_INDEX, {})]
        visible = self.snapshot.values.get(VISIBLE_DEVICES)
        if isinstance(visible, str):
            present = self._visible(visible, present)
        if wanted.gpus:
            present = present[wanted.first_gpu : wanted.first_gpu + wanted.gpus]
        return tuple(present)

    def _visible(self, text: str, present: Sequence[str]) -> list[str]:
        """CUDA takes the entries up to the first that names no GPU."""
        uuids = {str(value): instances_of(path)[0] for path, value in self.values.get(GPU_UUID, {}).items()}
        found = []
        for entry in (part.strip() for part in text.split(",")):
            if entry in present:
                found.append(entry)
            elif entry.startswith("GPU-") and (matching := [i for uuid, i in uuids.items() if uuid.startswith(entry)]):
                found.append(matching[0])
            else:
                break
        return found


class Facts:
    """One snapshot as one rule sees it. Asking for a key that the rule did not declare is an error of the rule."""

    def __init__(self, index: Index, wanted: Wanted, needs: Iterable[str], uses: Iterable[str] = ()) -> None:
        self._index = index
        self._needs = frozenset(needs)
        self._declared = self._needs | frozenset(uses) | frozenset(ALWAYS)
        self.wanted = wanted

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot as a whole, for what reads all of it."""
        return self._index.snapshot

    def all(self, pattern: str) -> Mapping[str, Json]:
        """Path -> value of every instance of a key."""
        if pattern not in self._declared:
            raise LookupError(f"{pattern} is not declared by this rule")
        return self._index.values.get(pattern, {})

    def each(self, pattern: str) -> Iterator[tuple[list[str], str, Json]]:
        """Instances, path and value of every instance of a key."""
        for path, value in self.all(pattern).items():
            yield instances_of(path), path, value

    def value(self, path: str) -> Json:
        """The value at a path; None where there is none."""
        return self.all(pattern_of(path)).get(path)

    def reading(self, path: str) -> Reading:
        """The reading at a path, with why there is no value."""
        self.all(pattern_of(path))
        return self._index.snapshot.reading(path)

    def env(self, name: str) -> str | None:
        """A variable of this environment, as the command will have it."""
        value = self.value(path_of("env[]", name))
        return value if isinstance(value, str) else None

    @cached_property
    def gpus(self) -> Gpus:
        """The GPUs that the command, or else whoever starts here, will use."""
        return Gpus(self._index.gpus(self.wanted))

    def some_gpus(self, at_least: int = 1) -> Gpus:
        """The GPUs in use. Raises: NotApplicable where there are fewer."""
        if len(self.gpus) < at_least:
            raise NotApplicable("no GPU is used here" if at_least == 1 else f"fewer than {at_least} GPUs are used here")
        return self.gpus

    @cached_property
    def visible_gpus(self) -> Gpus:
        """All GPUs that a program started here could use."""
        return Gpus(self._index.gpus(Wanted()))

    @cached_property
    def other_gpus(self) -> Gpus:
        """The GPUs of this machine that it will not use."""
        present = [instances_of(path)[0] for path in self.all(GPU_INDEX)]
        return Gpus(tuple(index for index in present if index not in self.gpus.indices))

    def gpu(self, index: str, name: str) -> Json:
        """A fact of one GPU; None where there is none."""
        return self.value(f"gpu[{index}].{name}")

    def gpus_by(self, *names: str, of: Gpus | None = None) -> Iterator[tuple[tuple[Json, ...], Gpus]]:
        """The GPUs in use, grouped by these facts. One that lacks a needed fact is left out."""
        groups: dict[str, tuple[tuple[Json, ...], list[str]]] = {}
        needed = [f"gpu[].{name}" in self._needs for name in names]
        for index in (of or self.gpus).indices:
            values = tuple(self.gpu(index, name) for name in names)
            if not any(value is None and need for value, need in zip(values, needed)):
                groups.setdefault(repr(values), (values, []))[1].append(index)
        for values, indices in groups.values():
            yield values, Gpus(tuple(indices))


@dataclass(frozen=True)
class Gap:
    """Where a key has no value, in words why, and whether that is because there is no such thing here."""

    path: str
    why: str
    absent: bool


def gaps(snapshot: Snapshot, pattern: str) -> list[Gap]:
    """Where a key, a branch or the section above it, could not be read; empty where all there is was read."""
    from envsnap.collectors import section_of

    name = section_of(pattern)
    section = snapshot.sections.get(name)
    if section is None:
        return [Gap(name or pattern, "not captured", absent=False)]
    found = []
    for path in (*section.unavailable, *section.errors):
        if path not in section.values and _covers(pattern_of(path), pattern):
            reading = section.reading(path)
            absent = isinstance(reading, Unavailable) and reading.why in _NOT_THERE
            found.append(Gap(path, absence_text(cast(Any, reading)), absent))
    if not section.complete:
        absent = section.status == "unavailable" and section.reason.partition(":")[0] in _NOT_THERE
        why = section.reason.partition(": ")[2] if absent else f"{section.status}: {section.reason}".rstrip(": ")
        found.append(Gap(name, why, absent))
    return found


_NOT_THERE = {Why.ABSENT, Why.NOT_SUPPORTED, Why.OFF}


def _covers(branch: str, pattern: str) -> bool:
    return pattern == branch or pattern.startswith((f"{branch}.", f"{branch}["))
