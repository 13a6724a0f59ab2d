"""Sampling defaults come from the model's files.

Where a request says nothing of temperature and the like, engines apply what generation_config.json brings along, or
do not, by an argument. Another default means other text, other acceptance, and slower sampling kernels (penalties,
top-p).
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.stories._look import argument_changes
from envsnap.explain.story import Clue, Finding, View, after, before
from envsnap.explain.weights import FAIR, WEAK

CODE = "sampling_defaults"
NEEDS = ("model[].generation_config", "server[].argument[]", "worker[].argv")

_LITTLE = 0.15
"""Difference of temperatures that changes little of what is accepted."""
_ARGUMENTS = ("generation_config", "override_generation_config", "sampling_defaults", "preferred_sampling_params")


def tell(view: View) -> Iterator[Finding]:
    """Yield defaults that changed."""
    files = view.changed("model[].generation_config")
    before_decoding = view.symptom.moving == {"prefill"}
    arguments = argument_changes(view, *_ARGUMENTS)
    if arguments:
        takes = any(str(after(c)) in ("auto", "model") for c in arguments)
        text = "The engine now takes sampling defaults from the model's files" if takes else "Other sampling defaults"
        weight = 0.0 if before_decoding else WEAK
        yield Clue(f"{text}: requests that say nothing are sampled otherwise.", weight, (*arguments, *files))
    elif files and view.symptom.moved("accept_length") is not False:
        little = before_decoding or all(_differs_little(c) for c in files)
        weight = 0.0 if little else FAIR if view.symptom.moved("accept_length") else WEAK
        yield Clue(
            "The model's own sampling defaults changed, which apply where a request says nothing.", weight, tuple(files)
        )


def _differs_little(change: Change) -> bool:
    """Whether a temperature alone moved, and by little."""
    then, now = before(change), after(change)
    if not (isinstance(then, dict) and isinstance(now, dict)):
        return False
    moved = {name for name in {*then, *now} if then.get(name) != now.get(name)}
    one, two = then.get("temperature"), now.get("temperature")
    near = isinstance(one, (int, float)) and isinstance(two, (int, float)) and abs(two - one) < _LITTLE
    return moved == {"temperature"} and near
