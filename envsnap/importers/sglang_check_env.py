"""SGLang check_env.

Seen: public reports of 0.1.21 to 0.5.x on NVIDIA GPUs, and the source of 0.5.16 (which ends in an error on a machine
without GPUs). The table of links in it is read as `nvidia-smi topo -m`.

Untested: AMD, Ascend, Moore Threads and Apple machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.importers import _packages
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of

_START = re.compile(r"\s*Python: \d+\.\d+\.\d+\S* .*\Z")
_NEXT = re.compile(r"\s*CUDA available: (?:True|False)\s*\Z")
_LABEL = re.compile(r"\s*([A-Za-z][\w ,.-]{0,80}?): ?:? ?(.*?)\s*\Z")
_ALSO = re.compile(
    r"\s*(?:(?:GPU|NIC|mlx5_)\w+\s.*|GPU0\s.*|Legend:|(?:X|SYS|NODE|PHB|PXB|PIX|NV#)\s+= .*|\d{3}\.[\d.]+)\Z"
)
_GPUS = re.compile(r"GPU ([\d,]+)( Compute Capability)?\Z")
_NOT_DISTRIBUTIONS = {"PIL", "zmq", "multipart"}
"""Names of modules in older versions, where all others are names of distributions."""


def recognise(text: Text) -> Iterator[range]:
    """From the line of Python, followed by whether CUDA is available."""
    for start, line in enumerate(text.lines[:-1]):
        if not (_START.match(line) and _NEXT.match(text.lines[start + 1])):
            continue
        stop = start + 2
        for number in range(start + 2, len(text.lines)):
            row = text.lines[number]
            if row.strip() and not (_LABEL.match(row[:400]) or _ALSO.match(row)):
                break
            stop = number + 1 if row.strip() else stop
        yield range(start, stop)


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of Python, GPUs, driver, torch and packages."""
    # NOTE: torch counts GPUs the fastest first, which is another order than NVML's where they differ.
    rows = [match for n in lines if (match := _LABEL.match(text.lines[n][:400]))]
    alike = len({m[2] for m in rows if _GPUS.match(m[1]) and not m[1].endswith("Capability")}) <= 1
    for number in lines:
        if _ALSO.match(text.lines[number]):
            sheet.skip(number)
        elif match := _LABEL.match(text.lines[number][:400]):
            _line(sheet, number, match[1], match[2], alike)


def _line(sheet: Sheet, number: int, label: str, word: str, alike: bool) -> None:
    if (gpus := _GPUS.match(label)) and not alike:
        sheet.drop(number)
    elif gpus:
        key = "compute_capability" if gpus[2] else "name"
        for index in gpus[1].split(","):
            if index.isdecimal():
                sheet.value(number, path_of(f"gpu[].{key}", int(index)), word or None)
    elif label == "Python":
        version, _, build = word.partition(" ")
        sheet.value(number, "python.version", version)
        sheet.value(number, "python.build", " ".join(build.split()) or None)
    elif label == "NVCC":
        release = re.search(r", V(\d+\.\d+\.\d+)\Z", word)
        sheet.value(number, "library[cuda_toolkit/0].nvcc_version", release[1] if release else None)
    elif label == "CUDA Driver Version":
        sheet.value(number, "nvml.driver_version", word if re.fullmatch(r"\d{3}(?:\.\d+)+", word) else None)
    elif label == "PyTorch":
        sheet.value(number, "library[torch].version", word if re.match(r"\d+\.", word) else None)
    elif label == "ulimit soft":
        sheet.value(number, "limits.nofile_soft_count", int(word) if re.fullmatch(r"\d{1,12}", word) else None)
    elif label == "Hypervisor vendor":
        sheet.value(number, "platform.virtualization", {"KVM": "kvm", "Xen": "xen", "VMware": "vmware"}.get(word))
    elif label in _NOT_DISTRIBUTIONS:
        sheet.drop(number)
    elif re.fullmatch(_packages.VERSION, word):
        for path, value in _packages.version(label, word):
            sheet.value(number, path, value)
        if _packages.name_of(label) == "sglang":
            sheet.version = word
    elif label in ("CUDA available", "CUDA_HOME", "NVIDIA Topology", "Legend") or word == "Module Not Found":
        sheet.skip(number)
