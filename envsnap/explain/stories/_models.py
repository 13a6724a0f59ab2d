"""Which of the recorded models is the draft, and which the one that is served."""

from __future__ import annotations

import posixpath
import re

from envsnap.explain.setting import Setting
from envsnap.explain.story import Facts
from envsnap.keys import instances_of, path_of
from envsnap.reading import Json

_DRAFT = re.compile(r"eagle|medusa|mtp|nextn|draft|speculator", re.IGNORECASE)


def draft_name(facts: Facts, setting: Setting) -> str:
    """The instance under which the draft is recorded; empty where none is."""
    given = str(setting.arguments.get("speculative_draft_model_path") or "")
    names = [instances_of(path)[0] for path in facts.values("model[].config")]
    for name in names:
        place = str(facts.get(path_of("model[].path", name)) or "")
        if given and (given in (name, place) or posixpath.basename(given) in (name, posixpath.basename(place))):
            return name
    for name in names:
        config = facts.get(path_of("model[].config", name))
        architectures = config.get("architectures") if isinstance(config, dict) else None
        if _DRAFT.search(f"{name} {architectures or ''}"):
            return name
    return ""


def draft_of(facts: Facts, setting: Setting) -> dict[str, Json] | None:
    """The draft's configuration; None where it is not recorded."""
    name = draft_name(facts, setting)
    config = facts.get(path_of("model[].config", name)) if name else None
    return config if isinstance(config, dict) else None


def target_names(facts: Facts, setting: Setting) -> list[str]:
    """The instances of the other models."""
    draft = draft_name(facts, setting)
    return [name for path in facts.values("model[].config") if (name := instances_of(path)[0]) != draft]
