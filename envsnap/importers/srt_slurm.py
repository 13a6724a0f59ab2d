"""srt-slurm fingerprint.

Seen: its source of 2026; the fixture is made by that description.

Untested: a file of one's own. The model's revision has no place without the model's directory, and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from envsnap.importers import _packages, _words
from envsnap.importers._dates import utc
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of
from envsnap.reading import Json

_FIELDS = {"hostname", "arch", "python_version", "pip_packages", "frameworks"}
_UNAVAILABLE = ("unavailable", "unknown", "")
_DISTRIBUTIONS = {"vllm": "vllm", "sglang": "sglang", "tensorrt_llm": "tensorrt-llm", "dynamo": "ai-dynamo"}
_MIB = _words.unit("MiB", 1 << 20)


def recognise(text: Text) -> Iterator[range]:
    """Documents with its fields."""
    return (lines for lines, d in text.documents.items() if isinstance(d, dict) and d.keys() >= _FIELDS)


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of the host, GPUs, Python and packages."""
    document: dict[str, Any] = text.documents[lines]
    sheet.skip(*lines)
    line = lines.start

    def put(path: str, value: Json) -> None:
        if isinstance(value, str) and value not in _UNAVAILABLE:
            sheet.value(line, path, value)

    put("os.hostname", document["hostname"])
    put("os.architecture", document["arch"])
    put("python.version", document["python_version"])
    if not str(document.get("os")).startswith("Linux-"):  # what Python says where there is no os-release
        put("os.distribution_title", document.get("os"))
    if nvcc := re.search(r"V(\d+\.\d+\.\d+)", str(document.get("cuda_version"))):
        put("library[cuda_toolkit/0].nvcc_version", nvcc[1])
    if nccl := re.fullmatch(r"\((\d+), (\d+), (\d+)\)", str(document.get("nccl_version"))):
        put("library[torch].nccl_version", ".".join(nccl.groups()))
    _gpus(sheet, line, document.get("gpu"))
    frameworks = document["frameworks"]
    for name, version in frameworks.items() if isinstance(frameworks, dict) else ():
        if name in _DISTRIBUTIONS and isinstance(version, str):
            _put_version(sheet, line, _DISTRIBUTIONS[name], version)
    packages = document["pip_packages"]
    listed = next(iter(packages.values()), []) if isinstance(packages, dict) else packages
    for requirement in listed if isinstance(listed, list) else ():
        readings = _packages.requirement(str(requirement))
        if readings is None:
            sheet.drop(line)
        for path, value in readings or ():
            sheet.value(line, path, value)
    if isinstance(document.get("timestamp"), str):
        sheet.date = document["timestamp"]
        sheet.moment = utc(sheet.date)


def _put_version(sheet: Sheet, line: int, name: str, version: str) -> None:
    if re.fullmatch(_packages.VERSION, version):
        for path, value in _packages.version(name, version):
            sheet.value(line, path, value)


def _gpus(sheet: Sheet, line: int, gpu: Json) -> None:
    listed = gpu.get("gpus") if isinstance(gpu, dict) else None
    for index, one in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            sheet.value(line, path_of("gpu[].name", index), one["name"])
            sheet.value(line, path_of("gpu[].memory_total_bytes", index), _MIB(str(one.get("memory"))))
            driver = str(one.get("driver"))
            sheet.value(line, "nvml.driver_version", driver if re.fullmatch(r"\d{3}(?:\.\d+)+", driver) else None)
