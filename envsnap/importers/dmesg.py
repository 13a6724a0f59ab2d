"""kernel log (dmesg, dmesg -T, journalctl -k).

Seen: Linux 6.18 on this kind of machine (dmesg); lines of syslog and of the NVIDIA driver in public reports.

Untested: `dmesg --json` and coloured forms of other tools. What an excerpt does not show is not counted as never.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.collectors._boot_parameters import parse_command_line
from envsnap.collectors.kernel_log import REACHES_BOOT, counts
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of
from envsnap.reading import Value

_LINE = re.compile(
    r"(?:\[ *(?P<since>\d{1,9}\.\d{6})\] |\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} +\d{1,2} [\d:]{8} \d{4}\] "
    r"|[A-Z][a-z]{2} +\d{1,2} [\d:]{8} \S{1,100} kernel: (?:\[ *\d+\.\d+\] )?)(?P<said>.*)"
)
_TELLING = re.compile(r"NVRM: |PCIe Bus Error|Out of memory|\[Hardware Error\]|blocked for more than|nvidia-nvswitch")
_LINUX = re.compile(r"Linux version (\S+) \(")
_COMMAND = re.compile(r"Command line: (.*)")
_DRIVER = re.compile(
    r"NVRM: loading NVIDIA UNIX (Open )?(?:x86_64 |aarch64 )?Kernel Module(?: for (?:x86_64|aarch64))?  (\d{3}[\d.]+) "
)
ENOUGH = 3


def recognise(text: Text) -> Iterator[range]:
    """Lines of its form in a row: some, or one that tells of trouble."""
    start: int | None = None
    last = 0
    for number, line in enumerate([*text.lines, "end"]):
        if line[:1] and line[0] in "[ADFJMNOS" and _LINE.match(line):
            start, last = (number if start is None else start), number
        elif start is not None and line.strip():
            if last - start + 1 >= ENOUGH or any(_TELLING.search(text.lines[n]) for n in range(start, last + 1)):
                yield range(start, last + 1)
            start = None


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `kernel_log`, `kernel` and the driver's module."""
    said: list[str] = []
    for number in lines:
        match = _LINE.match(text.lines[number])
        if not match:
            continue
        sheet.skip(number)
        said.append(match["said"])
        if number == lines.start and match["since"] is not None:
            sheet.value(number, REACHES_BOOT.pattern, float(match["since"]) == 0)
        if linux := _LINUX.match(match["said"]):
            sheet.value(number, "kernel.release", linux[1])
        elif command := _COMMAND.match(match["said"]):
            _command_line(sheet, number, command[1])
        elif driver := _DRIVER.match(match["said"]):
            sheet.version = driver[2]
            sheet.value(number, "nvidia.module_version", driver[2])
            sheet.value(number, "nvidia.module_flavour", "open" if driver[1] else "proprietary")
    for path, found in counts(said):
        if isinstance(found, Value) and found.value:
            sheet.value(lines.start, path, found.value)


def _command_line(sheet: Sheet, number: int, text: str) -> None:
    sheet.value(number, "kernel.command_line", text)
    for name, values in parse_command_line(text).items():
        sheet.value(number, path_of("kernel.parameter[]", name), values)
