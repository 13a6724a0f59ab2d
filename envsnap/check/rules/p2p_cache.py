"""An engine's kept test result says that GPUs cannot reach each other, and the driver says that they can.

SGLang and vLLM test peer access once and keep the answer for good, in a file that knows neither host nor driver: in a
shared home directory it comes from another machine. Custom all-reduce is then off without a warning that anyone reads.
Fix: delete gpu_p2p_access_cache_for_*.json; the engine tests again.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, Facts, Problem

CODE = "p2p_cache"
SEVERITY = ERROR
NEEDS = ("cache[].p2p_refused_count", "gpu_pair[].p2p_read")
USES = ("cache[].path",)


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    can = facts.all("gpu_pair[].p2p_read").values()
    if not can or any(value != "ok" for value in can):
        return
    for (name,), path, count in facts.each("cache[].p2p_refused_count"):
        where = facts.value(f"cache[{name}].path") or name
        if count:
            yield Problem(f"{where} holds that {count} pairs of GPUs have no peer access; they have", (path,),
                          f"rm {where}/gpu_p2p_access_cache_for_*.json")  # fmt: skip
