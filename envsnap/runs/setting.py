"""What the repetitions of a session share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envsnap.host import Host
from envsnap.reading import Json
from envsnap.redact import Redactor
from envsnap.runs.plan import Plan, Say
from envsnap.runs.recipe import Recipe
from envsnap.runs.supervise import Signals


@dataclass(frozen=True)
class Setting:
    """What the repetitions of a session share.

    `base` is the server's address and `listener` the process that serves there already, where these are known;
    `asked` is what is known of the request before anything runs, `recipe` what it takes to ask for the same again.
    """

    plan: Plan
    group: str
    folder: Path
    say: Say
    signals: Signals
    new_host: Callable[[], Host]
    redactor: Redactor
    recipe: Recipe
    base: str = ""
    listener: int | None = None
    asked: Mapping[str, Json] = field(default_factory=dict)
