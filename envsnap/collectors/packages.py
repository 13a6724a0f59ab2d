"""Packages: every installed distribution, where it came from, and what contradicts what."""

from __future__ import annotations

from collections.abc import Iterator

from envsnap import cache
from envsnap.collectors import Partial
from envsnap.collectors._dists import Dist, Installed, installed
from envsnap.collectors._interpreter import Interpreter, interpreter
from envsnap.collectors._pins import violated
from envsnap.host import Host
from envsnap.keys import At, Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Unavailable, Value, Why
from envsnap.scope import Scope

METHOD = "metadata directories on the interpreter's path, read as text"

_KERNELS = (Effect.COMPUTE, Effect.VERIFY, Effect.DRAFT, Effect.PREFILL)
_ENGINE = (Effect.HOST_LAUNCH, Effect.VERIFY, Effect.DRAFT, Effect.ACCEPTANCE, Effect.COMMUNICATION, Effect.PREFILL)
_LINK = (Effect.COMMUNICATION,)
_ANY = (Effect.HOST_LAUNCH,)

_MATTERS = (
    At("torch", effects=(*_KERNELS, Effect.COMMUNICATION, Effect.HOST_LAUNCH), prior=0.6),
    At("torchao", effects=_KERNELS, prior=0.3),
    At("torch-*", effects=_KERNELS, prior=0.3),
    At("triton*", effects=_KERNELS, prior=0.5),
    At("pytorch-triton*", effects=_KERNELS, prior=0.5),
    At("sglang", effects=_ENGINE, prior=0.6),
    At("sglang-kernel*", effects=_KERNELS, prior=0.6),
    At("sgl-kernel*", effects=_KERNELS, prior=0.6),
    At("sgl-*", effects=_KERNELS, prior=0.5),
    At("vllm*", effects=_ENGINE, prior=0.6),
    At("tensorrt-llm*", effects=_ENGINE, prior=0.6),
    At("tensorrt*", effects=_KERNELS, prior=0.4),
    At("flashinfer*", effects=_KERNELS, prior=0.6),
    At("flash-attn*", effects=_KERNELS, prior=0.6),
    At("flash-mla*", effects=_KERNELS, prior=0.6),
    At("deep-gemm*", effects=_KERNELS, prior=0.6),
    At("deep-ep*", effects=(Effect.COMMUNICATION, Effect.COMPUTE), prior=0.6),
    At("tilelang*", effects=_KERNELS, prior=0.4),
    At("apache-tvm-ffi*", effects=_KERNELS, prior=0.2),
    At("quack-kernels", effects=_KERNELS, prior=0.4),
    At("xformers", effects=_KERNELS, prior=0.4),
    At("cupy*", effects=_LINK, prior=0.2),
    At("nvidia-nccl*", effects=_LINK, prior=0.7),
    At("nvidia-nvshmem*", effects=_LINK, prior=0.5),
    At("nvidia-cudnn*", effects=_KERNELS, prior=0.5),
    At("nvidia-cublas*", effects=_KERNELS, prior=0.5),
    At("nvidia-cutlass*", effects=_KERNELS, prior=0.4),
    At("nvidia-cuda-nvcc*", effects=_KERNELS, prior=0.3),
    At("nvidia-ml-py", effects=_ANY, prior=0.02),
    At("nvidia-*", effects=_KERNELS, prior=0.3),
    At("mooncake*", effects=_LINK, prior=0.4),
    At("nixl*", effects=_LINK, prior=0.4),
    At("transformers", effects=(Effect.WORKLOAD, Effect.ACCEPTANCE, Effect.HOST_LAUNCH), prior=0.3),
    At("tokenizers", effects=(Effect.WORKLOAD, Effect.HOST_LAUNCH), prior=0.3),
    At("compressed-tensors", effects=_KERNELS, prior=0.3),
    At("xgrammar", effects=(Effect.HOST_LAUNCH, Effect.ACCEPTANCE), prior=0.4),
    At("outlines*", effects=(Effect.HOST_LAUNCH, Effect.ACCEPTANCE), prior=0.2),
    At("llguidance", effects=(Effect.HOST_LAUNCH, Effect.ACCEPTANCE), prior=0.2),
    At("numpy", effects=_ANY, prior=0.1),
    At("uvloop", effects=_ANY, prior=0.1),
    At("pyzmq", effects=_ANY, prior=0.1),
    At("msgspec", effects=_ANY, prior=0.1),
    At("numba*", effects=_ANY, prior=0.1),
    At("setproctitle", effects=_ANY, prior=0.02),
)

_CONDA_MATTERS = (
    At("nccl", effects=_LINK, prior=0.7),
    At("pytorch*", effects=_KERNELS, prior=0.6),
    At("libtorch", effects=_KERNELS, prior=0.6),
    At("cud*", effects=_KERNELS, prior=0.4),
    At("libcu*", effects=_KERNELS, prior=0.4),
    *_MATTERS,
)

_SWAP = "pip install NAME==VERSION puts the other version back; a running server keeps what it has loaded."

