"""Packages as pip names them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envsnap.keys import path_of
from envsnap.reading import Json

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,100}[A-Za-z0-9])?"
VERSION = r"\d[A-Za-z0-9.!+_-]{0,80}"
PINNED = re.compile(rf"({_NAME})==({VERSION})\Z")
_FROM = re.compile(rf"({_NAME}) @ (\S+)\Z")
_EDITABLE = re.compile(r"-e (\S+)\Z")
_COMMIT = re.compile(r"@([0-9a-f]{40})(?:#|\Z)")


def name_of(name: str) -> str:
    """A distribution's name as the collector normalises it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def version(name: str, text: str) -> Iterator[tuple[str, Json]]:
    """Readings of a version, the local part apart from it too."""
    known = name_of(name)
    yield path_of("package[].version", known), text
    tag = text.partition("+")[2]
    if tag:
        yield path_of("package[].local_tag", known), tag


def requirement(line: str) -> Iterator[tuple[str, Json]] | None:
    """Readings of a line of `pip freeze`; None where it is none."""
    if match := PINNED.match(line):
        return version(match[1], match[2])
    if match := _FROM.match(line):
        return _elsewhere(match[1], match[2])
    if match := _EDITABLE.match(line):
        egg = re.search(rf"#egg=({_NAME})", match[1])
        return _elsewhere(egg[1], match[1], "editable") if egg else iter(())
    return None


def _elsewhere(name: str, url: str, origin: str = "") -> Iterator[tuple[str, Json]]:
    known = name_of(name)
    from_vcs = re.match(r"(?:git|hg|svn|bzr)\+", url) is not None
    yield path_of("package[].origin", known), origin or ("vcs" if from_vcs else _origin(url))
    if from_vcs and (commit := _COMMIT.search(url)):
        yield path_of("package[].vcs_commit", known), commit[1]


def _origin(url: str) -> str:
    is_file = url.startswith("file:")
    return "directory" if is_file and not url.partition("#")[0].endswith((".whl", ".tar.gz", ".zip")) else "url"
