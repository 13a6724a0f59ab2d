"""Recipe: what a run was asked for beside its commands, so that it can be asked for again, without its secrets."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envsnap.reading import Json
from envsnap.redact import HASH, Redactor
from envsnap.runs.plan import READY_SECONDS, Plan

if TYPE_CHECKING:
    from envsnap.runs.run import Run

MISSING_SECRET = "<a secret that was not kept: put it here>"
"""Stands in a command where the run's own had a secret; the hash that is kept of it would be of no use there."""

_BENCHMARK = ("BENCHMARK",)


@dataclass(frozen=True)
class Recipe:
    """What was asked for beside the two commands.

    `ready` is the address that told when the server was ready, `server_url` that of a server which was up already.
    `files` and `output` are what figures were read from, `patterns` by what, each as `--metric` takes it. `folder` is
    where the commands were started.
    """

    ready: str = ""
    ready_seconds: float = READY_SECONDS
    server_url: str = ""
    keep_server: bool = False
    files: tuple[str, ...] = ()
    output: bool = False
    patterns: tuple[str, ...] = ()
    prompts: str = ""
    folder: str = ""

    @classmethod
    def of_plan(cls, plan: Plan, redactor: Redactor) -> Recipe:
        """The recipe of a plan that is about to be carried out here."""
        clean = redactor.clean_text
        return cls(
            ready=clean(plan.ready),
            ready_seconds=plan.ready_seconds,
            server_url=clean(plan.server_url),
            keep_server=plan.keep_server,
            files=tuple(map(clean, plan.metrics.files)),
            output=plan.metrics.output,
            patterns=tuple(clean(str(pattern)) for pattern in plan.metrics.patterns),
            prompts=clean(plan.prompts),
            folder=clean(str(Path.cwd())),
        )

    def as_json(self) -> dict[str, Json]:
        """The recipe's JSON form."""
        return {
            "ready": self.ready,
            "ready_seconds": self.ready_seconds,
            "server_url": self.server_url,
            "keep_server": self.keep_server,
            "files": list(self.files),
            "output": self.output,
            "patterns": list(self.patterns),
            "prompts": self.prompts,
            "folder": self.folder,
        }

    @classmethod
    def from_json(cls, data: Json) -> Recipe:
        """Raises: KeyError, TypeError, ValueError for a malformed one."""
        return cls(
            str(data["ready"]),
            float(data["ready_seconds"]),
            str(data["server_url"]),
            bool(data["keep_server"]),
            tuple(map(str, data["files"])),
            bool(data["output"]),
            tuple(map(str, data["patterns"])),
            str(data["prompts"]),
            str(data["folder"]),
        )


def prove_command(run: Run, fast: str, slow: str, only: Sequence[str] = (), store: str = "") -> tuple[str, ...]:
    """`envsnap prove FAST SLOW …` with all that a run tells of how it was measured, as an argument array.

    `only` are ids of suspects, `store` is the folder that holds `.envsnap` where it is not the working directory.
    `shlex.join` makes it a line to paste. Where a secret stood, MISSING_SECRET says so.
    """
    chosen = _options("--only", only)
    return ("envsnap", "prove", fast, slow, *chosen, *_options("--store", store and [store]), *how(run))


def how(run: Run) -> tuple[str, ...]:
    """The end of a command that measures as `run` was measured: server, ready address, metrics, and the benchmark."""
    recipe = run.recipe or Recipe()
    words = [
        *_options("--server", run.server and [shlex.join(_without_hashes(run.server))]),
        *_options("--ready", run.server and recipe.ready and [recipe.ready]),
        *_options("--ready-timeout", _timeout(recipe) if run.server else ()),
        *_options("--metrics", recipe.files),
        *_options("--metrics", ["-"] if recipe.output else ()),
        *_options("--metric", recipe.patterns),
        "--",
        *(run.command or _BENCHMARK),
    ]
    return tuple(_without_hashes(words))


def _options(name: str, values: Iterable[str]) -> Iterator[str]:
    for value in values:
        # NOTE: what begins with a dash would be taken for an option of its own.
        yield from (f"{name}={value}",) if value.startswith("-") and value != "-" else (name, value)


def _timeout(recipe: Recipe) -> tuple[str, ...]:
    return () if recipe.ready_seconds == READY_SECONDS else (f"{recipe.ready_seconds:g}",)


def _without_hashes(words: Iterable[str]) -> list[str]:
    return [HASH.sub(MISSING_SECRET, word) for word in words]
