"""torch would load another NCCL than it was built and tested with.

LD_PRELOAD, SGLANG_NCCL_SO_PATH, a newer wheel or an image's own package put it there. `torch.cuda.nccl.version()` does
not tell: it says what torch was compiled with. Fix: `pip install nvidia-nccl-cu12==VERSION` of torch's requirement, and
no LD_PRELOAD; if the other one is meant, switch this rule off in the policy and require its version there.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem

CODE = "nccl_versions"
SEVERITY = WARNING
NEEDS = ("library[].version",)
USES = ("library[].nccl_version", "library[].found_by", "library[].path")

_BUILT, _TAKEN = "library[torch].nccl_version", "library[nccl/0].version"


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    built, taken = facts.value(_BUILT), facts.value(_TAKEN)
    if built is None or taken is None:
        raise NotApplicable("no torch that comes with NCCL is here")
    if built != taken:
        by = ", ".join(facts.value("library[nccl/0].found_by") or ())
        yield Problem(f"torch was built with NCCL {built} and will load {taken} (found by {by})", (_BUILT, _TAKEN))
