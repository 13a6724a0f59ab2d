"""The version of a shared library by its own file: its name, a text in it, or the header beside it."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from envsnap.cache import Cache
from envsnap.host import Host, value_of
from envsnap.reading import Found, Json, Missing, Unavailable, Why

ROLES = {
    "nccl": r"libnccl\.so(?:\.\d+)*",
    "nccl_net": r"libnccl-net[\w-]*\.so(?:\.\d+)*",
    "nccl_tuner": r"libnccl-tuner[\w-]*\.so(?:\.\d+)*",
    "cudnn": r"libcudnn\.so(?:\.\d+)*",
    "cublas": r"libcublas\.so(?:\.\d+)*",
    "cuda_driver": r"libcuda\.so(?:\.\d+)*",
}
"""Role -> the names that a file of it has."""

_NCCL_TEXT = r"NCCL version (\d+\.\d+\.\d+[\w.+-]{0,40})"

# Header beside a library, and the names in it that make its version.
_HEADERS = {
    "cudnn": ("cudnn_version.h", ("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL")),
    "cublas": ("cublas_api.h", ("CUBLAS_VER_MAJOR", "CUBLAS_VER_MINOR", "CUBLAS_VER_PATCH", "CUBLAS_VER_BUILD")),
}
HEADER_BYTES = 1 << 16


def header_beside(role: str, path: str) -> str:
    """Where the header stands that would say the version of a library of this role; a folder where none would."""
    name = _HEADERS.get(role, ("",))[0]
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), "../include", name))


def nccl_text(host: Host, held: Cache, path: str, stat: dict[str, Any], opened: str = "") -> str:
    """What NCCL calls itself, as in `2.27.5+cuda12.9`; the file may have 400 MB, so it is searched once.

    `opened` is what to open in place of `path`, where that is another process's name for it. Raises: Missing.
    """
    file = f"{stat.get('device')}:{stat.get('inode')}"  # by whichever path it is asked for

    def search() -> Json:
        return host.memo(f"nccl_text:{file}", lambda: host.one("find", opened or path, _NCCL_TEXT))

    text = held.remembered("nccl", path, stat, search)
    if not text:
        raise Missing(Why.NOT_SUPPORTED, f"no version is written in {path}")
    return str(text)


def version(role: str, path: str, header: Found) -> str:
    """By the number behind the file's name, else by the header beside it. Raises: Missing."""
    if by_name := re.search(r"\.so\.(\d+\.[\d.]+)$", path):
        return by_name.group(1)
    if isinstance(header, Unavailable) or role not in _HEADERS:
        raise Missing(Why.ABSENT, f"neither the name of {path} nor a header beside it says a version")
    text = str(value_of(header))
    numbers = [re.search(rf"#define\s+{name}\s+(\d+)", text) for name in _HEADERS[role][1]]
    if None in numbers:
        raise Missing(Why.NOT_SUPPORTED, f"the header beside {path} says no version")
    return ".".join(number.group(1) for number in numbers if number)
