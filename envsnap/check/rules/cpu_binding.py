"""A program started from here gets too few CPUs, far ones, or gives way to others.

The affinity, priority and NUMA binding of the calling shell go over to the server and its ranks. Launches from CPUs of
the other socket take longer, and a nice value makes every other program come first. Fix: `taskset -p` and
`numactl --show` tell what is set; start from a fresh session, or bind to the CPUs near the GPUs (`nvidia-smi topo -m`).
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem
from envsnap.check.rules._cpu_lists import cpus_in

CODE = "cpu_binding"
SEVERITY = WARNING
NEEDS = ("inherited.cpus", "inherited.cpus_count")
USES = ("inherited.nice", "inherited.scheduling_policy", "gpu[].cpu_affinity", "cpu.threads_count")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    count, ranks, total = facts.value("inherited.cpus_count"), facts.wanted.gpus, facts.value("cpu.threads_count")
    if ranks and count < ranks + 1 and (total is None or count < total):
        yield Problem(f"programs may run on {count} CPUs ({facts.value('inherited.cpus')}), for {ranks} ranks",
                      ("inherited.cpus",), "taskset -cp $$", ERROR)  # fmt: skip
    allowed = cpus_in(facts.value("inherited.cpus"))
    for (near,), gpus in facts.gpus_by("cpu_affinity"):
        if near is not None and cpus_in(near) and not cpus_in(near) & allowed:
            yield Problem(f"{gpus}: near CPUs {near}, and none of them may be used ({facts.value('inherited.cpus')})",
                          ("inherited.cpus", *gpus.paths("cpu_affinity")))  # fmt: skip
    nice, policy = facts.value("inherited.nice"), facts.value("inherited.scheduling_policy")
    if nice is not None and nice > 0:
        yield Problem(f"nice value {nice}", ("inherited.nice",), "renice -n 0 $$ needs root; start a new session.")
    if policy in ("batch", "idle"):
        yield Problem(f"scheduling policy {policy}", ("inherited.scheduling_policy",), "chrt -o -p 0 $$")
