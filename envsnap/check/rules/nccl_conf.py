"""A configuration file of NCCL sets variables that nobody sees in the environment, or misspells them.

/etc/nccl.conf and ~/.nccl.conf are read inside NCCL: neither the shell nor /proc shows what they set, and a name with a
blank or a typing error is kept and never looked up. Fix: move what is meant to the environment; mend the names.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, NotApplicable, Problem
from envsnap.keys import instances_of

CODE = "nccl_conf"
SEVERITY = WARNING
NEEDS = ("nccl.conf[].path",)
USES = ("nccl.conf[].set[]", "nccl.conf[].odd_names")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    files = {instances_of(path)[0]: str(value) for path, value in facts.all("nccl.conf[].path").items()}
    if not files:
        raise NotApplicable("NCCL has no configuration file here")
    for file, place in files.items():
        # NOTE: NCCL exports whatever stands there, so that names of other libraries can be meant.
        odd = [n for n in facts.value(f"nccl.conf[{file}].odd_names") or () if n != n.strip() or "NCC" in n.upper()]
        if odd:
            yield Problem(f"{place} sets names that NCCL never looks up: {', '.join(odd[:4])}",
                          (f"nccl.conf[{file}].odd_names",))  # fmt: skip
        hidden = {name: path for (where, name), path, value in facts.each("nccl.conf[].set[]")
                  if where == file and facts.env(name) is None}  # fmt: skip
        if hidden:
            yield Problem(f"{place} sets {', '.join(sorted(hidden))} where nobody looks", tuple(hidden.values()))
