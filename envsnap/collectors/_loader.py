"""Where the dynamic loader and the packages of an environment have shared libraries, and which the loader takes.

Follows ld.so(8): what is preloaded, DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, the loader's cache, its default
directories. Torch's CUDA wheels carry a DT_RPATH, so that LD_LIBRARY_PATH does not move their NCCL; LD_PRELOAD does.
"""

from __future__ import annotations

import base64
import posixpath
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import escape

from envsnap.host import Host
from envsnap.reading import Found, Missing, Value, Why
from envsnap.workers import elf

CACHE_BYTES = 4 << 20
DYNAMIC_BYTES = 1 << 16
STRING_BYTES = 1 << 13

_ARCHITECTURE = {"x86_64": 0x0300, "aarch64": 0x0A00}
_DEFAULT = ("/lib64", "/usr/lib64", "/lib/{}-linux-gnu", "/usr/lib/{}-linux-gnu", "/lib", "/usr/lib")
_IN_PACKAGES = ("nvidia/*/lib/lib*.so*", "torch/lib/lib*.so*", "cupy/.data/lib/lib*.so*")
_IN_PREFIX = ("libnccl*.so*", "libcu*.so*")
_NAMES = ("libnccl.so.2", "libnccl-net.so", "libnccl-tuner.so", "libcudnn.so.8", "libcudnn.so.9", "libcublas.so.11",
          "libcublas.so.12", "libcublas.so.13", "libcuda.so.1")  # fmt: skip
_DT_NEEDED, _DT_STRTAB, _DT_RPATH, _DT_RUNPATH = 1, 5, 15, 29


@dataclass(frozen=True)
class Candidate:
    """A file that could provide a library, and how it is found: a variable's name, or a word for the place."""

    path: str
    found_by: str


def candidates(
    host: Host, environ: Mapping[str, str], path: Sequence[str], prefix: str, wanted: re.Pattern[str]
) -> list[Candidate]:
    """All files whose name fully matches `wanted`, in one round trip, in the order in which the loader looks.

    `path` is the interpreter's import path, `prefix` its environment, whose `lib` conda's interpreters search.
    """
    machine = str(host.self()["machine"])
    library_path = [p for p in re.split("[:;]", environ.get("LD_LIBRARY_PATH", "")) if p.startswith("/")]
    patterns = [f"{escape(p)}/{below}" for p in path for below in _IN_PACKAGES]
    patterns += [f"{escape(prefix)}/lib/{below}" for below in _IN_PREFIX]
    # NOTE: names, not listings: these directories hold thousands of files, and the loader's cache covers them but
    # for what was copied there without ldconfig.
    default = [f"{p.format(machine)}/{name}" for p in _DEFAULT for name in _NAMES]
    listings, globs, stats, (cache,) = _batches(
        host,
        [["list", p] for p in library_path],
        [["glob", pattern] for pattern in patterns],
        [["stat", p] for p in default],
        [["bytes", "/etc/ld.so.cache", 0, CACHE_BYTES]],
    )
    found = [Candidate(p, "LD_PRELOAD") for p in re.split("[: ]", environ.get("LD_PRELOAD", "")) if p.startswith("/")]
    for directory, names in zip(library_path, listings):
        matching = [name for name in _strings(names) if wanted.fullmatch(name)]
        found += [Candidate(posixpath.join(directory, name), "LD_LIBRARY_PATH") for name in matching]
    for pattern, paths in zip(patterns, globs):
        place = "prefix" if pattern.startswith(f"{escape(prefix)}/lib/lib") else "site_packages"
        found += [Candidate(p, place) for p in _strings(paths)]
    found += [Candidate(p, "loader_cache") for p in _in_cache(cache, machine)]
    found += [Candidate(p, "default_directory") for p, stat in zip(default, stats) if isinstance(stat, Value)]
    return [c for c in found if wanted.fullmatch(posixpath.basename(c.path))]


def _batches(host: Host, *requests: list[list[object]]) -> Iterator[list[Found]]:
    answers = iter(host.found([r for batch in requests for r in batch]))
    return ([next(answers) for _ in batch] for batch in requests)


def _strings(found: Found) -> list[str]:
    return found.value if isinstance(found, Value) and isinstance(found.value, list) else []


