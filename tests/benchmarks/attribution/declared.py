"""Innocent changes of whatever is declared: a value a little off, the next release, another hash.

New keys join by themselves. What has a table or a deed of its own is left out, since it never changes alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache

from envsnap.collectors import key_for
from envsnap.keys import Kind, Type, instances_of
from envsnap.reading import Json
from tests.benchmarks.attribution import deeds
from tests.benchmarks.attribution.deeds import Deed, Pair
from tests.benchmarks.attribution.machine import Machine

Source = Callable[[Machine, random.Random], Deed | None]
"""Draws an innocent change; None where the draw has none for this machine."""


def declared(low: float, high: float) -> Source:
    """Whatever is declared and has a value here, of a prior in a range, a little off."""

    def source(machine: Machine, rng: random.Random) -> Deed | None:
        path = rng.choice(_movable(machine, low, high))
        place = template(path, machine)
        pair = _near(machine.value(path), rng)
        return None if pair is None else deeds.readings(machine, place, place, pair)

    return source


_OWN = re.compile(
    r"(?:env|argument|set)\[|library\[|^(?:package|server|repo|nvml|nccl|worker\[main\]|kernel\.module_version)\b"
    r"|^(?:nvidia\.module_version|python\.version)$|\.(?:torch\..*version|package_hash\[.*|engine_version)$"
    r"|\.(?:gsp_firmware_version|index_sha256|compute_capability|python\.version)$"
)
"""What has a table or a deed of its own, since it never changes alone."""


@cache
def _movable(machine: Machine, low: float, high: float) -> tuple[str, ...]:
    """One path a pattern, so that a machine of many GPUs is not all GPU."""
    found: dict[str, str] = {}
    for path, value in machine.values.items():
        key = key_for(path)
        # A number that nobody can set is that of other hardware.
        free = key.kind is Kind.TUNABLE or (key.kind is Kind.IDENTITY and key.type is Type.STRING)
        if free and low < key.prior <= high and not _OWN.search(path) and _near(value, random.Random(0)) is not None:
            found.setdefault(re.sub(r"\d+", "#", path), path)
    return tuple(found.values())


def template(path: str, machine: Machine) -> str:
    """The path for each GPU or rank, where it is of one of them."""
    first = instances_of(path)[0] if "[" in path else ""
    if first in machine.roles:
        return path.replace(f"[{first}]", "[{rank}]", 1)
    if path.startswith(("gpu[", "nvidia.gpu[")):
        return path.replace(f"[{first}]", "[{gpu}]", 1)
    return re.sub(r"^pci\[gpu\d+", "pci[gpu{gpu}", path)


_VERSION = re.compile(r"\d+(?:\.\d+)+\Z")
_HASH = re.compile(r"[0-9a-f]{32,64}\Z")


def _near(value: Json, rng: random.Random) -> Pair | None:
    """A value that is a few per cent off or the next release; None where no such value is harmless for certain."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        if abs(value) < 200 or (isinstance(value, int) and value & (value - 1) == 0):
            # Small numbers count things, and a power of two has no neighbour.
            return None
        other = type(value)(value * (1 + rng.uniform(0.005, 0.02)))
        return either((value, other), rng)
    if isinstance(value, str):
        if _VERSION.match(value):
            return bumped(value, rng)
        if _HASH.match(value):
            return value, deeds.digest(f"{value} {rng.random()}", len(value))
    return None


def either(values: tuple[Json, Json], rng: random.Random) -> Pair:
    """The two values, in one order or the other."""
    return values if rng.random() < 0.5 else (values[1], values[0])


def bumped(version: str, rng: random.Random) -> Pair:
    """A version and another release, older or newer: mostly a bug fix, often a minor one."""
    parts = version.split(".")
    numbers = [i for i, part in enumerate(parts) if part.isdigit()]
    if not numbers:
        return either((version, f"{version}.post1"), rng)
    place = min(rng.choices((2, 1), (6, 4))[0], len(numbers) - 1)
    at = numbers[place]
    after = ["0" if part.isdigit() else part for part in parts[at + 1 :]]
    return either((version, ".".join([*parts[:at], str(int(parts[at]) + 1), *after])), rng)
