"""What git would store of a working file: line ends, `$Id$` and LFS pointers undone here, filters never run.

A working file can differ from its blob without being changed, because git converts files on their way in. Where that
conversion is a program (a clean filter) or an encoding, nobody but git can say whether the file is changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from envsnap.collectors._git_run import Git
from envsnap.host import Request

ATTRIBUTES = ("filter", "text", "crlf", "eol", "ident", "working-tree-encoding")
Config = Mapping[str, list[str]]
"""Git's settings: lower-case name -> its values, the last of which holds."""


def is_true(config: Config, name: str, default: bool = False) -> bool:
    """A boolean setting, as git reads it."""
    values = config.get(name)
    return values[-1].lower() not in ("false", "no", "off", "0", "") if values else default


_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n"
_IDENT = re.compile(rb"\$Id:[^\n$]*\$")


def attributes_request(git: Git, paths: list[str]) -> Request:
    """Ask git which attributes the paths have; it reads attribute files and nothing else."""
    return git.request("check-attr", "-z", "--stdin", *ATTRIBUTES, stdin="".join(f"{path}\0" for path in paths))


def attributes(output: str) -> dict[str, dict[str, str]]:
    """Path -> attribute -> its value, `set`, `unset` or `unspecified`."""
    fields = output.split("\0")[:-1]
    found: dict[str, dict[str, str]] = {}
    for path, name, value in zip(fields[::3], fields[1::3], fields[2::3]):
        found.setdefault(path, {})[name] = value
    return found


@dataclass(frozen=True)
class Conversion:
    """How git converts one file on its way in."""

    filter: str = ""
    """The clean filter that applies: a program."""
    encoding: str = ""
    """The encoding of the working file, unless UTF-8."""
    line_ends: str = ""
    """`always`: CRLF becomes LF; `auto`: so it does in what looks like text."""
    ident: bool = False

    @property
    def lfs(self) -> bool:
        """Whether it is Git LFS's, which can be done without its program."""
        return self.filter == "lfs"

    @property
    def opaque(self) -> bool:
        """Whether only git itself could do it."""
        return bool(self.encoding or (self.filter and not self.lfs))

    @property
    def plain(self) -> bool:
        """Whether there is none."""
        return not (self.filter or self.encoding or self.line_ends or self.ident)

    @property
    def described(self) -> str:
        """Why the file's state cannot be told, where it is opaque."""
        if self.filter:
            return f"the clean filter {self.filter} applies, which envsnap never runs"
        return f"the file is converted from {self.encoding} by git"

    def clean(self, data: bytes, before: bytes | None) -> bytes:
        """What git stores of a file with this content, which has the content `before` now. Not for opaque ones."""
        convert = self.line_ends == "always"
        if self.line_ends == "auto":
            # NOTE: git leaves CRLF alone in a file that was committed with it.
            convert = not _is_binary(data) and not (before and b"\r\n" in before)
        if convert:
            data = data.replace(b"\r\n", b"\n")
        return _IDENT.sub(b"$Id$", data) if self.ident else data


def conversion(attributes: Mapping[str, str], config: Config) -> Conversion:
    """The conversion that a file's attributes and the repository's settings ask for."""
    name = attributes.get("filter", "unspecified")
    # Without such a setting git stores the file as it is.
    filtered = any(config.get(f"filter.{name}.{setting}", [""])[-1] for setting in ("clean", "process", "required"))
    encoding = attributes.get("working-tree-encoding", "unspecified")
    text = attributes.get("text", "unspecified")
    if text == "unspecified":
        # The attribute's old name, whose value `input` stands for text with eol=lf.
        text = {"input": "set"}.get(attributes.get("crlf", ""), attributes.get("crlf", text))
    if text == "unspecified" and attributes.get("eol") in ("lf", "crlf"):
        text = "set"
    if text == "unspecified" and is_true(config, "core.autocrlf"):  # `input` included
        text = "auto"
    return Conversion(
        filter=name if filtered else "",
        encoding="" if encoding.lower() in ("set", "unset", "unspecified", "utf-8", "utf8") else encoding,
        line_ends={"set": "always", "auto": "auto"}.get(text, ""),
        ident=attributes.get("ident") == "set",
    )


def is_lfs_pointer(data: bytes) -> bool:
    """Whether this is such a pointer, which Git LFS stores as it is."""
    return len(data) < 1024 and data.startswith(_LFS_POINTER[:42])


def lfs_pointer(sha256: str, size: int) -> bytes:
    """What git stores of a file that Git LFS keeps: a pointer to its content."""
    return _LFS_POINTER % (sha256.encode("ascii"), size) if size else b""


def _is_binary(data: bytes) -> bool:
    return b"\0" in data or b"\r" in data.replace(b"\r\n", b"")
