"""Libraries: torch, the CUDA toolkit, and every NCCL, cuDNN and cuBLAS that a process here could load."""

from __future__ import annotations

import base64
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from envsnap import cache
from envsnap.cache import Cache
from envsnap.collectors._dists import installed
from envsnap.collectors._interpreter import Interpreter, interpreter
from envsnap.collectors._library_version import HEADER_BYTES, ROLES, header_beside, nccl_text, version
from envsnap.collectors._loader import Candidate, Linked, asked_by, candidates, linked, taken
from envsnap.collectors._toolkits import toolkits
from envsnap.host import Host, value_of
from envsnap.keys import At, Effect, Key, Kind, Lever, Type
from envsnap.reading import Found, Missing, Value, Why, attempt
from envsnap.scope import Scope
from envsnap.workers import elf

METHOD = "files of the interpreter's packages, the loader's cache and search path; versions as written in the files"

_COMMUNICATION = (Effect.COMMUNICATION,)
_KERNELS = (Effect.COMPUTE, Effect.VERIFY, Effect.DRAFT, Effect.PREFILL)

# What is first of its kind is what a process takes; the others lie about.
_MATTERS = (
    At("torch", effects=(*_KERNELS, Effect.COMMUNICATION, Effect.HOST_LAUNCH), prior=0.6),
    At("nccl/0", effects=_COMMUNICATION, prior=0.7),
    At("nccl*/*", effects=_COMMUNICATION, prior=0.3),
    At("cudnn/0", effects=_KERNELS, prior=0.5),
    At("cublas/0", effects=_KERNELS, prior=0.5),
    At("cuda_driver/0", effects=(*_KERNELS, Effect.HOST_LAUNCH), prior=0.4),
    At("cuda_toolkit/0", effects=_KERNELS, prior=0.4),
)

KEYS = (
    Key("library[].path", Type.STRING, Kind.IDENTITY,
        "Where a library stands; the first of its kind, 0, is what torch or else the loader takes.",
        _KERNELS, 0.1, Lever.PACKAGE, at=_MATTERS),
    Key("library[].version", Type.STRING, Kind.IDENTITY, "Version of a library, by its own file.",
        _KERNELS, 0.15, Lever.PACKAGE, "What a running worker has mapped can be another one.", at=_MATTERS),
    Key("library[].cuda_version", Type.STRING, Kind.IDENTITY, "CUDA version that a library was built with.",
        _KERNELS, 0.15, Lever.PACKAGE, at=_MATTERS),
    Key("library[].hip_version", Type.STRING, Kind.IDENTITY, "ROCm HIP version that torch was built with.",
        _KERNELS, 0.15, Lever.PACKAGE, at=_MATTERS),
    Key("library[].nccl_version", Type.STRING, Kind.IDENTITY,
        "NCCL version that torch's package requires, which is the one it was compiled with; "
        "torch.cuda.nccl.version() says this one, whatever is loaded.",
        _COMMUNICATION, 0.3, Lever.PACKAGE),
    Key("library[].git_commit", Type.STRING, Kind.IDENTITY, "Commit that torch was built from.",
        _KERNELS, 0.15, Lever.PACKAGE, at=_MATTERS),
    Key("library[].debug", Type.BOOLEAN, Kind.IDENTITY, "Whether torch is a debug build.",
        _KERNELS, 0.5, Lever.PACKAGE),
    Key("library[].nvcc_version", Type.STRING, Kind.IDENTITY, "Version of the toolkit's compiler.",
        _KERNELS, 0.15, Lever.PACKAGE, at=_MATTERS),
    Key("library[].build_id", Type.STRING, Kind.IDENTITY,
        "Build id in a library: another build of the same version shows here.",
        _KERNELS, 0.1, Lever.PACKAGE, at=_MATTERS),
    Key("library[].found_by", Type.STRINGS, Kind.TUNABLE,
        "What leads to a library: names of variables, site_packages, prefix, torch_rpath, loader_cache, "
        "default_directory, PATH or default.",
        _KERNELS, 0.1, Lever.ENV, at=_MATTERS),
    Key("library[].taken_by", Type.STRINGS, Kind.TUNABLE,
        "Who takes this file by the rules of the dynamic loader: torch, and loader for a plain request by name.",
        _KERNELS, 0.2, Lever.ENV,
        "Torch's wheels search their own directories first: LD_PRELOAD moves their NCCL, LD_LIBRARY_PATH does not.",
        at=_MATTERS),
)  # fmt: skip

