"""An EAGLE-3 draft head under the algorithm EAGLE.

The projection that an EAGLE-3 head needs is then skipped without an error: nothing of the draft is accepted, the
accept length is exactly 1.00, and speculation is slower than none. The draft's configuration says which head it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.explanation import Mistake
from envsnap.explain.stories._look import argument, argument_changes, numbers
from envsnap.explain.stories._models import draft_of
from envsnap.explain.story import Clue, Finding, View
from envsnap.explain.weights import FAIR, STRONG
from envsnap.reading import Json

CODE = "eagle_head"
NEEDS = ("model[].config", "server[].dp[].accept_length")

_EXACTLY = 1.02


def tell(view: View) -> Iterator[Finding]:
    """Yield a head that does not fit its algorithm."""
    wrong = [_does_not_fit(view, side) for side in (0, 1)]
    lengths = list(numbers(view.slow, "server[].dp[].accept_length").values())
    lengths += [view.symptom.figures["accept_length"][1]] if "accept_length" in view.symptom.figures else []
    nothing = bool(lengths) and max(lengths) <= _EXACTLY
    changes = [*argument_changes(view, "speculative_*", "spec_*"), *view.changed("model[].config", "model[].revision")]
    if wrong[1] and not wrong[0] and changes:
        text = f"{wrong[1]}: its projection is skipped, and nothing it drafts is accepted"
        yield Clue(f"{text}{'; the accept length is 1.00' if nothing else ''}.", STRONG, tuple(changes))
    elif wrong[1] and wrong[0]:
        yield Mistake(
            f"{wrong[1]}", "Use --speculative-algorithm EAGLE3.", ("server[0].argument[speculative_algorithm]",)
        )
    elif nothing and view.symptom.moved("accept_length") and changes:
        yield Clue(
            "Not one drafted token is accepted: the draft, its head or its precision does not fit.",
            FAIR,
            tuple(changes),
        )


def _does_not_fit(view: View, side: int) -> str:
    """In words, where an EAGLE-3 head runs under another algorithm; empty where not, or not known."""
    algorithm = str(argument(view.settings[side], "speculative_algorithm") or "").upper()
    config = draft_of(view.sides[side], view.settings[side])
    if algorithm in ("EAGLE", "NEXTN") and config is not None and _is_eagle3(config):
        return f"The draft is an EAGLE-3 head, and the algorithm is {algorithm}"
    if algorithm == "EAGLE3" and config is not None and _is_eagle2(config):
        return "The draft is a head of EAGLE, and the algorithm is EAGLE3"
    return ""


def _is_eagle3(config: dict[str, Json]) -> bool:
    names = " ".join(map(str, config.get("architectures") or ())).lower()
    return "eagle3" in names or "draft_vocab_size" in config or "eagle_config" in config


def _is_eagle2(config: dict[str, Json]) -> bool:
    names = " ".join(map(str, config.get("architectures") or ())).lower()
    return "eagle" in names and "eagle3" not in names and "draft_vocab_size" not in config
