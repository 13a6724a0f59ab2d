"""Which files of a working tree differ from git's index, found without git reading any of them.

The index holds each file's times, inode and size as they were when it was last known to equal its blob. A file
that still has them is unchanged; any other is hashed here. (Git would send it through the clean filters that the
repository configures, which are programs of whoever wrote it.)
"""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
import re
import stat
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from envsnap.cache import SETTLED_SECONDS, Cache
from envsnap.collectors._git_listing import EXECUTABLE, FILE, LINK, SUBMODULE, Entry, Row, Version, blob_name, rows
from envsnap.host import Host, HostError
from envsnap.reading import Error, Found, Json, Missing, Unavailable, Value, Why

MANY = 200
"""Files whose times alone say nothing, from which on it is remembered which of them were unchanged."""
MAX_STALE = 20_000
MAX_STALE_BYTES = 400 << 20
MAX_UNTRACKED = 2000
MAX_UNTRACKED_FILE_BYTES = 16 << 20
MAX_UNTRACKED_BYTES = 64 << 20
_CHUNK = 8192

Stale = tuple[Entry, list[int]]
"""A file that its times do not show to be unchanged, and its status: see `machine.op_lstats`."""


@dataclass
class WorkingTree:
    """How the working files stand to the index."""

    differs: dict[str, Version | Unavailable | None] = field(default_factory=dict)
    """Tracked path -> what the file is now: None where it is gone, a reason where its blob cannot be had."""
    untracked: dict[str, Version | Unavailable] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of each regular file in the two above."""
    targets: dict[str, bytes] = field(default_factory=dict)
    """Where each symbolic link in the two above points."""
    indexed: dict[str, Version] = field(default_factory=dict)
    """Tracked path that differs -> what the index holds."""
    submodules: dict[str, str] = field(default_factory=dict)
    """Path -> the commit that the index records."""
    unmerged: set[str] = field(default_factory=set)
    untracked_count: int = 0
    assume_unchanged_count: int = 0
    skip_worktree_count: int = 0


def compare(
    host: Host, root: str, listing: str, index_mtime_ns: int, file_modes: bool, algorithm: str, held: Cache
) -> WorkingTree:
    """Compare the working files below `root` with the index.

    `index_mtime_ns` must have been read before the listing was made: what was written at that moment or later may
    have changed without its times showing it. `file_modes`: whether the executable bit counts. `algorithm` is that of
    the repository's hashes. `held` remembers what was found to be unchanged where the index does not know it.

    Raises: Missing where more files need to be hashed than is sensible.
    """
    tree = WorkingTree()
    stale: list[Stale] = []
    untracked: list[str] = []
    chunk: list[Row] = []
    for row in rows(listing):
        if row[0] != "?":
            chunk.append(row)
        elif ".envsnap" not in row[4].split("/"):
            untracked.append(row[4])
        if len(chunk) == _CHUNK:
            _sort_out(host, root, chunk, index_mtime_ns, tree, stale)
            chunk = []
    _sort_out(host, root, chunk, index_mtime_ns, tree, stale)
    fingerprint = _fingerprint(stale)
    question = f"unchanged {root} {file_modes}"
    stale = _not_known(stale, fingerprint, held.get(question) if fingerprint else None)
    _hash_stale(host, root, stale, tree, file_modes, algorithm)
    if fingerprint and _settled(stale, float(host.self().get("time", 0.0))):
        held.put(question, [fingerprint, sorted(tree.differs)])
    _hash_untracked(host, root, _without_snapshots(host, root, untracked), tree, algorithm)
    return tree


def _sort_out(
    host: Host,
    root: str,
    chunk: list[Row],
    index_mtime_ns: int,
    tree: WorkingTree,
    stale: list[Stale],
) -> None:
    """Note what is gone, and put what is not plainly unchanged into `stale`."""
    directories = sorted(_above(row[4] for row in chunk))
    stats = host.lstats(root, [*(row[4] for row in chunk), *directories])
    # NOTE: a directory that has become a link does not hold the tracked files, though they can be reached through it.
    gone = {d for d, s in zip(directories, stats[len(chunk) :]) if s is None or not stat.S_ISDIR(s[0])}
    for row, now in zip(chunk, stats):
        tag, mode, _, _, _, times, inode, size = row
        if (  # most files, so this comes first and is kept short
            now
            and times == f"{now[3] // 10**9}:{now[3] % 10**9}\n  mtime: {now[2] // 10**9}:{now[2] % 10**9}"
            and inode == str(now[4] & 0xFFFFFFFF)
            and size == str(now[1] & 0xFFFFFFFF)
            and now[2] < index_mtime_ns
            and tag == "H"
            and mode != SUBMODULE
            and not gone
        ):
            continue
        entry = Entry._make(row)
        if tag.islower():
            tree.assume_unchanged_count += 1
        if entry.stage != "0":
            tree.unmerged.add(entry.path)
        tree.skip_worktree_count += tag in "Ss"
        if now is None or stat.S_ISDIR(now[0]) != (mode == SUBMODULE) or (gone and _below(entry.path, gone)):
            if tag not in "Ss":
                tree.differs[entry.path] = None
                tree.indexed[entry.path] = Version(mode, entry.blob)
        elif mode == SUBMODULE:
            tree.submodules[entry.path] = entry.blob
        else:
            stale.append((entry, now))


def _above(paths: Iterable[str]) -> set[str]:
    """All directories that lie above the paths."""
    found: set[str] = set()
    for path in {path.rpartition("/")[0] for path in paths}:
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return found


def _below(path: str, directories: set[str]) -> bool:
    while path := posixpath.dirname(path):
        if path in directories:
            return True
    return False


def _fingerprint(stale: list[Stale]) -> str:
    """A hash of what the files are by their times, empty where they are too few to remember.

    In a container's image all times and inodes differ from those that git noted when the image was made: without
    remembering, each capture would hash the whole tree.
    """
    if len(stale) < MANY:
        return ""
    identity = json.dumps([[entry.path, entry.mode, entry.blob, now] for entry, now in stale])
    return hashlib.sha256(identity.encode("ascii")).hexdigest()


def _not_known(stale: list[Stale], fingerprint: str, known: Json) -> list[Stale]:
    """Those not known to be unchanged from when the same files were hashed before."""
    if not isinstance(known, list) or len(known) != 2 or known[0] != fingerprint or not isinstance(known[1], list):
        return stale
    changed = set(map(str, known[1]))
    return [item for item in stale if item[0].path in changed]


def _settled(stale: list[Stale], now: float) -> bool:
    """Whether no file is so fresh that it could change again within one tick of its times; `now` is the machine's."""
    newest = max((max(now[2], now[3]) for _, now in stale), default=0)
    return now - newest / 1e9 > SETTLED_SECONDS