_WANTED = re.compile("|".join(f"(?P<{role}>{pattern})" for role, pattern in ROLES.items()))
_ENGINE_VARIABLES = ("SGLANG_NCCL_SO_PATH", "VLLM_NCCL_SO_PATH")
_NAMED = (*_ENGINE_VARIABLES, "LD_PRELOAD")


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    python = interpreter(host, scope)
    environ = python.environ
    with cache.opened(host, scope, "libraries") as held:
        torch, version_file = _torch_directory(host, scope, python)
        if torch:
            yield from _torch(host, scope, torch, version_file)
        yield from toolkits(host, environ, python.path, held)
        yield from _shared(host, environ, python, _torch_links(host, torch, held), held)


# -- torch ----------------------------------------------------------------------------------------------------


def _torch_directory(host: Host, scope: Scope, python: Interpreter) -> tuple[str, str]:
    """Where torch is imported from, and the text of its version.py; empty where there is none."""
    dist = installed(host, scope).first.get("torch")
    places = [*python.path, *([dist.editable_path] if dist and dist.editable_path else [])]
    directories = [f"{place}/torch" for place in places]
    found = host.found([["read", f"{d}/version.py", 1 << 16] for d in directories])
    return next(((d, str(f.value)) for d, f in zip(directories, found) if isinstance(f, Value)), ("", ""))


def _torch(host: Host, scope: Scope, directory: str, text: str) -> Iterator[tuple[str, Found]]:
    yield "library[torch].path", Value(directory)
    for key, name in (("version", "__version__"), ("cuda_version", "cuda"), ("hip_version", "hip"),
                      ("git_commit", "git_version")):  # fmt: skip
        said = re.search(rf"^{name}\s*(?::[^=\n]*)?=\s*['\"]([^'\"\n]+)['\"]", text, re.M)
        if said:
            yield f"library[torch].{key}", Value(said.group(1))
    if debug := re.search(r"^debug\s*(?::[^=\n]*)?=\s*(True|False)", text, re.M):
        yield "library[torch].debug", Value(debug.group(1) == "True")
    dist = installed(host, scope).first.get("torch")
    for line in dist.requires if dist else ():
        if pin := re.match(r"nvidia[-_]nccl[-_]cu\d+\s*\(?==\s*([\w.]+)", line):
            yield "library[torch].nccl_version", Value(pin.group(1))


def _torch_links(host: Host, directory: str, held: Cache) -> Linked | None:
    """What torch's CUDA library asks of the loader; None without one."""
    path = f"{directory}/lib/libtorch_cuda.so"
    stat = host.found([["stat", path]])[0] if directory else None
    if not isinstance(stat, Value):
        return None
    try:
        said = held.remembered("linked", path, stat.value, lambda: asdict(linked(host, path)))
    except Missing:  # no ELF file: torch asks for nothing
        return None
    return Linked(**{name: tuple(said[name]) for name in ("needed", "rpath", "runpath")})


# -- shared libraries -----------------------------------------------------------------------------------------


@dataclass
class _File:
    """One file with all names that lead to it."""

    path: str
    stat: Found
    head: Found
    header: Found
    names: set[str] = field(default_factory=set)
    found_by: set[str] = field(default_factory=set)
    taken_by: set[str] = field(default_factory=set)


