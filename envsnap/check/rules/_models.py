"""Which of the captured models a command means."""

from __future__ import annotations

import re

from envsnap.check.facts import Facts
from envsnap.keys import path_of
from envsnap.reading import Json, Unavailable


def instance_of(facts: Facts, given: str, revision: str = "") -> str | None:
    """The name by which a model stands in the snapshot, if it can in the revision; None where it does not."""
    plain = given.rstrip("/") or given
    places = {name: str(place) for (name,), _, place in facts.each("model[].path")}
    commits = {name: str(commit) for (name,), _, commit in facts.each("model[].revision")}
    # NOTE: a command may name a directory from where it stands.
    below = "/" + re.sub(r"^(\.{0,2}/|~/)+", "", plain)
    named = [
        name
        for name, place in places.items()
        if plain in (name, place) or name.startswith(f"{plain}@") or (plain[:1] != "/" and place.endswith(below))
    ]
    exact = [n for n in named if revision and (n == f"{plain}@{revision}" or commits.get(n, "").startswith(revision))]
    return next(iter((*exact, *named)), None)


def is_missing(facts: Facts, given: str, revision: str) -> bool:
    """Whether a model is not there, or not in the revision that is asked for."""
    pinned = facts.reading(path_of("model[].path", f"{given}@{revision}")) if revision else None
    return isinstance(pinned, Unavailable) or instance_of(facts, given, revision) is None


def config_of(facts: Facts, given: str, revision: str = "") -> tuple[str, dict[str, Json] | None]:
    """Path and content of a model's configuration; None where it was not read."""
    name = instance_of(facts, given, revision) if given else None
    path = path_of("model[].config", name or given or "x")
    config = facts.value(path)
    return path, config if isinstance(config, dict) else None
