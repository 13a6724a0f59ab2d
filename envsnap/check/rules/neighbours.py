"""Other programs use the CPUs, or GPUs beside those to be used.

They take cores, memory bandwidth, power and heat, and make a measurement a matter of luck. Fix: stop them, or measure
when the machine is idle; `top`, `nvidia-smi`.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem

CODE = "neighbours"
SEVERITY = WARNING
NEEDS = ("load.process_cpu_percent[]", "load.average_1m", "inherited.cpus_count")
USES = ("load.pressure[].some_percent", "gpu[].utilization_gpu_percent")

_CPU_PERCENT, _SHARE_OF_CPUS, _WAITING_PERCENT, _BUSY_PERCENT = 50.0, 0.5, 25.0, 10


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    busy = {path: (name, percent) for (name,), path, percent in facts.each("load.process_cpu_percent[]")
            if percent >= _CPU_PERCENT}  # fmt: skip
    if busy:
        said = ", ".join(f"{name} {percent:.0f} %" for name, percent in busy.values())
        yield Problem(f"programs take CPU time: {said}", tuple(busy), "top")
    average, cpus = facts.value("load.average_1m"), facts.value("inherited.cpus_count")
    if average > max(1.0, _SHARE_OF_CPUS * cpus):
        yield Problem(f"load average {average:g} on {cpus} CPUs", ("load.average_1m",), "Wait until it is below half.")
    for resource in ("cpu", "io"):
        path = f"load.pressure[{resource}].some_percent"
        waiting = facts.value(path)
        if waiting is not None and waiting >= _WAITING_PERCENT:
            yield Problem(f"threads waited for {resource} {waiting:g} % of the last 10 s", (path,))
    for (percent,), gpus in facts.gpus_by("utilization_gpu_percent", of=facts.other_gpus):
        if percent is not None and percent >= _BUSY_PERCENT:
            yield Problem(f"{gpus}, which the command does not use: {percent} % busy",
                          gpus.paths("utilization_gpu_percent"))  # fmt: skip
