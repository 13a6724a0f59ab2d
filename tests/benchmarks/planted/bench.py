"""Benches: how a machine's usual server is started, and what is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.engine.environment import Engine, variables
from tests.engine.plants import CPU, Lever

THREADS = "1"
"""OMP_NUM_THREADS: two CPUs are for a rank and for the processes that talk to it, or for two ranks."""


@dataclass(frozen=True)
class Asked:
    """What the benchmark asks: prompts by seed and length in words, tokens of an answer, requests at once.

    `timeout`: seconds after which a request is given up, where the benchmark's own are too many.
    """

    seed: int = 1
    words: int = 260
    tokens: int = 96
    count: int = 7
    concurrency: int = 1
    timeout: float | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """What the benchmark is told of it, beside the prompts."""
        patience = () if self.timeout is None else ("--timeout", str(self.timeout))
        return ("--tokens", str(self.tokens), "--concurrency", str(self.concurrency), *patience)


class Bench(Protocol):
    """A machine that boards are made on. `package` is the installed engine, of which the checkout is made."""

    @property
    def name(self) -> str:
        """As in the table of plants."""

    @property
    def package(self) -> Path:
        """The engine's package."""

    def command(self, port: int, ranks: int, lever: Lever) -> list[str]:
        """The server's command under a lever."""

    def variables(self, ranks: int, simulated: bool) -> Mapping[str, str]:
        """What the shell exports; PYTHONPATH is put behind the board's own."""

    def allowed(self, command: list[str], environment: Mapping[str, str]) -> list[str]:
        """The command, if it may be started in that environment; raises where it may not."""

    def asked(self, ranks: int) -> Asked:
        """What the benchmark asks for."""


@dataclass(frozen=True)
class CpuBench:
    """SGLang on CPUs: plain decoding, where acceptance does not arise."""

    engine: Engine
    name: str = CPU
    usual: Mapping[int, Asked] = field(default_factory=lambda: {1: Asked(), 2: Asked(tokens=24)})
    """By ranks: two ranks on two cores take ten times as long for a token."""

    @property
    def package(self) -> Path:
        """The installed package."""
        return self.engine.package

    def command(self, port: int, ranks: int, lever: Lever) -> list[str]:
        """The usual command with what the lever adds."""
        return without(self.engine.command(port, ranks), lever.without) + list(lever.arguments)

    def variables(self, ranks: int, simulated: bool) -> Mapping[str, str]:
        """One thread a rank."""
        return {**variables(ranks), "OMP_NUM_THREADS": THREADS}

    def allowed(self, command: list[str], environment: Mapping[str, str]) -> list[str]:
        """Nothing of it can do harm."""
        return command

    def asked(self, ranks: int) -> Asked:
        """One request at a time."""
        return self.usual[ranks]


def without(command: list[str], options: tuple[str, ...]) -> list[str]:
    """A command without options and their values."""
    kept: list[str] = []
    leaving = False
    for word in command:
        if word.startswith("--"):
            leaving = word.partition("=")[0] in options
        if not leaving:
            kept.append(word)
    return kept
