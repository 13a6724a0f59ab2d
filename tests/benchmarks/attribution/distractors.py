"""Innocent changes: half from the classes that causes come from, the rest from what moves between real repeats.

Settings come from a table of values that do nothing (`tests/cases/innocent.yaml`); whatever else is declared as an
identity or a tunable joins by itself, with a value close to the machine's own. What moves by itself moves as it did
between real captures of one machine in one state (`tests/data/attribution/repeats.json`).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from envsnap.collectors import key_for
from envsnap.keys import instances_of, pattern_of
from envsnap.reading import Json
from tests.benchmarks.attribution import deeds
from tests.benchmarks.attribution.cases import innocent
from tests.benchmarks.attribution.declared import Source, bumped, declared, either, template
from tests.benchmarks.attribution.deeds import EVERYWHERE, LAUNCHER, RANKS, SHELL, Deed, Pair
from tests.benchmarks.attribution.machine import RECORD, Machine

SUSPICIOUS, REPEATS = 22, 18
"""How many of the 40 are of classes that causes come from, and how many from repeats."""

COSMETIC = 0.1
"""Prior up to which a key counts as cosmetic."""


def draw(machine: Machine, taken: frozenset[str], rng: random.Random) -> list[Deed]:
    """Forty innocent changes that share no reading, and none with those that are `taken` (as `footprint` gives it)."""
    found: list[Deed] = []
    used = set(taken)
    for sources, wanted in ((_SUSPICIOUS, SUSPICIOUS), (_REPEATS, REPEATS)):
        names, weights = zip(*sources)
        count = tries = 0
        while count < wanted and tries < 40 * wanted:
            tries += 1
            deed = rng.choices(names, weights)[0](machine, rng)
            if deed is None or (marks := footprint(deed)) & used:
                continue
            used |= marks
            found.append(deed)
            count += 1
    return found


def footprint(deed: Deed) -> frozenset[str]:
    """What another deed may not touch as well: its name, its options, its readings whatever GPU or rank they are of."""
    same = {re.sub(r"\d+", "#", path) for path in deed.shows}
    return frozenset({deed.name, *(f"--{name.rsplit('.', 1)[-1]}" for name in deed.typed), *same})


# -- classes that causes come from ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """Values that something can take: two of them in any order, or one pair in its order. `only` says where."""

    name: str
    values: tuple[Json, ...]
    ordered: bool
    only: str

    def suits(self, machine: Machine) -> bool:
        """Whether it does nothing there, and whether anybody would set it there."""
        foreign = {"sglang": ("VLLM_",), "vllm": ("SGLANG_",), "other": ("VLLM_", "SGLANG_")}
        if self.name.startswith(foreign[machine.engine]):
            return False
        return not (self.only == "alone" and machine.several_hosts) and not (
            self.only == "nvlink" and not machine.nvlink
        )

    def drawn(self, rng: random.Random) -> Pair:
        """A value for the fast and one for the slow side."""
        fast, slow = self.values if self.ordered else rng.sample(self.values, 2)
        return fast, slow


Kinds = Mapping[str, Mapping[str, list[Json]]]


def _choice(told: Kinds, machine: Machine, rng: random.Random, beginning: str = "") -> Choice | None:
    """One choice of a table: of a kind first, so that what is called slower is not drowned by what has no order."""
    kind = rng.choices(list(_KINDS), list(_KINDS.values()))[0]
    choices = [
        Choice(name, tuple(values), kind != "either", key.partition("_")[2])
        for key, table in told.items()
        if key.partition("_")[0] == kind
        for name, values in table.items()
        if name.startswith(beginning)
    ]
    suitable = [c for c in choices if c.suits(machine)]
    return rng.choice(suitable) if suitable else None


_KINDS = {"either": 5, "improved": 2, "nominal": 2}
"""Kinds of choices, and how often each is drawn. Every second change of which a direction is known goes either way."""


def _variable(beginning: str) -> Source:
    def source(machine: Machine, rng: random.Random) -> Deed | None:
        choice = _choice(innocent()["variables"], machine, rng, beginning)
        where = rng.choices((EVERYWHERE, (SHELL,), (LAUNCHER, RANKS)), (55, 25, 20))[0]
        return deeds.variable(machine, choice.name, choice.drawn(rng), where) if choice else None

    return source


def _argument(machine: Machine, rng: random.Random) -> Deed | None:
    choice = _choice(innocent()["arguments"].get(machine.engine, {}), machine, rng)
    if choice is None:
        return None
    deed = deeds.argument(machine, choice.name, choice.drawn(rng), typed=rng.random() < 0.7)
    return Deed(deed.name, deed.shows, {choice.name.rsplit(".", 1)[-1]: pair for pair in deed.typed.values()})


def _tabled(machine: Machine, rng: random.Random) -> Deed | None:
    choice = _choice(innocent()["readings"], machine, rng)
    if choice is None or all(machine.value(path) is None for path in machine.places(choice.name)):
        return None
    return deeds.readings(machine, choice.name, choice.name, choice.drawn(rng))


_LIBRARIES = {
    "nccl": "nvidia-nccl-cu13",
    "cudnn": "nvidia-cudnn-cu13",
    "cublas": "nvidia-cublas",
    "nvshmem": "nvidia-nvshmem-cu13",
}
_KERNELS = (
    "torch", "triton", "flashinfer-python", "sglang-kernel", "xgrammar", "torchao", "transformers", "tokenizers",
    "compressed-tensors", "nvidia-cuda-runtime", "nvidia-cuda-nvrtc", "nvidia-cusparse", "apache-tvm-ffi",
    "quack-kernels", "llguidance", "sglang", "vllm",
)  # fmt: skip


def _library(machine: Machine, rng: random.Random) -> Deed | None:
    kind = rng.choice(sorted(_LIBRARIES))
    version = machine.value(f"package[{_LIBRARIES[kind]}].version")
    return deeds.library(machine, kind, bumped(str(version), rng), _LIBRARIES[kind])


def _kernel_package(machine: Machine, rng: random.Random) -> Deed | None:
    name = rng.choice(_KERNELS)
    version = machine.value(f"package[{name}].version")
    return deeds.package(machine, name, bumped(version, rng)) if isinstance(version, str) else None


def _driver(machine: Machine, rng: random.Random) -> Deed | None:
    other = rng.choices(("580.126.09", "575.57.08", "570.172.08"), (6, 2, 2))[0]
    return deeds.driver(machine, either(("580.159.04", other), rng))


def _commit(machine: Machine, rng: random.Random) -> Deed | None:
    name = rng.choice(("sglang", "bench", "flashinfer"))
    if name == "sglang" and machine.engine != "sglang":
        return None
    return deeds.commit(machine, name, str(rng.random()))


# -- what differs between repeats -----------------------------------------------------------------------------------


@cache
def _repeats() -> dict[str, list[list[Json]]]:
    """Path -> pairs of values that two real captures of one machine in one state had."""
    found: dict[str, list[list[Json]]] = json.loads((RECORD.parent / "repeats.json").read_text())
    return found


def _moving(machine: Machine, rng: random.Random) -> Deed | None:
    path = rng.choice(sorted(_repeats()))
    if machine.value(path) is None:
        return None
    before, after = rng.choice(_repeats()[path])
    place = template(path, machine)
    return deeds.readings(machine, place, place, (before, after))


def _minor_package(machine: Machine, rng: random.Random) -> Deed | None:
    name = rng.choice(_minor(machine))
    return deeds.package(machine, name, bumped(str(machine.value(f"package[{name}].version")), rng))


@cache
def _minor(machine: Machine) -> tuple[str, ...]:
    versions = (p for p in machine.values if pattern_of(p) == "package[].version")
    return tuple(instances_of(p)[0] for p in versions if key_for(p).prior <= COSMETIC)


_NOISE: dict[str, tuple[Json, ...]] = {
    "SHLVL": ("0", "1", "2"),
    "TERM": ("xterm", "xterm-256color", "screen"),
    "OLDPWD": ("/home/user1", "/srv", "/tmp"),
    "COLUMNS": (None, "120", "211"),
    "SSH_CLIENT": (None, "192.0.2.7 51122 22", "192.0.2.9 40022 22"),
    "VSCODE_IPC_HOOK_CLI": (None, "/run/user/1000/vscode-ipc-1.sock"),
    "TMUX_PANE": (None, "%0", "%3"),
    "LC_TIME": (None, "de_DE.UTF-8"),
    "GIT_PAGER": (None, "cat"),
    "PIP_DISABLE_PIP_VERSION_CHECK": ("1", None),
    "EDITOR": (None, "vim"),
}


def _noise(machine: Machine, rng: random.Random) -> Deed | None:
    name = rng.choice(sorted(_NOISE))
    fast, slow = rng.sample(_NOISE[name], 2)
    return deeds.variable(machine, name, (fast, slow))


_SUSPICIOUS: tuple[tuple[Source, float], ...] = (
    (_variable("NCCL_"), 20),
    (_variable("TORCH"), 6),
    (_variable(""), 14),
    (_argument, 20),
    (_library, 7),
    (_kernel_package, 10),
    (_driver, 2),
    (_commit, 5),
    (_tabled, 12),
    (declared(0.2, 1.0), 12),
)
_REPEATS: tuple[tuple[Source, float], ...] = (
    (_moving, 6),
    (_minor_package, 7),
    (declared(-1.0, COSMETIC), 4),
    (_noise, 3),
)
