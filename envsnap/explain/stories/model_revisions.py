"""Files of one model are of several revisions.

A pinned revision may apply to the configuration and not to weights, tokenizer or remote code; an interrupted
download leaves files of two commits. The model then differs from the one that was measured, though its name is the
same.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.stories._look import argument_changes
from envsnap.explain.story import Clue, Finding, View
from envsnap.explain.weights import FAIR, WEAK
from envsnap.keys import instances_of

CODE = "model_revisions"
NEEDS = ("model[].revision", "model[].weights", "model[].index_sha256")

_WEIGHTS = ("model[].weights", "model[].weights_bytes", "model[].index_sha256")
_OTHERS = ("model[].revision", "model[].config", "model[].file[].sha256", "model[].quantization")


def tell(view: View) -> Iterator[Finding]:
    """Yield models of which a part moved."""
    weights = {instances_of(c.path)[0]: c for c in view.changed(*_WEIGHTS)}
    others = {instances_of(c.path)[0]: c for c in view.changed(*_OTHERS)}
    asked = argument_changes(view, "revision", "*_revision")
    for name in sorted(weights.keys() | others.keys()):
        held = [c for c in view.changed(*_WEIGHTS, *_OTHERS) if instances_of(c.path)[0] == name]
        revised = any(c.path.endswith(".revision") for c in held)
        if (
            name in weights
            and not revised
            and name in {instances_of(p)[0] for p in view.slow.values("model[].revision")}
        ):
            yield Clue(
                f"The weights of {name} are others, and its revision is the same: files of two revisions, or an "
                "interrupted download.",
                FAIR,
                tuple(held),
            )
        elif revised and name not in weights and name in others:
            beside = any(not c.path.endswith(".revision") for c in held)
            yield Clue(
                f"{name} is of another revision with the same weights: what changed is beside them.",
                WEAK if beside else -FAIR,
                (*held, *asked),
            )