def _in_cache(found: Found, machine: str) -> list[str]:
    """The paths in the loader's cache for this architecture, in its own order; none where there is no such cache."""
    data = base64.b64decode(found.value) if isinstance(found, Value) else b""
    start = data.find(b"glibc-ld.so.cache1.1")
    if start < 0 or len(data) < start + 48:
        return []
    count = struct.unpack_from("<I", data, start + 20)[0]
    entries = data[start + 48 : start + 48 + 24 * min(count, len(data) // 24)]
    paths = []
    for flags, _, value, _, _ in struct.iter_unpack("<iIIIQ", entries[: len(entries) // 24 * 24]):
        if flags & 0xFF00 == _ARCHITECTURE.get(machine):
            path = data[start + value : start + value + 4096].split(b"\0", 1)[0]
            paths.append(path.decode("utf-8", "surrogateescape"))
    return paths


@dataclass(frozen=True)
class Linked:
    """What a shared library asks of the loader; `$ORIGIN` is replaced."""

    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]


def linked(host: Host, path: str) -> Linked:
    """The dynamic section of a shared library. Raises: Missing for what is no such file."""

    def read(offset: int, size: int) -> bytes:
        return host.read_bytes(path, offset, size)

    image = elf.parse(read(0, elf.HEAD_BYTES), read)
    if image.dynamic is None:
        raise Missing(Why.NOT_SUPPORTED, f"{path} has no dynamic section")

    def offset(address: int) -> int:
        below = [(a, o) for a, o in image.loads if a <= address]
        start, place = max(below, default=(0, 0))
        return place + address - start

    raw = read(offset(image.dynamic[0]), min(image.dynamic[1], DYNAMIC_BYTES))
    tags = list(struct.iter_unpack("<qQ", raw[: len(raw) // 16 * 16]))
    strings = next((value for tag, value in tags if tag == _DT_STRTAB), None)
    if strings is None:
        raise Missing(Why.NOT_SUPPORTED, f"{path} has no strings in its dynamic section")
    wanted = [(tag, value) for tag, value in tags if tag in (_DT_NEEDED, _DT_RPATH, _DT_RUNPATH)][:256]
    sizes = {_DT_NEEDED: 256}
    answers = host.found([["bytes", path, offset(strings) + v, sizes.get(t, STRING_BYTES)] for t, v in wanted])
    texts: dict[int, list[str]] = {}
    for (tag, _), found in zip(wanted, answers):
        text = base64.b64decode(found.value).split(b"\0", 1)[0] if isinstance(found, Value) else b""
        texts.setdefault(tag, []).append(text.decode("utf-8", "surrogateescape"))
    origin = posixpath.dirname(path)
    return Linked(
        tuple(texts.get(_DT_NEEDED, ())),
        _directories(texts.get(_DT_RPATH, ()), origin),
        _directories(texts.get(_DT_RUNPATH, ()), origin),
    )


def _directories(texts: Sequence[str], origin: str) -> tuple[str, ...]:
    parts = [part.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", origin) for t in texts for part in t.split(":")]
    return tuple(posixpath.normpath(part) for part in parts if part.startswith("/"))


def asked_by(asker: Linked, wanted: re.Pattern[str]) -> list[Candidate]:
    """Where a library's own search path could hold those of the libraries it needs that are wanted; unchecked."""
    names = [name for name in asker.needed if wanted.fullmatch(name)]
    return [Candidate(posixpath.join(d, n), "torch_rpath") for d in (*asker.rpath, *asker.runpath) for n in names]


def taken(soname: str, found: Sequence[Candidate], asker: Linked | None = None) -> str:
    """The path that the loader takes for a name, asked for by a program (None) or by a library; empty for none."""
    by_source: dict[str, list[str]] = {}
    for candidate in found:
        by_source.setdefault(candidate.found_by, []).append(candidate.path)
    everywhere = {c.path for c in found}
    order = [p for p in by_source.get("LD_PRELOAD", []) if posixpath.basename(p).startswith(soname)]
    if asker and not asker.runpath:
        order += [posixpath.join(d, soname) for d in asker.rpath]
    order += by_source.get("LD_LIBRARY_PATH", [])
    if asker:
        order += [posixpath.join(d, soname) for d in asker.runpath]
    order += by_source.get("loader_cache", []) + by_source.get("default_directory", [])
    preloaded = set(by_source.get("LD_PRELOAD", []))
    return next((p for p in order if p in everywhere and (p in preloaded or posixpath.basename(p) == soname)), "")
