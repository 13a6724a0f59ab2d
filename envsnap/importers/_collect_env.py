"""What torch's collect_env and its descendants print as `label: value`, whatever stands between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envsnap.importers import _packages, _words
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.keys import path_of
from envsnap.reading import Json

Readings = Iterator[tuple[str, Json]]

SAYS_NOTHING = "CUDA_MODULE_LOADING=LAZY"
"""NOTE: torch sets it itself, to what is the default, so that reports of torch's and vLLM's show it."""

_LABEL = re.compile(r"\s*([A-Za-z][\w ./()-]{0,60}?)\s*:(?: (.*))?\Z")
_GPU = re.compile(r"\s*(?:GPU models and configuration\s*: )?GPU (\d{1,3}): (\S.*?)(?: \(UUID: [^)]*\))?\s*\Z")
_PIP = re.compile(rf"\s*\[pip3?\] ([A-Za-z0-9][\w.-]{{0,100}})==({_packages.VERSION})\s*\Z")
_CONDA = re.compile(rf"\s*\[conda\] ([A-Za-z0-9][\w.-]{{0,100}})\s+({_packages.VERSION})\s+(\S+)(?:\s+\S+)?\s*\Z")
_ELSE = re.compile(
    r"\s*(?:/\S*libcudnn\S*|=+|Collecting environment information\.\.\.|\[(?:pip3?|conda)\] .*|GPU\d+\b.*|NIC\d+\b.*"
    r"|Legend:|(?:X|SYS|NODE|PHB|PXB|PIX|NV#)\s+= .*|[A-Z][A-Z0-9_]{2,80}=.*"
    r"|(?:System|PyTorch|CUDA / GPU|CPU|vLLM) Info|Python Environment|Environment Variables"
    r"|Versions of relevant libraries:?|uv is set)\s*\Z"
)
_VERSION_ONLY = re.compile(r"\d[\w.+!-]*\Z")


def stretch(text: Text, start: int, limit: int) -> range:
    """From `start` to the last line before `limit` that is of such a report's form."""
    stop = start + 1
    for number in range(start + 1, limit):
        line = text.lines[number]
        if not line.strip():
            continue
        if not (_LABEL.match(line[:400]) or _ELSE.match(line[:400])):
            break
        stop = number + 1
    return range(start, stop)


def with_greeting(text: Text, lines: range) -> range:
    """With what the tool says before it begins."""
    start = lines.start
    while start and re.match(r"\s*(?:Collecting environment information|uv is set)", text.lines[start - 1]):
        start -= 1
    return range(start, lines.stop)


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of the lines that all these reports have in common."""
    for number in lines:
        line = text.lines[number]
        if match := _GPU.match(line):
            sheet.value(number, path_of("gpu[].name", int(match[1])), match[2])
        elif match := _PIP.match(line):
            for path, value in _packages.version(match[1], match[2]):
                sheet.value(number, path, value)
        elif match := _CONDA.match(line):
            _conda(sheet, number, *match.groups())
        elif (match := _LABEL.match(line[:4096])) and match[1] in _LABELS:
            _put(sheet, number, _LABELS[match[1]], (match[2] or "").strip())
        elif line.strip() and _ELSE.match(line[:400]):
            sheet.skip(number)


def _put(sheet: Sheet, number: int, readings: Callable[[str], Readings] | None, word: str) -> None:
    if readings is None or word.lower() in ("", "n/a", "none", "could not collect", "no cuda"):
        sheet.skip(number)
        return
    found = list(readings(word))
    for path, value in found:
        sheet.value(number, path, value)
    if not found:
        sheet.drop(number)


def _conda(sheet: Sheet, number: int, name: str, version: str, build: str) -> None:
    if build.startswith("pypi"):  # pip's, which it lists itself
        sheet.skip(number)
        return
    sheet.value(number, path_of("conda[].version", name), version)
    sheet.value(number, path_of("conda[].build", name), build)


def _version(path: str) -> Callable[[str], Readings]:
    def readings(word: str) -> Readings:
        if _VERSION_ONLY.match(word):
            yield path, word

    return readings


def _debug(word: str) -> Readings:
    if word in ("True", "False"):
        yield "library[torch].debug", word == "True"


def _os(word: str) -> Readings:
    """NOTE: elsewhere than on Ubuntu and Debian the report's words are not those of os-release."""
    match = re.fullmatch(r"((?:Ubuntu|Debian) .*?) \((x86_64|aarch64)\)", word)
    if match:
        yield "os.distribution_title", match[1]
    if arch := re.search(r"\((x86_64|aarch64)\)\Z", word):
        yield "os.architecture", arch[1]


def _libc(word: str) -> Readings:
    if match := re.fullmatch(r"(glibc|musl)-(\d[\d.]*)", word):
        yield "os.libc", match[1]
        yield "os.libc_version", match[2]


def _python(word: str) -> Readings:
    match = re.fullmatch(r"(\d+\.\d+\.\d+\S*) (.*?)(?: \((?:32|64)-bit runtime\))?", word)
    if match:
        yield "python.version", match[1]
        yield "python.build", " ".join(match[2].split())


def _platform(word: str) -> Readings:
    if match := re.fullmatch(r"Linux-(\S+)-(x86_64|aarch64)(?:-\2)?-with-glibc[\d.]+", word):
        yield "kernel.release", match[1].removesuffix(f"-{match[2]}")


def _driver(word: str) -> Readings:
    if re.fullmatch(r"\d{3}\.\d+(?:\.\d+)?", word):
        yield "nvml.driver_version", word


def _vllm(word: str) -> Readings:
    """`0.23.1 (git sha: …)`."""
    bare = word.partition(" (")[0]
    if _words.text(bare) and _VERSION_ONLY.match(bare):
        yield from _packages.version("vllm", bare)


_LABELS: dict[str, Callable[[str], Readings] | None] = {
    "PyTorch version": _version("library[torch].version"),
    "Is debug build": _debug,
    "CUDA used to build PyTorch": _version("library[torch].cuda_version"),
    "ROCM used to build PyTorch": _version("library[torch].hip_version"),
    "OS": _os,
    "Libc version": _libc,
    "Python version": _python,
    "Python platform": _platform,
    "CUDA runtime version": _version("library[cuda_toolkit/0].nvcc_version"),
    "Nvidia driver version": _driver,
    "vLLM Version": _vllm,
    **dict.fromkeys(
        ("GCC version", "Clang version", "CMake version", "XPU used to build PyTorch", "Is CUDA available",
         "CUDA_MODULE_LOADING set to", "GPU models and configuration", "cuDNN version", "Is XPU available",
         "HIP runtime version", "MIOpen runtime version", "Is XNNPACK available", "Caching allocator config", "CPU",
         "Versions of relevant libraries", "ROCM Version", "Neuron SDK Version", "vLLM Build Flags", "CUDA Archs",
         "GPU Topology")
    ),
}  # fmt: skip
"""What each label gives; None for those that are known and have no key."""
