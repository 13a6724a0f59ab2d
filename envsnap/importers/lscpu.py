"""lscpu.

Seen: util-linux 2.38 and 2.39 (by itself and within torch's collect_env) on x86-64; the grouped form of newer ones is
read by its labels.

Untested: ARM machines beyond vendor and model, `lscpu -J`, translated output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envsnap.collectors._files import cpu_count
from envsnap.collectors.cpu import fast_flags
from envsnap.importers import _words
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of

_START = re.compile(r"\s*Architecture: +(x86_64|aarch64)\s*\Z")
_ROW = re.compile(r"\s*([A-Z][\w ()/.-]{1,60}?):(?: +(.*?))?\s*\Z")
_SECOND = ("CPU op-mode(s)", "Byte Order", "Address sizes")
_HYPERVISORS = {"KVM": "kvm", "Xen": "xen", "VMware": "vmware", "Microsoft": "hyperv"}
_CACHE = re.compile(r"(\d+(?:\.\d)? [KMG]iB) \((\d{1,5}) instances?\)")
_CACHE_STEP = 4096
_RENAMED = "; (IBPB|STIBP|PBRSB-eIBRS|BHI) "
"""NOTE: lscpu takes the colons out of what the kernel says of a mitigation. Those of Spectre v2 are known (from
machines of which both texts are recorded); of others that have clauses with names they are not."""


def recognise(text: Text) -> Iterator[range]:
    """From the architecture to the last line that is labelled."""
    for start, line in enumerate(text.lines):
        if not _START.match(line) or not any(
            text.lines[n].strip().startswith(_SECOND) for n in range(start + 1, min(start + 4, len(text.lines)))
        ):
            continue
        stop = start + 1
        while stop < len(text.lines) and _ROW.match(text.lines[stop][: 1 << 14]):
            stop += 1
        yield range(start, stop)


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of `cpu`, `numa[]` and the architecture."""
    rows: dict[str, tuple[int, str]] = {}
    for number in lines:
        row = _ROW.match(text.lines[number][: 1 << 14])
        if row and row[1] not in rows:
            rows[row[1]] = number, row[2] or ""
    arch = rows["Architecture"][1]
    for label, (number, word) in rows.items():
        found = dict(_readings(label, word, arch))
        sheet.skip(number)
        for path, value in found.items():
            if value is not None:
                sheet.value(number, path, value)
    _cores(sheet, rows)


def _readings(label: str, word: str, arch: str) -> Iterator[tuple[str, object]]:
    x86 = arch == "x86_64"
    if label == "Architecture":
        yield "os.architecture", word
    elif label == "On-line CPU(s) list":
        online = _words.cpus(word)
        yield "cpu.online", online
        yield "cpu.threads_count", cpu_count(online) if online else None
    elif label in ("Vendor ID", "Model name"):
        yield f"cpu.{'vendor' if label == 'Vendor ID' else 'model'}", _words.text(word)
    elif label in ("CPU family", "Model", "Stepping") and x86:
        name = {"CPU family": "family", "Model": "model_number", "Stepping": "stepping"}[label]
        yield f"cpu.{name}", _words.integer(word)
    elif label == "Thread(s) per core" and x86:
        yield "cpu.smt_active", None if not word.isdecimal() else word != "1"
    elif label == "Socket(s)" and x86:
        yield "cpu.sockets_count", _words.integer(word)
    elif label == "Flags":
        yield "cpu.flags", fast_flags(word)
    elif label == "Hypervisor vendor":
        yield "platform.virtualization", _HYPERVISORS.get(word)
    elif match := re.fullmatch(r"(L1d|L1i|L2|L3)(?: cache)?", label):
        yield path_of("cpu.cache[].size_bytes", match[1]), _one_cache(word)
    elif match := re.fullmatch(r"NUMA node(\d{1,4}) CPU\(s\)", label):
        yield path_of("numa[].cpus", match[1]), _words.cpus(word)
    elif match := re.fullmatch(r"Vulnerability ([A-Z][\w ]+)", label):
        yield path_of("cpu.vulnerability[]", match[1].lower().replace(" ", "_")), vulnerability(word)


def _one_cache(word: str) -> int | None:
    """The size of one instance, where the sum was not rounded."""
    match = _CACHE.fullmatch(word)
    total = _words.size_bytes(match[1]) if match else None
    if match is None or total is None or not int(match[2]):
        return None
    size, rest = divmod(total, int(match[2]))
    return size if rest == 0 and size % _CACHE_STEP == 0 else None


def vulnerability(word: str) -> str | None:
    """What the kernel says, of what lscpu makes of it; None where that is not certain."""
    if word in ("Not affected", "Vulnerable") or word.startswith("Vulnerable: "):
        return word
    if not word.startswith("Mitigation; "):
        return None
    clauses = re.sub(_RENAMED, r"; \1: ", word)
    if re.search(r"; VMX ", clauses):
        return None
    return clauses.replace("Mitigation; ", "Mitigation: ", 1)


def _cores(sheet: Sheet, rows: Mapping[str, tuple[int, str]]) -> None:
    cores, sockets = rows.get("Core(s) per socket"), rows.get("Socket(s)")
    if cores and sockets and cores[1].isdecimal() and sockets[1].isdecimal():
        sheet.value(cores[0], "cpu.cores_count", int(cores[1][:6]) * int(sockets[1][:6]))
