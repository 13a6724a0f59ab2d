"""Which of the captured models a command means."""

from __future__ import annotations

import posixpath

from envsnap.check.facts import Facts
from envsnap.keys import path_of
from envsnap.reading import Json


def instance_of(facts: Facts, given: str) -> str | None:
    """The name by which a model stands in the snapshot; None where it does not."""
    by_path = {str(path): name for (name,), _, path in facts.each("model[].path")}
    plain = given.rstrip("/")
    known = set(by_path.values())
    return by_path.get(plain) or next((n for n in (given, plain, posixpath.basename(plain)) if n in known), None)


def config_of(facts: Facts, given: str) -> tuple[str, dict[str, Json] | None]:
    """Path and content of a model's configuration; None where it was not read."""
    name = instance_of(facts, given) if given else None
    path = path_of("model[].config", name or given or "x")
    config = facts.value(path)
    return path, config if isinstance(config, dict) else None
