"""A quota on CPU time is lower than what runs, or than what programs take it for.

Each rank's scheduler needs a core of its own, and so do tokenizer and detokenizer; when the quota is used up, all of
them stop until the next period, and every GPU waits. Libraries size their pools by the CPUs that they see, not by the
quota. Fix: raise the quota (`docker run --cpus`, the pod's limit), or set OMP_NUM_THREADS.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "cpu_quota"
SEVERITY = WARNING
NEEDS = ("cgroup.cpu_limited", "inherited.cpus_count")
USES = ("cgroup.cpu_quota_cpus",)

_BESIDE_RANKS = 2
_TIMES = 4


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    quota, cpus = facts.value("cgroup.cpu_quota_cpus"), facts.value("inherited.cpus_count")
    if not facts.value("cgroup.cpu_limited") or quota is None:
        return
    needed = facts.wanted.gpus + _BESIDE_RANKS
    if facts.wanted.gpus and quota < needed:
        yield Problem(f"CPU time of {quota:g} CPUs for {facts.wanted.gpus} ranks", ("cgroup.cpu_quota_cpus",),
                      f"Grant at least {needed}.", ERROR if quota < facts.wanted.gpus else "")  # fmt: skip
    threads = facts.env("OMP_NUM_THREADS") or ""
    if threads.isdecimal() and int(threads) > quota:
        yield Problem(f"OMP_NUM_THREADS={threads}, with CPU time of {quota:g} CPUs", ("env[OMP_NUM_THREADS]",))
    elif not threads and cpus > _TIMES * quota:
        yield Problem(f"programs see {cpus} CPUs and may use the time of {quota:g}", ("cgroup.cpu_quota_cpus",),
                      f"export OMP_NUM_THREADS={max(1, int(quota))}")  # fmt: skip
