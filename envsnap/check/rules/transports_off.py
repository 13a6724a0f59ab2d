"""Variables switch off ways by which GPUs reach each other.

Left from the search for a hang, they make NCCL copy through the host or the network. Fix: unset them and see whether
what they were for is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import WARNING, Facts, Problem

CODE = "transports_off"
SEVERITY = WARNING
NEEDS = ("env[]",)
USES = ("gpu[].fabric_state", "nccl.conf[].set[]")

_WHEN_SET = {
    "NCCL_P2P_DISABLE": "no peer-to-peer access", "NCCL_SHM_DISABLE": "no shared memory",
    "NCCL_NVB_DISABLE": "no way over a third GPU", "NCCL_PXN_DISABLE": "no way over another GPU's adapter",
    "NCCL_P2P_DIRECT_DISABLE": "no direct access within a process", "NCCL_IGNORE_DISABLED_P2P": "warnings are silenced",
    "SGLANG_SKIP_P2P_CHECK": "peer access is not tested",
}  # fmt: skip


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    from_file = {name: (path, value) for (_, name), path, value in facts.each("nccl.conf[].set[]")}
    from_env = {name: (path, value) for (name,), path, value in facts.each("env[]")}
    found = {**from_file, **from_env}
    for name, words in _WHEN_SET.items():
        path, value = found.get(name, ("", ""))
        if value not in ("", "0"):
            yield Problem(f"{name}={value}: {words}", (path,), f"unset {name}")
    path, value = found.get("NCCL_P2P_LEVEL", ("", ""))
    if str(value).upper() in ("LOC", "0"):
        yield Problem(f"NCCL_P2P_LEVEL={value}: no peer-to-peer access", (path,), "unset NCCL_P2P_LEVEL")
    path, value = found.get("NCCL_NVLS_ENABLE", ("", ""))
    joined = "completed" in facts.all("gpu[].fabric_state").values() and len(facts.gpus) > 2
    if value == "0" and joined and facts.wanted.engine != "sglang":  # which sets it to 0 by itself
        yield Problem("NCCL_NVLS_ENABLE=0: no reduction in the NVSwitches, which are up", (path,))
