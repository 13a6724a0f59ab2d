"""The models that a command line names, of SGLang and vLLM."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from envsnap.reading import Json

REVISIONS = {
    "--model-path": ("--revision",),
    "--model": ("--revision",),
    "serve": ("--revision",),
    "--speculative-draft-model-path": ("--speculative-draft-model-revision",),
    "--speculative-draft-model": ("--speculative-draft-model-revision",),
    "--speculative-model": (),
    "--speculative-config.model": ("--speculative-config.revision",),
    "--tokenizer-path": ("--revision",),
    "--tokenizer": ("--tokenizer-revision", "--revision"),
}
"""Options that name a model -> those that say which of its revisions, the first that is given. `serve` stands before
vLLM's model."""
_NOT_MODELS = ("ngram", "[ngram]", "suffix")
"""What vLLM takes for a draft model where it drafts without one."""
_JSON_OPTIONS = {"--speculative-config", "-sc"}
_ENGINE = re.compile(r"(^|[/.])(vllm|sglang)(\.|\Z)")


class Named(NamedTuple):
    """A directory, a file or a name on the hub, the option that names it, and its revision: a branch, tag or commit.

    Without a revision main is meant; what is no name on the hub has none.
    """

    option: str
    model: str
    revision: str = ""

    @property
    def typed(self) -> str:
        """NAME@REVISION, or NAME where no revision is asked for."""
        return f"{self.model}@{self.revision}" if self.revision else self.model

    @property
    def what(self) -> str:
        """What of a server it is: `model`, `draft` or `tokenizer`."""
        if "speculative" in self.option or self.option in _JSON_OPTIONS:
            return "draft"
        return "tokenizer" if "tokenizer" in self.option else "model"


def named_in(argv: Sequence[str]) -> list[Named]:
    """The models that a command line names, in order.

    Knows the options of SGLang and vLLM in both their spellings, `serve MODEL`, and vLLM's speculative JSON.
    """
    # NOTE: of several values of one option the last counts.
    words = {option: value for option, value in _words(argv) if _is_value(value)}
    named = []
    for option, value in words.items():
        if option in REVISIONS:
            revision = next((words[asked] for asked in REVISIONS[option] if asked in words), "")
            found = Named(option, value, revision)
        elif option in _JSON_OPTIONS:
            found = _speculative(option, value)
        else:
            continue
        if _is_value(found.model) and found.model not in _NOT_MODELS:
            named.append(found)
    return named


def _words(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options with their values, and vLLM's `serve`."""
    for i, argument in enumerate(argv):
        option, given, value = argument.partition("=")
        following = argv[i + 1] if i + 1 < len(argv) else ""
        if option.startswith("-"):
            yield option.replace("_", "-"), value if given else following
        elif argument == "serve" and i and _ENGINE.search(argv[i - 1]):
            yield argument, following


def _is_value(text: str) -> bool:
    return bool(text) and not text.startswith("-")


def _speculative(option: str, text: str) -> Named:
    try:
        said: Json = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    asked = said if isinstance(said, dict) else {}
    model, revision = asked.get("model"), asked.get("revision")
    return Named(option, model if isinstance(model, str) else "", revision if isinstance(revision, str) else "")
