"""Which of the captured models a command means."""

from __future__ import annotations

import re

from envsnap.check.facts import Facts, NotApplicable
from envsnap.collectors._homes import HUB_VARIABLES
from envsnap.collectors._model_names import Named
from envsnap.keys import path_of
from envsnap.reading import Json, Unavailable


def models_at_hand(facts: Facts) -> list[Named]:
    """The model that a command serves and its draft, as far as they were looked for where it will look.

    Raises: NotApplicable.
    """
    named = [named for named in (facts.wanted.model_named, facts.wanted.draft_named) if named]
    if not named:
        raise NotApplicable("no command names a model")
    moved = next((name for name in HUB_VARIABLES if name in facts.wanted.environment), "")
    at_hand = [n for n in named if "://" not in n.model and (is_local(n.model) or not moved)]
    if not at_hand:
        raise NotApplicable(f"the command's own {moved} says where" if moved else "the engine loads it from an address")
    return at_hand


def is_local(given: str) -> bool:
    """Whether a model is surely a directory or file, and no name on the hub."""
    return given.startswith(("/", "./", "../", "~"))


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
