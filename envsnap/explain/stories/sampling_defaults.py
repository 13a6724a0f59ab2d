"""Sampling defaults come from the model's files.

Where a request says nothing of temperature and the like, engines apply what generation_config.json brings along, or
do not, by an argument. Another default means other text, other acceptance, and slower sampling kernels (penalties,
top-p).
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.stories._look import argument_changes
from envsnap.explain.story import Clue, Finding, View, after
from envsnap.explain.weights import FAIR

CODE = "sampling_defaults"
NEEDS = ("model[].generation_config", "server[].argument[]", "worker[].argv")

_ARGUMENTS = ("generation_config", "override_generation_config", "sampling_defaults", "preferred_sampling_params")


def tell(view: View) -> Iterator[Finding]:
    """Yield defaults that changed."""
    files = view.changed("model[].generation_config")
    arguments = argument_changes(view, *_ARGUMENTS)
    if arguments:
        takes = any(str(after(c)) in ("auto", "model") for c in arguments)
        text = "The engine now takes sampling defaults from the model's files" if takes else "Other sampling defaults"
        yield Clue(f"{text}: requests that say nothing are sampled otherwise.", FAIR, (*arguments, *files))
    elif files and view.symptom.moved("accept_length") is not False:
        yield Clue(
            "The model's own sampling defaults changed, which apply where a request says nothing.", FAIR, tuple(files)
        )
