"""nvidia-bug-report.

Seen: a public report of script version 31831145 (2022) and the script itself of several years. nvidia-smi -q, lspci and
the kernel's log in it are read as theirs; files of the machine that have a place here are read by their headings.

Untested: reports of data-centre machines with Fabric Manager's logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text

_START = re.compile(r"Start of NVIDIA bug report log file\.")
_END = re.compile(r"End of NVIDIA bug report log file\.")
_UNAME = re.compile(r"uname: Linux (\S+) (\S+) (#\S+ .*?) (x86_64|aarch64)(?: \S+)*\s*\Z")
_MODULE = re.compile(
    r"NVRM version: NVIDIA UNIX (Open )?(?:x86_64 |aarch64 )?Kernel Module(?: for (?:x86_64|aarch64))?  (\d{3}[\d.]+) "
)
_FILE = re.compile(r"\*\*\* (/\S+)\s*\Z")
_TOTAL = re.compile(r"MemTotal: +(\d{1,12}) kB\s*\Z")


def recognise(text: Text) -> Iterator[range]:
    """From its first line to its last, or to where the text ends."""
    start: int | None = None
    for number, line in enumerate(text.lines):
        if start is None and _START.match(line.strip()):
            start = number
        elif start is not None and _END.match(line.strip()):
            yield range(start, number + 1)
            start = None
    if start is not None:
        yield range(start, len(text.lines))


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of the kernel, the driver's module and the memory. Every section is known, and most have no key."""
    file = ""
    for number in lines:
        line = text.lines[number]
        if not line.strip():
            continue
        sheet.skip(number)
        if match := _FILE.match(line):
            file = match[1]
        elif line.startswith("nvidia-bug-report.sh Version: "):
            sheet.version = line.partition(": ")[2].strip()[:40]
        elif line.startswith("Date: ") and not sheet.date:
            sheet.date = line.partition(": ")[2].strip()[:80]
        elif uname := _UNAME.match(line):
            for name, value in zip(
                ("os.hostname", "kernel.release", "kernel.version", "os.architecture"), uname.groups()
            ):
                sheet.value(number, name, value)
        elif module := _MODULE.match(line):
            sheet.value(number, "nvidia.module_version", module[2])
            sheet.value(number, "nvidia.module_flavour", "open" if module[1] else "proprietary")
        elif file == "/proc/meminfo" and (total := _TOTAL.match(line)):
            sheet.value(number, "memory.total_bytes", int(total[1]) << 10)
