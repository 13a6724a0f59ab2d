"""Draft and target no longer belong together.

A draft head is trained for one target: its weights, tokenizer, hidden size, precision and chat template. When one
of the two moves (a new revision, a requantized target, another vocabulary) and the other stays, less of what is
drafted is accepted, and nothing fails. It shows in the accept length, not in the time of a step.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.explanation import Mistake
from envsnap.explain.stories._look import argument_changes, same_on_both
from envsnap.explain.stories._models import draft_name, draft_of, target_names
from envsnap.explain.story import Clue, Facts, Finding, View
from envsnap.explain.weights import FAIR, WEAK
from envsnap.keys import instances_of, path_of, pattern_of
from envsnap.reading import Json

CODE = "draft_out_of_step"
NEEDS = ("model[].revision", "model[].config", "model[].weights")

_WHAT = ("model[].revision", "model[].config", "model[].weights", "model[].weights_bytes", "model[].quantization",
         "model[].index_sha256", "model[].file[].sha256")  # fmt: skip
_PRECISION = (
    "quantization*",
    "dtype",
    "kv_cache_dtype",
    "speculative_draft_model_quantization",
    "*draft_kv_cache_dtype",
)
_BESIDE = ("chat_template", "generation_config", "tokenizer_config", "special_tokens", ".md", ".txt", "preprocessor")
"""Parts of the names of files that stand beside a model and compute nothing."""
_SAME = ("hidden_size", "vocab_size")


def tell(view: View) -> Iterator[Finding]:
    """Yield one of the two that moved without the other."""
    if view.setting.speculative is False:
        return
    draft = draft_name(view.slow, view.settings[1])
    moved = [c for c in view.changed(*_WHAT) if _is_another_model(c, view)]
    of_draft = [c for c in moved if draft and instances_of(c.path)[0] == draft]
    of_target = [c for c in moved if instances_of(c.path)[0] in target_names(view.slow, view.settings[1])]
    accepted = view.symptom.moved("accept_length")
    weight = FAIR if accepted else WEAK if accepted is None else 0.0
    if draft and of_target and not of_draft:
        yield Clue("The target changed and its draft did not: it was made for another one.", weight, tuple(of_target))
    elif of_draft and not of_target:
        yield Clue("The draft changed and its target did not.", weight, tuple(of_draft))
    precision: list[Change] = argument_changes(view, *_PRECISION)
    if precision and accepted:
        yield Clue("Another precision of target or draft: what is drafted is accepted less.", FAIR, tuple(precision))
    yield from _mismatch(view)


def _is_another_model(change: Change, view: View) -> bool:
    """Whether a change says that what computes is another: no file beside it, and no revision of the same weights."""
    key, (name, *rest) = pattern_of(change.path), instances_of(change.path)
    if rest and any(word in rest[0] for word in _BESIDE):
        return False
    weights = (path_of("model[].index_sha256", name), path_of("model[].weights", name))
    return key != "model[].revision" or not any(same_on_both(view, path) for path in weights)


def _mismatch(view: View) -> Iterator[Finding]:
    """Sizes that cannot fit, on both sides."""
    wrong = [_sizes(view.sides[side], view, side) for side in (0, 1)]
    if wrong[0] and wrong[1]:
        draft = draft_name(view.slow, view.settings[1])
        yield Mistake(
            f"Draft and target do not fit together: {wrong[1]}",
            "Use the draft that was made for the target.",
            (path_of("model[].config", draft),),
        )


def _sizes(facts: Facts, view: View, side: int) -> str:
    draft = draft_of(facts, view.settings[side])
    targets = target_names(facts, view.settings[side])
    if draft is None or len(targets) != 1:
        return ""
    target = facts.get(path_of("model[].config", targets[0]))
    if not isinstance(target, dict):
        return ""
    text = target.get("text_config")
    inner: dict[str, Json] = text if isinstance(text, dict) else target
    name = next((n for n in _SAME if n in draft and n in inner and draft[n] != inner[n] and _counts(n, draft)), "")
    return f"{name} {draft[name]} and {inner[name]}" if name else ""


def _counts(name: str, draft: dict[str, Json]) -> bool:
    """A head with its own vocabulary or a projection may have other sizes."""
    return not (name == "vocab_size" and "draft_vocab_size" in draft) and "target_hidden_size" not in draft