def _hash_stale(host: Host, root: str, stale: list[Stale], tree: WorkingTree, file_modes: bool, algorithm: str) -> None:
    size = sum(now[1] for _, now in stale)
    if len(stale) > MAX_STALE or size > MAX_STALE_BYTES:
        raise Missing(
            Why.TOO_LARGE,
            f"{len(stale)} files of {size >> 20} MB may have changed by their times; `git status` updates the index",
        )
    found_all = _versions(host, root, [(entry.path, now) for entry, now in stale], tree, algorithm)
    for (entry, now), found in zip(stale, found_all):
        if isinstance(found, Version) and not file_modes and FILE[:3] == entry.mode[:3] == found.mode[:3]:
            found = Version(entry.mode, found.blob)
        if found != (entry.mode, entry.blob) or entry.stage != "0":
            tree.differs[entry.path] = found
            tree.indexed[entry.path] = Version(entry.mode, entry.blob)
            tree.sizes[entry.path] = now[1]


def _without_snapshots(host: Host, root: str, paths: list[str]) -> list[str]:
    """The paths that are not envsnap's own output: a snapshot must not be a change that the next one sees."""
    maybe = [path for path in paths[:MAX_UNTRACKED] if path.endswith((".json", ".json.gz"))]
    found = host.found([["bytes", f"{root}/{path}", 0, 512] for path in maybe])
    snapshots = {path for path, head in zip(maybe, found) if isinstance(head, Value) and _is_snapshot(head.value)}
    return [path for path in paths if path not in snapshots] if snapshots else paths


def _is_snapshot(encoded: str) -> bool:
    head = base64.b64decode(encoded)
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(31).decompress(head, 64)
        except zlib.error:
            return False
    return re.match(rb'\{\s*"format": "envsnap\.', head) is not None


def _hash_untracked(host: Host, root: str, paths: list[str], tree: WorkingTree, algorithm: str) -> None:
    """Hash untracked files. A trailing slash marks a repository inside this one, which is not a file of this one."""
    tree.untracked_count = len(paths)
    examined = paths[:MAX_UNTRACKED]
    stats = host.lstats(root, examined)
    wanted: list[tuple[str, list[int]]] = []
    budget = MAX_UNTRACKED_BYTES
    for path, now in zip(examined, stats):
        if now is None:
            tree.untracked[path] = Unavailable(Why.GONE, "it vanished")
        elif stat.S_ISDIR(now[0]):
            tree.untracked[path] = Unavailable(Why.NOT_SUPPORTED, "a repository of its own")
        elif stat.S_ISREG(now[0]) and (now[1] > MAX_UNTRACKED_FILE_BYTES or now[1] > budget):
            tree.untracked[path] = Unavailable(Why.TOO_LARGE, f"an untracked file of {now[1] >> 20} MB is not hashed")
        else:
            budget -= now[1]
            wanted.append((path, now))
    for (path, now), found in zip(wanted, _versions(host, root, wanted, tree, algorithm)):
        tree.untracked[path] = found
        tree.sizes[path] = now[1]


def _versions(
    host: Host, root: str, files: list[tuple[str, list[int]]], tree: WorkingTree, algorithm: str
) -> list[Version | Unavailable]:
    """Each file as git would store it if no conversion applied to it."""
    answers = host.found(
        [
            ["link", f"{root}/{path}"]
            if stat.S_ISLNK(now[0])
            else ["blob_hash", f"{root}/{path}", MAX_STALE_BYTES, algorithm]
            for path, now in files
        ]
    )
    return [_version(path, now[0], found, tree, algorithm) for (path, now), found in zip(files, answers)]


def _version(path: str, mode: int, found: Found, tree: WorkingTree, algorithm: str) -> Version | Unavailable:
    if isinstance(found, Unavailable):
        return found
    if isinstance(found, Error):
        raise HostError(found.message)
    if stat.S_ISLNK(mode):
        tree.targets[path] = str(found.value).encode("utf-8", "surrogateescape")
        return Version(LINK, blob_name(tree.targets[path], algorithm))
    return Version(EXECUTABLE if mode & 0o100 else FILE, found.value["hash"])
