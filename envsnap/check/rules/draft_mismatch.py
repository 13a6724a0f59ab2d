"""The draft model does not belong to the model, or the algorithm does not belong to the draft.

An EAGLE-3 head under EAGLE runs without an error, and every draft is rejected: slower than no speculation. A draft of
another vocabulary or width was trained for another model. Fix: `--speculative-algorithm EAGLE3` for a head whose
architecture says Eagle3; the head that was trained for this model.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, NotApplicable, Problem
from envsnap.check.rules._models import config_of
from envsnap.reading import Json

CODE = "draft_mismatch"
SEVERITY = ERROR
NEEDS = ("model[].config",)
USES = ("model[].path", "model[].revision")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    wanted = facts.wanted
    if not wanted.algorithm:
        raise NotApplicable("no command asks for speculative decoding")
    if not wanted.draft_named:
        raise NotApplicable(f"{wanted.algorithm} here needs no draft model")
    path, draft = config_of(facts, wanted.draft_named)
    if draft is None:
        raise NotApplicable(f"the configuration of {wanted.draft} is not on this disk")
    architectures = draft.get("architectures")
    names = [str(name) for name in architectures] if isinstance(architectures, list) else []
    eagle3 = any("eagle3" in name.lower().replace("-", "").replace("_", "") for name in names)
    if eagle3 and wanted.algorithm in ("EAGLE", "EAGLE2", "NEXTN"):
        yield Problem(f"the draft {wanted.draft} is an EAGLE-3 head ({names[0]}), under {wanted.algorithm}", (path,),
                      "--speculative-algorithm EAGLE3")  # fmt: skip
    if wanted.algorithm == "EAGLE3" and names and not eagle3 and "eagle" not in " ".join(names).lower():
        yield Problem(f"the draft {wanted.draft} does not call itself an EAGLE-3 head ({names[0]})", (path,),
                      severity=WARNING)  # fmt: skip
    _, model = config_of(facts, wanted.model_named) if wanted.model_named else ("", None)
    if model is not None:
        yield from _sizes(wanted.draft, draft, model, path)


def _sizes(name: str, draft: dict[str, Json], model: dict[str, Json], path: str) -> Iterable[Problem]:
    inner = model.get("text_config") if isinstance(model.get("text_config"), dict) else {}
    for field, words in (("vocab_size", "vocabulary"), ("hidden_size", "width")):
        own, others = draft.get(field), model.get(field, (inner or {}).get(field))
        if field == "hidden_size":  # an EAGLE-3 head can have a width of its own, and then names the model's
            own = draft.get("target_hidden_size", own)
        if isinstance(own, int) and isinstance(others, int) and own != others:
            yield Problem(f"the draft {name} is for a {words} of {own:,}, the model has {others:,}", (path,))
