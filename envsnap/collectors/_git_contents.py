"""The contents of files that differ: as git would store them, and as it has stored what they differ from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from envsnap.collectors._git_clean import (
    Config,
    Conversion,
    attributes,
    attributes_request,
    conversion,
    is_lfs_pointer,
    lfs_pointer,
)
from envsnap.collectors._git_index import WorkingTree
from envsnap.collectors._git_listing import EXECUTABLE, FILE, Version, blob_name
from envsnap.collectors._git_run import Git, output_of
from envsnap.host import Host, Request
from envsnap.reading import Found, Unavailable, Value, Why

MAX_CONVERTED = 5000
"""Files whose attributes are asked for."""
MAX_TEXT_BYTES = 1 << 20
"""Largest content that is read of one file or blob."""
MAX_UNTRACKED_TEXT_BYTES = 200_000
MAX_TEXTS_BYTES = 8 << 20
"""Content that is read in all, of files and of blobs."""

Current = Version | Unavailable | None
"""A path in the working tree, as git would store it: None where nothing is, a reason where that cannot be told."""


@dataclass
class Stored:
    """What differs from the index, as git would store it."""

    current: dict[str, Current] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    """The content of those that were read."""


def as_stored(
    host: Host, git: Git, config: Config, working: WorkingTree, blobs: Mapping[str, bytes], algorithm: str
) -> Stored:
    """Convert what differs as git would. `blobs` holds what the index has, as far as it was read.

    Raises: Missing where git does not tell the files' attributes.
    """
    stored = Stored({**working.differs, **working.untracked}, dict(working.targets))
    regular = [p for p, v in stored.current.items() if isinstance(v, Version) and v.mode in (FILE, EXECUTABLE)]
    if not regular:
        return stored
    read = _affordable(regular, working)
    requests: list[Request] = [attributes_request(git, regular[:MAX_CONVERTED])]
    requests += [["read", f"{git.directory}/{path}", MAX_TEXT_BYTES] for path in read]
    answer, *texts = host.found(requests)
    rules = {path: conversion(values, config) for path, values in attributes(output_of(answer, git.directory)).items()}
    contents = {path: _bytes(found.value) for path, found in zip(read, texts) if isinstance(found, Value)}
    pointers = _lfs_pointers(host, git, [path for path in regular if path in rules and rules[path].lfs], working)
    for path in regular:
        old = working.indexed.get(path)
        before = blobs.get(old.blob) if old else None
        data = _converted(rules.get(path), contents.get(path), pointers.get(path), before)
        version = stored.current[path]
        assert isinstance(version, Version)
        if isinstance(data, bytes):
            stored.contents[path] = data
            stored.current[path] = Version(version.mode, blob_name(data, algorithm))
        elif data:
            stored.current[path] = data
    return stored


def _converted(
    rule: Conversion | None, content: bytes | None, pointer: Found | None, before: bytes | None
) -> bytes | Unavailable | None:
    """The content that git would store, why it cannot be told, or None: the file as it is, which was not read."""
    if rule is None:
        return Unavailable(Why.TOO_LARGE, f"more than {MAX_CONVERTED} files differ; this one was not looked into")
    if rule.opaque:
        return Unavailable(Why.NOT_SUPPORTED, rule.described)
    if rule.lfs and not (content is not None and is_lfs_pointer(content)):
        return pointer.value if isinstance(pointer, Value) else Unavailable(Why.NOT_SUPPORTED, rule.described)
    if content is None:
        return None if rule.plain else Unavailable(Why.TOO_LARGE, "git converts its line ends; too large to do so here")
    return rule.clean(content, before)


def _affordable(paths: list[str], working: WorkingTree) -> list[str]:
    """Those whose content may be read: in order, as long as there is room."""
    chosen = []
    room = MAX_TEXTS_BYTES
    for path in paths:
        size = working.sizes[path]
        if size <= (MAX_UNTRACKED_TEXT_BYTES if path in working.untracked else MAX_TEXT_BYTES) and size <= room:
            room -= size
            chosen.append(path)
    return chosen


def _lfs_pointers(host: Host, git: Git, paths: list[str], working: WorkingTree) -> dict[str, Found]:
    sums = host.found([["hash", f"{git.directory}/{path}"] for path in paths])
    return {
        path: Value(lfs_pointer(found.value, working.sizes[path])) if isinstance(found, Value) else found
        for path, found in zip(paths, sums)
    }


def read_blobs(host: Host, git: Git, names: Iterable[str]) -> dict[str, bytes]:
    """The contents of blobs by name, without those that are too large or not there."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    [checked] = host.found([git.request("cat-file", "--batch-check", stdin="".join(f"{n}\n" for n in wanted))])
    room = MAX_TEXTS_BYTES
    chosen = []
    for name, digits in re.findall(r"^([0-9a-f]+) blob (\d+)$", output_of(checked, git.directory), re.MULTILINE):
        size = int(digits)
        if size <= min(MAX_TEXT_BYTES, room):
            room -= size
            chosen.append((name, size))
    [answer] = host.found([git.request("cat-file", "--batch", stdin="".join(f"{name}\n" for name, _ in chosen))])
    data = _bytes(output_of(answer, git.directory))
    blobs = {}
    position = 0
    for name, size in chosen:
        start = data.index(b"\n", position) + 1
        blobs[name] = data[start : start + size]
        position = start + size + 1
    return blobs


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
