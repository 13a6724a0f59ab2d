"""CUDA toolkits, which compile kernels while an engine runs: where they are, in the order in which they are taken."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from envsnap.cache import Cache
from envsnap.host import Host
from envsnap.reading import Found, Json, Missing, Value, Why, attempt

_DEFAULT = "/usr/local/cuda"
_NVCC_TEXT = r"Cuda compilation tools, release [0-9.]+, V([0-9.]+)"
_HEADER_BYTES = 1 << 16


@dataclass
class _Root:
    path: str
    found_by: list[str] = field(default_factory=list)


def toolkits(host: Host, environ: Mapping[str, str], path: Sequence[str], held: Cache) -> Iterator[tuple[str, Found]]:
    """Readings of every toolkit: variables, then nvcc on the PATH, then the default place, then packages."""
    for order, root in enumerate(_roots(host, environ, path)):
        base = f"library[cuda_toolkit/{order}]"
        manifest, text, header = host.found([
            ["read", f"{root.path}/version.json", 1 << 18],
            ["read", f"{root.path}/version.txt", 1 << 12, True],
            ["read", f"{root.path}/include/cuda.h", _HEADER_BYTES, True],
        ])  # fmt: skip
        said = _manifest(manifest)
        yield f"{base}.path", Value(root.path)
        yield f"{base}.found_by", Value(sorted(root.found_by))
        yield f"{base}.version", attempt(_version, root.path, said, text, header)
        yield f"{base}.nvcc_version", attempt(_nvcc_version, host, root.path, said, held)


def _roots(host: Host, environ: Mapping[str, str], path: Sequence[str]) -> list[_Root]:
    """Toolkit directories, each once with all that lead to it. What a variable names counts even if it is not there."""
    named = [(environ[v], v) for v in ("CUDA_HOME", "CUDA_PATH") if environ.get(v, "").startswith("/")]
    compilers = [posixpath.join(p, "nvcc") for p in environ.get("PATH", "").split(":") if p.startswith("/")]
    packages = [f"{p}/nvidia/*/bin/nvcc" for p in path]
    answers = host.found([*(["realpath", c] for c in compilers), *(["glob", p] for p in packages)])
    on_path = [(_root_of(f), "PATH") for f in answers[: len(compilers)]]
    in_packages = [(_root_of(Value(p)), "site_packages") for f in answers[len(compilers) :] for p in _strings(f)]
    places = [*named, *on_path, (_DEFAULT, "default"), *in_packages]
    places = [(place, by) for place, by in places if place]
    requests = [r for place, _ in places for r in (["realpath", place], ["stat", f"{place}/bin/nvcc"], ["list", place])]
    answers = host.found(requests)
    roots: dict[str, _Root] = {}
    for (place, by), real, nvcc, listed in zip(places, answers[::3], answers[1::3], answers[2::3]):
        is_toolkit = isinstance(nvcc, Value) or bool({"version.json", "version.txt"} & set(_strings(listed)))
        if is_toolkit or by in ("CUDA_HOME", "CUDA_PATH"):
            root = roots.setdefault(str(real.value) if isinstance(real, Value) else place, _Root(place))
            root.found_by += [by] if by not in root.found_by else []
    return list(roots.values())


def _root_of(compiler: Found) -> str:
    """The toolkit that a compiler belongs to: two levels above the file that links lead to."""
    return posixpath.dirname(posixpath.dirname(str(compiler.value))) if isinstance(compiler, Value) else ""


def _strings(found: Found) -> list[str]:
    return found.value if isinstance(found, Value) and isinstance(found.value, list) else []


def _manifest(found: Found) -> dict[str, Json]:
    try:
        said = json.loads(found.value) if isinstance(found, Value) else {}
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _component(said: dict[str, Json], name: str) -> str:
    part = said.get(name)
    version = part.get("version") if isinstance(part, dict) else None
    return version if isinstance(version, str) else ""


def _version(path: str, said: dict[str, Json], text: Found, header: Found) -> str:
    """By its manifest, by the text file of old releases, by the C header. Raises: Missing."""
    if version := _component(said, "cuda"):
        return version
    if isinstance(text, Value) and (match := re.search(r"CUDA Version (\d[0-9.]*)", text.value)):
        return match.group(1)
    if isinstance(header, Value) and (match := re.search(r"#define\s+CUDA_VERSION\s+(\d{4,6})", header.value)):
        return f"{int(match.group(1)) // 1000}.{int(match.group(1)) % 1000 // 10}"
    raise Missing(Why.ABSENT, f"no version is written in {path}")


def _nvcc_version(host: Host, path: str, said: dict[str, Json], held: Cache) -> str:
    """By the manifest, else by the text in the compiler, which is not run. Raises: Missing."""
    if version := _component(said, "cuda_nvcc"):
        return version
    compiler = host.realpath(f"{path}/bin/nvcc")
    version = held.remembered("nvcc", compiler, host.stat(compiler), lambda: host.one("find", compiler, _NVCC_TEXT))
    if not version:
        raise Missing(Why.NOT_SUPPORTED, f"no version is written in {compiler}")
    return str(version)
