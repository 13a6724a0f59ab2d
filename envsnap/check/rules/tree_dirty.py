"""A source tree that the benchmark may run from is changed, or in the middle of an operation.

The commit then does not say what ran, and nobody can run it again. Fix: commit, or `git stash`; finish or abort the
merge, rebase or bisection. envsnap keeps the patch in its snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem

CODE = "tree_dirty"
SEVERITY = WARNING
NEEDS = ("repo[].dirty",)
USES = ("repo[].in_progress", "repo[].unstaged_count", "repo[].staged_count", "repo[].untracked_count",
        "repo[].assume_unchanged_count")  # fmt: skip


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    if not facts.all("repo[].dirty"):
        raise NotApplicable("no repository is known here")
    for (name,), path, dirty in facts.each("repo[].dirty"):
        counts = {word: facts.value(f"repo[{name}].{word}_count") or 0 for word in ("staged", "unstaged", "untracked")}
        if dirty:
            told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
            yield Problem(f"{name} differs from its commit ({told or 'in a submodule'})", (path,), "git status")
        for operation in facts.value(f"repo[{name}].in_progress") or ():
            yield Problem(f"{name} is in the middle of a {operation.replace('_', '-')}", (f"repo[{name}].in_progress",))
        hidden = facts.value(f"repo[{name}].assume_unchanged_count")
        if hidden:
            yield Problem(f"{name} hides changes of {hidden} files from git status (assume-unchanged)",
                          (f"repo[{name}].assume_unchanged_count",))  # fmt: skip
