"""Which of the captured models a command means."""

from __future__ import annotations

import re

from envsnap.check.facts import Facts, NotApplicable
from envsnap.collectors._homes import HUB_VARIABLES
from envsnap.collectors._model_names import Named
from envsnap.keys import path_of
from envsnap.reading import Json, Unavailable, Why


def models_at_hand(facts: Facts) -> list[Named]:
    """The model that a command serves and its draft, as far as they were looked for where it will look.

    Raises: NotApplicable.
    """
    named = [named for named in (facts.wanted.model_named, facts.wanted.draft_named) if named]
    if not named:
        raise NotApplicable("no command names a model")
    at_hand = [n for n in named if not _elsewhere(facts, n)]
    if not at_hand:
        raise NotApplicable(f"{named[0].model}: {_elsewhere(facts, named[0])}")
    return at_hand


def _elsewhere(facts: Facts, named: Named) -> str:
    """Why nobody has looked where the command will look; empty where somebody has."""
    moved = next((name for name in HUB_VARIABLES if name in facts.wanted.environment), "")
    if moved and not is_local(named.model):
        return f"the command's own {moved} says where it is"
    reading = facts.reading(path_of("model[].path", named.typed))
    return reading.detail if isinstance(reading, Unavailable) and reading.why is not Why.ABSENT else ""


def is_local(given: str) -> bool:
    """Whether a model is surely a directory or file, and no name on the hub."""
    return given.startswith(("/", "./", "../", "~"))


def instance_of(facts: Facts, named: Named) -> str | None:
    """The name by which a model stands in the snapshot, in the revision that is asked for if any is; None: it does not.

    Where only another revision was recorded it is that one.
    """
    plain = named.model.rstrip("/") or named.model
    places = {name: str(place) for (name,), _, place in facts.each("model[].path")}
    commits = {name: str(commit) for (name,), _, commit in facts.each("model[].revision")}
    # NOTE: a command may name a directory from where it stands.
    below = "/" + re.sub(r"^(\.{0,2}/|~/)+", "", plain)
    found = [
        name
        for name, place in places.items()
        if plain in (name, place) or name.startswith(f"{plain}@") or (plain[:1] != "/" and place.endswith(below))
    ]
    asked = named.revision
    exact = [n for n in found if asked and (n == f"{plain}@{asked}" or commits.get(n, "").startswith(asked))]
    return next(iter((*exact, *found)), None)


def is_missing(facts: Facts, named: Named) -> bool:
    """Whether a model is not there, or not in the revision that is asked for."""
    pinned = facts.reading(path_of("model[].path", named.typed))
    return isinstance(pinned, Unavailable) or instance_of(facts, named) is None


def config_of(facts: Facts, named: Named) -> tuple[str, dict[str, Json] | None]:
    """Path and content of a model's configuration; None where it was not read."""
    path = path_of("model[].config", instance_of(facts, named) or named.model)
    config = facts.value(path)
    return path, config if isinstance(config, dict) else None
