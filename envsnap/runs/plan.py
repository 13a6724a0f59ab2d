"""What a session is to do: the benchmark, its server, the arms, and where its figures come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from envsnap.runs.sampler import INTERVAL_SECONDS
from envsnap.runs.sources import Wanted
from envsnap.scope import Scope

READY_SECONDS = 600.0


class SessionError(Exception):
    """The session cannot begin; the message is one sentence, and nothing was started."""


class Say(Protocol):
    """How a session tells what it does. What is `passing` may be overwritten by the next, and left out of a log."""

    def __call__(self, text: str, passing: bool = False) -> None:
        """Say it."""


@dataclass(frozen=True)
class Arm:
    """One side of a comparison: what is added to the environment and to the commands' arguments. `name` is a or b."""

    name: str = ""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    """None removes a variable."""
    server_arguments: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What to run, how often, and where its figures come from.

    `server` is started for each repetition, `ready` is an address that answers 200 when it is ready; or a server is up
    already at `server_url`. `metrics` are as in `sources.read`. With two `arms` each repetition runs both, in random
    order by `seed`. `record` lets workers write a record of their own. `prompts` is a file whose content is part of
    what was asked. `probe` is how many fixed prompts are put to the server before the measurement, to see what it
    answers. `aside` sends the benchmark's standard output to standard error. `scope.servers` is not used.
    """

    benchmark: tuple[str, ...]
    server: tuple[str, ...] = ()
    ready: str = ""
    ready_seconds: float = READY_SECONDS
    server_url: str = ""
    repeats: int = 1
    keep_server: bool = False
    label: str = ""
    arms: tuple[Arm, ...] = (Arm(),)
    metrics: Wanted = field(default_factory=Wanted)
    prompts: str = ""
    probe: int = 0
    record: bool = True
    seed: int | None = None
    scope: Scope = field(default_factory=Scope)
    interval: float = INTERVAL_SECONDS
    aside: bool = False
