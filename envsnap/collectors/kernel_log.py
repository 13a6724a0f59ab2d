"""Kernel log: what drivers and hardware complained of since boot."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from envsnap.host import Host
from envsnap.keys import Effect, Key, Kind, Type, path_of
from envsnap.reading import Found, Missing, Value, Why
from envsnap.scope import Scope

METHOD = "/dev/kmsg"

_LINK = (Effect.COMMUNICATION, Effect.PREFILL)
_GPU = (Effect.COMPUTE, Effect.MEMORY, Effect.VALIDITY)

XID = Key("kernel_log.xid_count[]", Type.INTEGER, Kind.COUNTER,
          "Times that the NVIDIA driver reported an error of this number (Xid) since boot.", _GPU, 0.6,
          advice="NVIDIA's Xid catalogue says what each number means and what to do.")  # fmt: skip
SXID = Key(
    "kernel_log.sxid_count[]",
    Type.INTEGER,
    Kind.COUNTER,
    "Times that an NVSwitch reported an error of this number (SXid) since boot.",
    (Effect.COMMUNICATION,),
    0.6,
)
REACHES_BOOT = Key(
    "kernel_log.reaches_boot", Type.BOOLEAN, Kind.VOLATILE,
    "Whether the log still holds its first record; later ones push out the earliest.", (), 0.05,
)  # fmt: skip

_COUNTED = (
    (Key("kernel_log.pcie_corrected_count", Type.INTEGER, Kind.COUNTER,
         "Reports of PCIe errors that were corrected, of any device.", _LINK, 0.3),
     r"PCIe Bus Error: severity=Correct"),
    (Key("kernel_log.pcie_uncorrected_count", Type.INTEGER, Kind.COUNTER,
         "Reports of PCIe errors that were not corrected, of any device.", _LINK, 0.5),
     r"PCIe Bus Error: severity=Uncorrect"),
    (Key("kernel_log.nvidia_window_count", Type.INTEGER, Kind.COUNTER,
         "Times that the NVIDIA driver found a GPU's memory window (BAR) missing or invalid.", _LINK, 0.5,
         advice="Let the firmware map windows above 4 GB, or boot with pci=realloc."),
     r"NVRM: .*(?:I/O region assigned to your NVIDIA device is invalid|BAR\d is 0M)"),
    (Key("kernel_log.machine_check_count", Type.INTEGER, Kind.COUNTER,
         "Lines of reports on hardware errors of CPU or memory.", (Effect.HOST_LAUNCH, Effect.VALIDITY), 0.3),
     r"mce: \[Hardware Error\]"),
    (Key("kernel_log.out_of_memory_count", Type.INTEGER, Kind.COUNTER,
         "Processes that the kernel killed for lack of memory.", (Effect.MEMORY,), 0.3),
     r"(?:Out of memory|Memory cgroup out of memory): Killed process"),
    (Key("kernel_log.hung_task_count", Type.INTEGER, Kind.COUNTER,
         "Reports of a thread that was stuck in the kernel for minutes.", (Effect.STORAGE, Effect.HOST_LAUNCH), 0.3),
     r"task .* blocked for more than \d+ seconds"),
)  # fmt: skip

KEYS = (XID, SXID, REACHES_BOOT, *(key for key, _ in _COUNTED))

_XID = r"NVRM: Xid \([^)]*\): (\d+)"
_SXID = r"SXid \([^)]*\): (\d+)"
_PATTERN = "|".join([_XID, _SXID, *(pattern for _, pattern in _COUNTED)])


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings. Raises: Missing where the log cannot be read."""
    try:
        log = host.one("kernel_log", _PATTERN)
    except Missing as missing:
        if missing.why is Why.ABSENT:  # there is a log, a container just does not show it
            raise Missing(Why.DENIED, "this container does not show the kernel's log (no /dev/kmsg)") from missing
        raise
    lines = [str(line) for line in log["lines"]]
    yield REACHES_BOOT.pattern, Value(log["first"] == 0)
    yield from counts(lines)


def counts(lines: list[str]) -> Iterator[tuple[str, Found]]:
    """How often each trouble is reported in lines of the kernel's log."""
    for key, pattern in ((XID, _XID), (SXID, _SXID)):
        numbers = Counter(found.group(1) for line in lines if (found := re.search(pattern, line)))
        for number, count in sorted(numbers.items(), key=lambda item: int(item[0])):
            yield path_of(key.pattern, number), Value(count)
    for key, pattern in _COUNTED:
        yield key.pattern, Value(sum(re.search(pattern, line) is not None for line in lines))
