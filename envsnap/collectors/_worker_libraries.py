"""Which libraries each worker has mapped: what it runs on, whatever is installed by now."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envsnap.cache import Cache
from envsnap.collectors._library_version import HEADER_BYTES, ROLES, header_beside, nccl_text, version
from envsnap.host import Host, value_of
from envsnap.keys import At, Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Missing, Unavailable, Value, attempt
from envsnap.workers import elf

if TYPE_CHECKING:
    from envsnap.workers.maps import Mapped, Maps

_LINK = (Effect.COMMUNICATION, Effect.VERIFY)
_KERNELS = (Effect.COMPUTE, Effect.VERIFY, Effect.DRAFT, Effect.PREFILL)
_HOST = (Effect.HOST_LAUNCH,)

_AT = (
    At("nccl/*", effects=_LINK, prior=0.7),
    At("nccl_*/*", effects=_LINK, prior=0.7),
    At("nvshmem/*", effects=_LINK, prior=0.5),
    At("verbs*/*", effects=_LINK, prior=0.4),
    At("fabric/*", effects=_LINK, prior=0.4),
    At("ucx/*", effects=_LINK, prior=0.4),
    At("mpi/*", effects=_LINK, prior=0.3),
    At("cuda_driver/*", effects=(*_KERNELS, *_HOST), prior=0.5),
    At("allocator/*", effects=_HOST, prior=0.4),
    At("openmp/*", effects=_HOST, prior=0.3),
    At("libc/*", effects=_HOST, prior=0.1),
)

KEYS = (
    Key("worker[].library[].path", Type.STRING, Kind.IDENTITY,
        "Library file that the process has mapped; nccl/0 and nccl/1 are two copies in one process.",
        _KERNELS, 0.3, Lever.PACKAGE, at=_AT),
    Key("worker[].library[].version", Type.STRING, Kind.IDENTITY, "Version of that library, by its own file.",
        _KERNELS, 0.5, Lever.PACKAGE,
        "What pip lists, what torch was built with and what a worker has mapped can be three versions.", at=_AT),
    Key("worker[].library[].build_id", Type.STRING, Kind.IDENTITY,
        "Build id of what is mapped: another build of the same version shows here.", _KERNELS, 0.3, Lever.PACKAGE,
        at=_AT),
    Key("worker[].library[].replaced", Type.BOOLEAN, Kind.IDENTITY,
        "Whether the file was replaced or removed since, so that the process runs what is no longer installed.",
        (Effect.VALIDITY,), 0.4, None, "Restart the server."),
)  # fmt: skip

_ALSO = {
    "nccl_profiler": r"libnccl-profiler[\w-]*\.so(?:\.\d+)*",
    "cublas_lt": r"libcublasLt\.so(?:\.\d+)*",
    "cuda_runtime": r"libcudart[\w.-]*\.so(?:\.\d+)*",
    "nvrtc": r"libnvrtc\.so(?:\.\d+)*",
    "torch_cuda": r"libtorch_cuda\.so",
    "torch_cpu": r"libtorch_cpu\.so",
    "nvshmem": r"libnvshmem_host\.so(?:\.\d+)*",
    "verbs": r"libibverbs\.so(?:\.\d+)*",
    "verbs_driver": r"lib(?:mlx5|mlx4|efa|bnxt_re|irdma|hns|erdma)(?:-rdmav\d+)?\.so(?:\.\d+)*",
    "fabric": r"libfabric\.so(?:\.\d+)*",
    "ucx": r"libucp\.so(?:\.\d+)*",
    "mpi": r"libmpi\.so(?:\.\d+)*",
    "openmp": r"lib(?:gomp|iomp5|omp)(?:-[0-9a-f]+)?\.so(?:\.\d+)*",
    "allocator": r"lib(?:jemalloc|tcmalloc|mimalloc)\w*\.so(?:\.\d+)*",
    "libc": r"libc(?:-2\.\d+)?\.so(?:\.\d+)*|ld-musl-.+\.so\.1",
}
_WANTED = re.compile("|".join(f"(?P<{role}>{names})" for role, names in {**ROLES, **_ALSO}.items()))
_VERSIONED = (
    "nccl",
    "nccl_net",
    "cudnn",
    "cublas",
    "cublas_lt",
    "cuda_driver",
    "cuda_runtime",
    "nvrtc",
    "verbs",
    "ucx",
)
"""Roles whose version can be found: in the file, by its name, or in a header beside it."""


@dataclass(frozen=True)
class _Facts:
    """What is known of one file, for all processes that have it mapped."""

    build_id: Found
    """Empty where the file has none."""
    version: Found | None
    """None where nothing would say it."""


def readings(
    host: Host, held: Cache, names: Mapping[int, str], mapped: Mapping[int, Maps | Unavailable]
) -> Iterator[tuple[str, Found]]:
    """Yield the readings of all processes; every file is looked at once, in two batches."""
    from envsnap.workers.maps import Maps

    by_process = {pid: _wanted(m.files) for pid, m in mapped.items() if isinstance(m, Maps)}
    first = {(lib.file_id, lib.path): (pid, role, lib) for pid, libs in by_process.items() for role, lib in libs}
    known = dict(zip(first, _facts(host, held, list(first.values()))))
    for pid, found in mapped.items():
        if isinstance(found, Unavailable):
            yield path_of("worker[].library", names[pid]), found
    for pid, libs in by_process.items():
        for instance, lib in _instances(libs):
            facts = known[lib.file_id, lib.path]
            yield path_of("worker[].library[].path", names[pid], instance), Value(lib.path)
            yield path_of("worker[].library[].replaced", names[pid], instance), Value(lib.deleted)
            if facts.build_id != Value(""):
                yield path_of("worker[].library[].build_id", names[pid], instance), facts.build_id
            if facts.version is not None:
                yield path_of("worker[].library[].version", names[pid], instance), facts.version


def _wanted(files: Sequence[Mapped]) -> list[tuple[str, Mapped]]:
    found = [(match.lastgroup or "", m) for m in files if (match := _WANTED.fullmatch(m.name))]
    return sorted(found, key=lambda item: (item[0], item[1].path, item[1].start))


def _instances(libs: Sequence[tuple[str, Mapped]]) -> Iterator[tuple[str, Mapped]]:
    counts: dict[str, int] = {}
    for role, lib in libs:
        counts[role] = counts.get(role, -1) + 1
        yield f"{role}/{counts[role]}", lib


def _facts(host: Host, held: Cache, libs: Sequence[tuple[int, str, Mapped]]) -> Iterator[_Facts]:
    from envsnap.workers import memory

    heads = memory.read_all(host, [(pid, [(lib.start, elf.HEAD_BYTES)]) for pid, _, lib in libs])
    opened = [_opened(pid, lib) for pid, _, lib in libs]
    headers = [f"/proc/{pid}/root{header_beside(role, lib.path)}" for pid, role, lib in libs]
    requests = [r for o, h in zip(opened, headers) for r in (["stat", o], ["read", h, HEADER_BYTES, True])]
    answers = host.found(requests)
    for (_, role, lib), head, place, stat, header in zip(libs, heads, opened, answers[::2], answers[1::2]):
        build_id = attempt(_build_id, head)
        yield _Facts(
            build_id, attempt(_version, host, held, role, lib, place, stat, header) if role in _VERSIONED else None
        )


def _opened(pid: int, lib: Mapped) -> str:
    """Where the file can be opened from here: in the process's own tree, or, deleted, by its mapping (as root)."""
    if lib.deleted:
        return f"/proc/{pid}/map_files/{lib.start:x}-{lib.end:x}"
    return posixpath.normpath(f"/proc/{pid}/root{lib.path}")


def _build_id(head: list[bytes] | Unavailable) -> str:
    if isinstance(head, Unavailable):
        raise Missing(head.why, head.detail)
    return elf.parse(head[0]).build_id


def _version(host: Host, held: Cache, role: str, lib: Mapped, opened: str, stat: Found, header: Found) -> str:
    if role == "nccl":
        text = nccl_text(host, held, lib.path, value_of(stat), opened)
        return text.partition("+cuda")[0]
    return version(role, lib.path, header)