KEYS = (
    Key("package[].version", Type.STRING, Kind.IDENTITY, "Version of an installed Python distribution.",
        _ANY, 0.05, Lever.PACKAGE, _SWAP, at=_MATTERS),
    Key("package[].local_tag", Type.STRING, Kind.IDENTITY,
        "Local part of a distribution's version, as cu128: which variant of the same release was built.",
        _ANY, 0.05, Lever.PACKAGE, _SWAP, at=_MATTERS),
    Key("package[].origin", Type.STRING, Kind.IDENTITY,
        "Where a distribution was installed from: index, editable, vcs, directory, url, conda, or distro.",
        _ANY, 0.05, Lever.PACKAGE, at=_MATTERS),
    Key("package[].editable_path", Type.STRING, Kind.IDENTITY,
        "Source tree that an editable installation imports from, so that its version says nothing about its content.",
        _ANY, 0.05, Lever.GIT, "Compare the repository at that path.", at=_MATTERS),
    Key("package[].vcs_commit", Type.STRING, Kind.IDENTITY, "Commit that a distribution was installed from.",
        _ANY, 0.05, Lever.PACKAGE, at=_MATTERS),
    Key("package[].record_sha256", Type.STRING, Kind.IDENTITY,
        "Hash of a distribution's list of files and their hashes: another build of the same version shows here.",
        _ANY, 0.03, Lever.PACKAGE, at=_MATTERS),
    Key("package[].copies_count", Type.INTEGER, Kind.IDENTITY,
        "How many copies of one distribution are on the import path, given where there is more than one.",
        (*_ANY, Effect.VALIDITY), 0.2, Lever.PACKAGE, "Uninstall it until none is left, then install it once.",
        at=_MATTERS),
    Key("package[].copy_versions", Type.STRINGS, Kind.IDENTITY,
        "Versions of all copies of a distribution, given where there is more than one.",
        (*_ANY, Effect.VALIDITY), 0.2, Lever.PACKAGE, at=_MATTERS),
    Key("package[].violated_pins", Type.STRINGS, Kind.IDENTITY,
        "Requirements of a distribution that the installed versions of others violate.",
        _ANY, 0.1, Lever.PACKAGE, "Engines check few of their pins at start, and only for a minimum.", at=_MATTERS),
    Key("packages.broken", Type.STRINGS, Kind.IDENTITY,
        "Leftovers of interrupted installations, and metadata that cannot be read, on the import path.",
        (Effect.VALIDITY,), 0.1, Lever.FILE, "Entries that begin with ~ can be deleted."),
    Key("conda[].version", Type.STRING, Kind.IDENTITY, "Version of a package that conda installed.",
        _ANY, 0.05, Lever.PACKAGE, at=_CONDA_MATTERS),
    Key("conda[].build", Type.STRING, Kind.IDENTITY, "Build string of a package that conda installed.",
        _ANY, 0.05, Lever.PACKAGE, at=_CONDA_MATTERS),
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    python = interpreter(host, scope)
    found = installed(host, scope)
    for name, copies in found.copies.items():
        yield from _package(name, copies)
    yield "packages.broken", Value(found.broken)
    yield from _pins(host, scope, python, found)
    yield from _conda(found.conda)
    unseen = [*python.doubts, *(f"{path} cannot be listed" for path in found.unread)]
    if unseen:
        raise Partial("there may be more packages: " + "; ".join(unseen))


def _package(name: str, copies: list[Dist]) -> Iterator[tuple[str, Found]]:
    dist = copies[0]
    yield f"package[{name}].version", dist.version
    yield f"package[{name}].origin", Value(dist.origin)
    if dist.tag:
        yield f"package[{name}].local_tag", Value(dist.tag)
    if dist.editable_path:
        yield f"package[{name}].editable_path", Value(dist.editable_path)
    if dist.vcs_commit:
        yield f"package[{name}].vcs_commit", Value(dist.vcs_commit)
    if not (isinstance(dist.record, Unavailable) and dist.record.why is Why.ABSENT):  # old formats have none
        yield f"package[{name}].record_sha256", dist.record
    if len(copies) > 1:
        yield f"package[{name}].copies_count", Value(len(copies))
        versions = sorted(str(c.version.value) for c in copies if isinstance(c.version, Value))
        yield f"package[{name}].copy_versions", Value(versions)


def _pins(host: Host, scope: Scope, python: Interpreter, found: Installed) -> Iterator[tuple[str, Found]]:
    versions = {n: str(d.version.value) for n, d in found.first.items() if isinstance(d.version, Value)}
    requires = {name: dist.requires for name, dist in found.first.items() if dist.requires}
    broken: dict[str, list[str]] = {}
    unclear: dict[str, str] = {}
    with cache.opened(host, scope, "packages") as held:
        for name, what, judged in violated(requires, versions, _markers(host, python), held):
            if judged:
                broken.setdefault(name, []).append(what)
            else:
                unclear[name] = what
    for name, pins in broken.items():
        yield f"package[{name}].violated_pins", Value(sorted(pins))
    for name in unclear.keys() - broken.keys():
        detail = f"cannot be understood: {unclear[name][:200]}"
        yield f"package[{name}].violated_pins", Unavailable(Why.NOT_SUPPORTED, detail)


def _markers(host: Host, python: Interpreter) -> dict[str, str]:
    """What environment markers of requirements are evaluated against: the interpreter's, not envsnap's own."""
    version = str(python.version.value) if isinstance(python.version, Value) else python.minor
    return {
        "python_version": python.minor,
        "python_full_version": version,
        "implementation_name": python.implementation,
        "implementation_version": version,
        "platform_python_implementation": {"cpython": "CPython", "pypy": "PyPy"}.get(python.implementation, ""),
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": str(host.self()["machine"]),
    }


def _conda(found: Found) -> Iterator[tuple[str, Found]]:
    """What conda itself recorded, by the names of its files alone."""
    if not isinstance(found, Value):
        if not (isinstance(found, Unavailable) and found.why is Why.ABSENT):
            yield "conda", found
        return
    for file in found.value:
        name, version, build = (["", "", "", *file.removesuffix(".json").rsplit("-", 2)])[-3:]
        if file.endswith(".json") and name:
            yield path_of("conda[].version", name), Value(version)
            yield path_of("conda[].build", name), Value(build)
