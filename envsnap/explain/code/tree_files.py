"""What a file of a source tree is, by its name: what can act on a server that runs from the tree, and what cannot."""

from __future__ import annotations

import posixpath
import re
from enum import Enum


class Role(str, Enum):
    """Why a file is there."""

    PYTHON = "python"
    KERNEL = "kernel"
    """Source of a kernel or an extension: it acts once it is compiled."""
    LIBRARY = "library"
    """A compiled library."""
    CLIENT = "client"
    """A benchmark: it acts if it is the one that measured."""
    TEST = "test"
    DOCUMENT = "document"
    AUTOMATION = "automation"
    """Continuous integration, containers, packaging: it acts when something is built."""
    TUNING = "tuning"
    """A table of tuned kernel settings for one kind of GPU."""
    OTHER = "other"


WITHOUT_EFFECT = {
    Role.TEST: "a test, which no server runs",
    Role.DOCUMENT: "documentation",
    Role.AUTOMATION: "it acts when something is built or published, not when a server runs",
}
"""Roles of files that no running server looks at, with the reason."""

_RULES: tuple[tuple[str, Role], ...] = (
    (r"(?:.*/)?(?:tests?|testing)/.*|(?:.*/)?(?:test_[^/]*|[^/]*_test|conftest)\.(?:py|cpp|cc|cu)", Role.TEST),
    (r"(?:docs?|documentation|assets|licenses?)/.*|.*\.(?:md|rst|ipynb|png|jpe?g|svg|gif|pdf)|"
     r"(?:.*/)?(?:LICENSE|NOTICE|CHANGELOG|AUTHORS|CODEOWNERS)[^/]*", Role.DOCUMENT),
    (r"\.(?:github|gitlab|circleci|buildkite|devcontainer|vscode)/.*|(?:.*/)?\.(?:git|pre-commit|editor|isort|clang|"
     r"dockerignore|coveragerc)[^/]*|(?:docker|ci|3rdparty/ci)/.*|(?:.*/)?(?:Dockerfile|Jenkinsfile)[^/]*|"
     r"(?:.*/)?(?:pyproject[^/]*\.toml|setup\.(?:py|cfg)|MANIFEST\.in|requirements[^/]*\.txt|uv\.lock|codecov\.yml)",
     Role.AUTOMATION),
    (r"(?:.*/)?(?:bench[^/]*|benchmark[^/]*)(?:/.*|\.py)", Role.CLIENT),
    (r".*\.(?:cu|cuh|cpp|cc|cxx|c|h|hpp|hip|inl|ptx)|(?:.*/)?CMakeLists\.txt|.*\.cmake", Role.KERNEL),
    (r".*\.so(?:\.\d+)*|.*\.(?:cubin|fatbin|hsaco|dylib)", Role.LIBRARY),
    (r".*device_name=[^/]*\.json", Role.TUNING),
    (r".*\.pyi", Role.DOCUMENT),
    (r".*\.py", Role.PYTHON),
)  # fmt: skip
_COMPILED = tuple((re.compile(pattern), role) for pattern, role in _RULES)


def role_of(path: str) -> Role:
    """What a file is by its path in the tree."""
    return next((role for pattern, role in _COMPILED if pattern.fullmatch(path)), Role.OTHER)


def tuned_for(path: str) -> str:
    """The GPU that a table of tuned settings is for: `E=8,N=1792,device_name=NVIDIA_H200.json` is for `NVIDIA H200`."""
    match = re.search(r"device_name=([^,]+?)(?:,[^/]*)?\.json\Z", posixpath.basename(path))
    return match[1].replace("_", " ") if match else ""


def package_of(path: str) -> tuple[str, ...]:
    """Distributions that sources in a tree are built into, where those are others than the tree's own."""
    top = path.split("/", 1)[0]
    return ("sglang-kernel", "sgl-kernel") if top in ("sgl-kernel", "sglang-kernel") else ()