def _shared(
    host: Host, environ: Mapping[str, str], python: Interpreter, torch: Linked | None, held: Cache
) -> Iterator[tuple[str, Found]]:
    found = [Candidate(environ[v], v) for v in _ENGINE_VARIABLES if environ.get(v, "").startswith("/")]
    found += candidates(host, environ, python.path, python.prefix, _WANTED)
    if torch:
        known = {c.path for c in found}
        found += [c for c in asked_by(torch, _WANTED) if c.path not in known]
    by_role: dict[str, list[_File]] = {}
    for role, file in _files(host, found):
        by_role.setdefault(role, []).append(file)
    _mark_taken(found, torch, [file for files in by_role.values() for file in files])
    for role, files in by_role.items():
        files.sort(key=lambda f: ("torch" not in f.taken_by, "loader" not in f.taken_by))
        for order, file in enumerate(files):
            yield from _readings(host, role, f"library[{role}/{order}]", file, held)


def _files(host: Host, found: Sequence[Candidate]) -> list[tuple[str, _File]]:
    """Every file once, with its role. What is not there counts only if a variable names it."""
    paths = list(dict.fromkeys(c.path for c in found))
    answers = iter(host.found([request for path in paths for request in _requests(path)]))
    by_path = {path: [next(answers) for _ in _requests(path)] for path in paths}
    files: dict[str, tuple[str, _File]] = {}
    for candidate in found:
        real, stat, head, header = by_path[candidate.path]
        if not isinstance(stat, Value) and candidate.found_by not in _NAMED:
            continue
        path = str(real.value) if isinstance(real, Value) else candidate.path
        _, file = files.setdefault(path, (_role(candidate), _File(path, stat, head, header)))
        file.names.add(candidate.path)
        file.found_by.add(candidate.found_by)
    return list(files.values())


def _requests(path: str) -> list[list[object]]:
    header = header_beside(_role(Candidate(path, "")), path)
    return [
        ["realpath", path],
        ["stat", path],
        ["bytes", path, 0, elf.HEAD_BYTES],
        ["read", header, HEADER_BYTES, True],
    ]


def _role(candidate: Candidate) -> str:
    match = _WANTED.fullmatch(posixpath.basename(candidate.path))
    return (match.lastgroup if match else None) or "nccl"  # a variable can name a file of any name


def _mark_taken(found: Sequence[Candidate], torch: Linked | None, files: Sequence[_File]) -> None:
    present = {name: file for file in files for name in file.names if isinstance(file.stat, Value)}
    there = [c for c in found if c.path in present]
    names = {posixpath.basename(c.path) for c in there}
    for name in names:
        if re.search(r"\.so(\.\d+)?$", name) and (path := taken(name, there)):
            present[path].taken_by.add("loader")
        if torch and name in torch.needed and (path := taken(name, there, torch)):
            present[path].taken_by.add("torch")


def _readings(host: Host, role: str, base: str, file: _File, held: Cache) -> Iterator[tuple[str, Found]]:
    yield f"{base}.path", Value(file.path)
    yield f"{base}.found_by", Value(sorted(file.found_by))
    yield f"{base}.taken_by", Value(sorted(file.taken_by))
    yield f"{base}.build_id", attempt(_build_id, file)
    if role == "nccl":
        text = attempt(lambda: nccl_text(host, held, file.path, value_of(file.stat)))
        version, _, built_with = str(text.value).partition("+cuda") if isinstance(text, Value) else ("", "", "")
        yield f"{base}.version", Value(version) if version else text
        if built_with:
            yield f"{base}.cuda_version", Value(built_with)
    elif role in ("cudnn", "cublas", "cuda_driver"):
        yield f"{base}.version", attempt(_version, role, file)


def _build_id(file: _File) -> str:
    build_id = elf.parse(base64.b64decode(value_of(file.head))).build_id
    if not build_id:
        raise Missing(Why.ABSENT, f"{file.path} has no build id")
    return build_id


def _version(role: str, file: _File) -> str:
    value_of(file.stat)
    return version(role, file.path, file.header)
