"""Prompts are formatted otherwise: the chat template changed, is gone, or is not applied.

Raw or random prompts make a model repeat itself, and repetition is easily drafted: accept lengths of 3.9 became 1.9
with the template. The same model, draft and steps then run half as fast, with nothing wrong anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.explain.stories._look import argument_changes
from envsnap.explain.story import Clue, Finding, View, after
from envsnap.explain.weights import FAIR, STRONG, WEAK

CODE = "chat_template"
NEEDS = ("model[].chat_template_sha256", "server[].argument[]")

_ASKED = ("apply_chat_template", "chat_template", "backend", "endpoint", "dataset_name", "dataset_path", "prompt")


def tell(view: View) -> Iterator[Finding]:
    """Yield another format of prompts."""
    accepted = view.symptom.moved("accept_length")
    files = view.changed("model[].chat_template_sha256", "model[].file[chat_template.jinja].sha256")
    typed = argument_changes(view, "chat_template", "hf_chat_template_name", "completion_template")
    asked = [c for c in view.changes if c.path.startswith("request[") and any(f"[{n}" in c.path for n in _ASKED)]
    if files or typed:
        gone = any(after(c) is None for c in files)
        text = "The chat template is gone" if gone else "Another chat template makes other prompts"
        weight = (STRONG if gone else FAIR) if accepted else WEAK if accepted is None else 0.0
        yield Clue(f"{text}: what is easily drafted changes with it.", weight, (*files, *typed))
    if asked and accepted:
        yield Clue("The benchmark formats or chooses its prompts otherwise, and acceptance moved.", FAIR, tuple(asked))
