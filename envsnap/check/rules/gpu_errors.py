"""The driver reported errors of a GPU or NVSwitch since boot (Xid, SXid).

Some numbers end a GPU's use (79 fell off the bus, 48 and 95 memory errors, 119 and 120 its system processor does not
answer), others are of a single program (13, 31, 43, 45: not counted), the rest is worth a look. A GPU that was reset
since may be well again: say so with a waiver. Fix: NVIDIA's Xid catalogue says for each number what to do;
`dmesg | grep Xid` has the lines. The kernel log needs root on many systems, and containers do not show it.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, WARNING, Facts, Problem

CODE = "gpu_errors"
SEVERITY = WARNING
NEEDS = ("kernel_log.xid_count[]",)
USES = ("kernel_log.sxid_count[]",)

_OF_A_PROGRAM = {"8", "13", "31", "32", "43", "45", "68", "69", "137", "154"}
_GRAVE = {
    "48": "double-bit memory error", "62": "its microcontroller halted", "64": "memory could not be repaired",
    "79": "fell off the bus", "95": "uncontained memory error", "110": "security fault",
    "119": "its system processor does not answer", "120": "its system processor failed",
    "140": "unrecovered memory error", "143": "initialisation failed",
}  # fmt: skip


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    for (number,), path, count in facts.each("kernel_log.xid_count[]"):
        if number not in _OF_A_PROGRAM:
            meaning = f" ({_GRAVE[number]})" if number in _GRAVE else ""
            yield Problem(
                f"Xid {number}{meaning}, {count} times since boot",
                (path,),
                "dmesg | grep Xid",
                ERROR if number in _GRAVE else "",
            )
    for (number,), path, count in facts.each("kernel_log.sxid_count[]"):
        yield Problem(f"NVSwitch error {number} (SXid), {count} times since boot", (path,), "dmesg | grep SXid")
