"""Where everything is: the unpacked kit, the lab's folder, the cards; and the environment of what is started there."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from envsnap.integrations import site_directory
from tests.benchmarks.planted.trials import ROOT, entry_point
from tests.engine.checkout import Checkout
from tests.engine.h200.bench import NO_MULTICAST, H200Bench
from tests.engine.h200.lab import Lab
from tests.engine.h200.shapes import Load, write_models
from tests.engine.h200.tree import tree_of

CARD_BYTES = 143_771 * 2**20
"""Of a card as its driver tells, where a plan is only printed."""
SPARE_BYTES = 5e9
"""Of a card that stay free: what servers take for a moment while they start."""

TURN = Path(tempfile.gettempdir()) / "envsnap-h200.turn"
"""Held while a card is measured, since a search may go on beside blocks: starts overlap, what is measured does not."""


def free_bytes() -> list[float]:
    """Free memory of each card, in bytes. Raises: OSError, subprocess.SubprocessError, ValueError."""
    told = subprocess.run(
        ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"], capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    return [float(line) * 2**20 for line in told.stdout.split()]


class Remembered:
    """What is free, read again after some seconds: a plan asks for it many times."""

    def __init__(self, read: Callable[[], list[float]] = free_bytes, seconds: float = 20.0) -> None:
        self.read, self.seconds = read, seconds
        self._at = -math.inf
        self._found: list[float] = []

    def __call__(self) -> list[float]:
        """Bytes by card. Raises as `read` does."""
        if time.monotonic() - self._at > self.seconds:
            self._found, self._at = self.read(), time.monotonic()
        return self._found


@dataclass(frozen=True)
class Place:
    """`gpus` cards are used; `free` says what is free on each.

    `load` is that of the blocks, if one was named, `only` are their plants, by their worth.
    """

    dest: Path
    lab: Lab
    gpus: int
    python: str = sys.executable
    free: Callable[[], list[float]] = field(default_factory=Remembered)
    load: Load | None = None
    only: tuple[str, ...] = ()

    def bench(self, load: Load) -> H200Bench:
        """The bench of a load, its models written."""
        models = write_models(self.dest / "models", self.lab.folder / "models", load.shape)
        return H200Bench(self.dest, models, load, self.python)

    @property
    def engine(self) -> Path:
        """The folder of the engine's checkout."""
        return self.lab.folder / "engine"

    @cached_property
    def checkout(self) -> Checkout:
        """The engine that all servers run, at its base when it is first asked for."""
        return tree_of(self.engine, self.dest / "site" / "sglang", self.python)

    def room(self) -> list[float]:
        """Bytes that servers may take on each card."""
        try:
            free = self.free()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.lab.say(f"what is free on the cards is not known ({error}): they are taken to be empty")
            free = [float(CARD_BYTES)] * self.gpus
        return [max(bytes_ - SPARE_BYTES, 0.0) for bytes_ in free[: self.gpus]]

    @property
    def is_cold(self) -> bool:
        """Whether no server has compiled what it needs, from this checkout; not known without a kit: then it has."""
        return self._warmed.parent.is_dir() and not (
            self._warmed.exists() and self._warmed.read_text() == str(self.engine)
        )

    def warmed(self) -> None:
        """Note that one has; the note travels with what was compiled."""
        if self.is_cold:
            self._warmed.write_text(str(self.engine))

    @property
    def _warmed(self) -> Path:
        return self.dest / "cache" / "warmed-for"

    def plain(self) -> dict[str, str]:
        """This environment with envsnap to be imported, and multicast off."""
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **NO_MULTICAST}

    def served(self, load: Load, ranks: int, cards: tuple[int, ...], **more: str) -> dict[str, str]:
        """The environment of a server that records itself, on these cards."""
        usual = self.bench(load).variables(ranks, simulated=True)
        installed = self.lab.folder / "installed"
        entry_point(installed)
        paths = [site_directory(), str(installed), str(self.checkout.path), usual["PYTHONPATH"], str(ROOT)]
        return {
            **self.plain(), **usual, "PYTHONPATH": os.pathsep.join(paths), **on_cards(cards),
            "ENVSNAP_RECORD": str(self.lab.folder / "records"), **more,
        }  # fmt: skip


def on_cards(cards: tuple[int, ...]) -> dict[str, str]:
    """What makes a process see these cards alone."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, cards))}
