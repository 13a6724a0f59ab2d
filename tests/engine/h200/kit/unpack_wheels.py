#!/usr/bin/env python3
"""unpack_wheels.py WHEELDIR SITE : unpack wheels into SITE, leaving out what a small
Llama / EAGLE-3 server on an sm_90 GPU never loads (DROP). Standard library only.

fnmatch patterns against paths inside the wheel; "*" also crosses "/". KEEP wins over DROP.
"""

from __future__ import annotations

import fnmatch
import pathlib
import sys
import zipfile

DROP = [
    # sgl_kernel: other architectures and attention libraries (the triton backend is used)
    "sgl_kernel/sm100/*",
    "sgl_kernel/flash_ops*",
    "sgl_kernel/flashmla_ops*",
    "sgl_kernel/infllm_ops*",
    "sgl_kernel/testing/*",
    # flashinfer: only the sources that its run-time compiler includes (KEEP)
    "flashinfer/data/*",
    # static and unused libraries
    "xgrammar/lib/*.a",
    "torchao/_C_cutlass_90a*",
    "torchao/_C_mxfp8*",
    # image generation, tests, type stubs
    "sglang/multimodal_gen/*",
    "jedi/third_party/*",
]
KEEP = [
    "flashinfer/data/include/*",
    "flashinfer/data/cutlass/include/*",
    "flashinfer/data/cutlass/tools/util/include/*",
    "flashinfer/data/spdlog/include/*",
    "flashinfer/data/cccl/cub/cub/*",
    "flashinfer/data/cccl/thrust/thrust/*",
    "flashinfer/data/cccl/libcudacxx/include/*",
]
KEEP_FLAT = ["flashinfer/data/csrc/"]  # files of this folder, not its subfolders


def wanted(path: str) -> bool:
    if any(path.startswith(d) and "/" not in path[len(d) :] for d in KEEP_FLAT):
        return True
    if any(fnmatch.fnmatchcase(path, p) for p in KEEP):
        return True
    return not any(fnmatch.fnmatchcase(path, p) for p in DROP)


def target(path: str) -> str | None:
    """Where an entry goes below SITE, or None (scripts and data files are not installed)."""
    top, _, rest = path.partition("/")
    if not top.endswith(".data"):
        return path
    scheme, _, rest = rest.partition("/")
    return rest if scheme in ("purelib", "platlib") else None


def main(wheels: str, site: str) -> None:
    for wheel in sorted(pathlib.Path(wheels).glob("*.whl")):
        with zipfile.ZipFile(wheel) as z:
            for entry in z.infolist():
                path = target(entry.filename)
                if entry.is_dir() or path is None or not wanted(path):
                    continue
                out = pathlib.Path(site, path)
                out.parent.mkdir(parents=True, exist_ok=True)
                out.write_bytes(z.read(entry))


if len(sys.argv) != 3:
    sys.exit("usage: unpack_wheels.py WHEELDIR SITE")
main(*sys.argv[1:])
