"""A GPU is in a mode that a benchmark does not expect.

Divided into MIG instances (NCCL has no NVLink or P2P between them), closed to computing, encrypting its memory or what
crosses PCIe, or about to change its ECC or MIG mode at the next reset. Fix: nvidia-smi -mig 0, -c DEFAULT, -e.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "gpu_modes"
SEVERITY = WARNING
NEEDS = (
    "gpu[].mig_mode", "gpu[].mig_mode_pending", "gpu[].ecc_mode", "gpu[].ecc_mode_pending", "gpu[].compute_mode",
    "gpu[].dram_encryption", "nvml.confidential_compute",
)  # fmt: skip
ABSENCE_IS_JUDGED = True  # which of them exist depends on the board


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for index in facts.some_gpus().indices:
        if facts.gpu(index, "mig_mode"):
            severity = ERROR if facts.wanted.gpus > 1 else ""
            yield Problem(f"GPU {index}: divided into MIG instances", (f"gpu[{index}].mig_mode",),
                          "nvidia-smi -i GPU -mig 0", severity)  # fmt: skip
        for mode in ("mig", "ecc"):
            now, pending = facts.gpu(index, f"{mode}_mode"), facts.gpu(index, f"{mode}_mode_pending")
            if None not in (now, pending) and now != pending:
                path = f"gpu[{index}].{mode}_mode_pending"
                yield Problem(f"GPU {index}: {mode.upper()} mode will change at the next reset", (path,))
        if facts.gpu(index, "compute_mode") == "prohibited":
            path = f"gpu[{index}].compute_mode"
            yield Problem(f"GPU {index}: closed to computing", (path,), "nvidia-smi -i GPU -c DEFAULT", ERROR)
        if facts.gpu(index, "dram_encryption"):
            yield Problem(f"GPU {index}: its memory is encrypted", (f"gpu[{index}].dram_encryption",))
    if facts.value("nvml.confidential_compute"):
        yield Problem("confidential computing encrypts what crosses PCIe", ("nvml.confidential_compute",))
