"""The same prompts become another number of tokens.

Tokenizers, their files and the template language decide how many tokens a text is: another release of the library, or
another template, makes longer prompts of the same questions. Prefill, the room in the cache and the time to the first
token follow; what is easily drafted changes too. The benchmark's or the server's count of prompt tokens shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log

from envsnap.explain.explanation import Evidence
from envsnap.explain.stories._look import package_changes, prompt_tokens
from envsnap.explain.story import Clue, Finding, Together, View
from envsnap.explain.weights import FAIR, STRONG, WEAK
from envsnap.keys import Effect, instances_of

CODE = "prompt_tokens"
NEEDS = ("package[].version", "conda[].version", "model[].file[].sha256", "model[].chat_template_sha256")

_TOKENIZERS = ("tokenizers", "tiktoken", "sentencepiece", "mistral-common", "openai-harmony", "blobfile")
_TEMPLATES = ("jinja2", "minijinja", "transformers")
_FILES = ("model[*].file[*token*].sha256", "model[*].file[vocab*].sha256", "model[*].file[merges.txt].sha256",
          "model[*].file[chat_template*].sha256", "model[].chat_template_sha256")  # fmt: skip
_COUNTED = ("total_input_tokens", "completed")
_SAME = 0.01
"""A logarithm of two counts up to which they are the same: a prompt more or less."""


def tell(view: View) -> Iterator[Finding]:
    """Yield what makes other tokens of the same prompts, with their count where that is known."""
    changed = [*package_changes(view, *_TOKENIZERS, *_TEMPLATES), *view.changed(*_FILES)]
    asked = [c for c in view.changes if c.path.startswith("request[")]
    if not changed or any(instances_of(c.path)[0] not in _COUNTED for c in asked):
        return
    then, now = (prompt_tokens(facts) for facts in view.sides)
    slower = view.symptom.moving
    if then is None or now is None:
        if slower & {"prefill", "acceptance"}:
            yield Clue("It decides how prompts become tokens, and how many.", WEAK, tuple(changed))
    elif abs(log(now / then)) <= _SAME:
        alone = [c for c in changed if "transformers" not in c.path]
        if alone:
            yield Clue(f"Prompts have as many tokens as before ({now:.0f} each).", -FAIR, tuple(alone))
    else:
        weight = STRONG if now > then and "prefill" in slower else FAIR
        yield Together(
            f"the same prompts are {now:.0f} tokens each, not {then:.0f}",
            "Prefill computes, and the cache holds, what the tokenizer and the template make of a prompt.",
            (*changed, *view.changed("during.server.prompt_tokens_count"), *asked),
            (Effect.PREFILL, Effect.WORKLOAD, Effect.ACCEPTANCE, Effect.MEMORY),
            (Evidence("What makes tokens of prompts changed, and how many a prompt has.", weight),),
            prior=0.5,
        )
