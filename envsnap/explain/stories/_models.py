"""Of the recorded models: which is the draft, which is served, and whether one has experts."""

from __future__ import annotations

import posixpath
import re

from envsnap.explain.setting import Setting
from envsnap.explain.story import Facts
from envsnap.keys import instances_of, path_of
from envsnap.reading import Json

_EXPERTS = re.compile(r"expert|moe", re.IGNORECASE)
_DRAFT = re.compile(r"eagle|medusa|mtp|nextn|draft|speculator", re.IGNORECASE)


def draft_name(facts: Facts, setting: Setting) -> str:
    """The instance under which the draft is recorded; empty where none is."""
    arguments = setting.arguments
    given = str(arguments.get("speculative_draft_model_path") or arguments.get("speculative_config.model") or "")
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


def is_moe(facts: Facts) -> bool:
    """Whether a recorded model is a mixture of experts, by its configuration."""
    return any(map(_has_experts, facts.values("model[].config").values()))


def is_dense(facts: Facts, setting: Setting) -> bool:
    """Whether what is served is known to have no experts: it is recorded, or nothing else can be it."""
    given = [setting.arguments.get(name) for name in ("model_path", "model", "model_config.model")]
    asked = next((str(value).rstrip("/") for value in given if value), "")
    others = target_names(facts, setting)
    served = [n for n in others if asked in (n, facts.get(path_of("model[].path", n)))] if asked else others
    if len(served) != 1:
        return False
    config = facts.get(path_of("model[].config", served[0]))
    return isinstance(config, dict) and not _has_experts(config)


def _has_experts(config: Json) -> bool:
    """Whether a size of experts stands in it, or in the part that is the language model's (`text_config`)."""
    parts = config.items() if isinstance(config, dict) else ()
    return any(
        _has_experts(value) if isinstance(value, dict) else bool(_EXPERTS.search(name)) and _counts(value)
        for name, value in parts
    )


def _counts(value: Json) -> bool:
    """Whether it says that there is something: a size, a list of layers."""
    return bool(value) and (not isinstance(value, (int, float)) or value > 1)
