"""A variable is set that nothing reads: misspelt, or of another version.

NCCL, SGLang and vLLM ignore what they do not know, without a word, so that a tuning looks active and is not. Their
names are compared with the installed version's own list, NCCL's with that of a recent version; of CUDA and torch only
what is nearly one of their names counts. Fix: correct the name.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem

CODE = "unknown_variables"
SEVERITY = WARNING
NEEDS = ("env_names.unknown[]",)
USES = ("env_names.checked[]",)


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for (name,), path, meant in facts.each("env_names.unknown[]"):
        engine = name.partition("_")[0].lower()
        source = facts.value(f"env_names.checked[{engine}]") or "what is known"
        hint = f"; did you mean {meant}?" if meant else "."
        yield Problem(f"{name} is unknown to {engine.upper()} ({source}){hint}", (path,), f"unset {name}")
