"""Installed distributions, read from their metadata as text.

importlib.metadata would take 26 ms to import, and longer to parse; and it looks at its own interpreter alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import escape

from envsnap.collectors._interpreter import Interpreter, interpreter
from envsnap.host import Host
from envsnap.reading import Found, Json, Unavailable, Value, Why
from envsnap.scope import Scope

HEAD_BYTES = 1 << 17
"""How much of a METADATA file is read: its header, some of which hold a whole licence, without the description."""
DIRECT_URL_BYTES = 1 << 16

_KINDS = (".dist-info", ".egg-info")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_FIELD = re.compile(r"^(Name|Version|Requires-Dist):[ \t]*(.*)$", re.M)
_SEPARATORS = re.compile(r"[-_.]+")


@dataclass(frozen=True)
class Dist:
    """One installed copy of a distribution."""

    name: str
    """Normalised as PEP 503 has it."""
    version: Found
    location: str
    """The directory of the import path that it stands in."""
    metadata: str
    """Name of its metadata directory or file there."""
    requires: tuple[str, ...]
    record: Found
    """Hash of its RECORD, the list of its files with their hashes."""
    direct_url: Mapping[str, Json] = field(default_factory=dict)
    """What an installer noted of its origin, empty for an index."""
    tree: str = ""
    """The source tree that an .egg-link leads to."""
    installer: str = ""
    """Who installed it, where that is looked at: in conda's environments."""

    @property
    def origin(self) -> str:
        """index, editable, vcs, directory, url, conda, or distro for what the operating system installed."""
        url = self.direct_url
        if _dict(url.get("dir_info")).get("editable"):
            return "editable"
        if "vcs_info" in url:
            return "vcs"
        if "dir_info" in url:
            return "directory"
        if url:
            return "url"
        if self.installer == "conda":
            return "conda"
        return "distro" if self.location.startswith("/usr/lib") else "index"

    @property
    def tag(self) -> str:
        """The local part of its version: `cu128` of `2.9.1+cu128`."""
        return str(self.version.value).partition("+")[2] if isinstance(self.version, Value) else ""

    @property
    def editable_path(self) -> str:
        """The source tree of an editable installation, else empty."""
        return self.tree or (local_path(self.direct_url.get("url")) if self.origin == "editable" else "")

    @property
    def vcs_commit(self) -> str:
        """The commit that it was installed from, else empty."""
        return str(_dict(self.direct_url.get("vcs_info")).get("commit_id", ""))


@dataclass(frozen=True)
class Installed:
    """All distributions on an import path."""

    copies: dict[str, list[Dist]]
    """Normalised name -> its copies, the one that Python sees first at the beginning."""
    broken: list[str]
    """Leftovers of interrupted installations, and metadata that names nothing."""
    unread: list[str]
    """Directories of the path that could not be listed."""
    conda: Found
    """Names of the files in which conda recorded its packages."""

    @property
    def first(self) -> dict[str, Dist]:
        """Normalised name -> the copy that Python sees."""
        return {name: copies[0] for name, copies in self.copies.items()}


def normalised(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return _SEPARATORS.sub("-", name).lower()


def local_path(url: Json) -> str:
    """The path of a `file:` address, else empty."""
    from urllib.parse import unquote, urlsplit

    if not isinstance(url, str) or not url.startswith("file:"):
        return ""
    return unquote(urlsplit(url).path)


def names_on(listings: Iterable[Sequence[str]]) -> set[str]:
    """Normalised names of the distributions whose metadata stands in listed directories."""
    return {_name(entry) for names in listings for entry in names if entry.endswith(_KINDS)}


def installed(host: Host, scope: Scope) -> Installed:
    """The distributions that the interpreter of interest can import. Raises: Missing."""
    return host.memo(
        f"installed {scope.python} {scope.pids} {scope.match}", lambda: _read(host, interpreter(host, scope))
    )


def _read(host: Host, python: Interpreter) -> Installed:
    """Two round trips: what stands in the directories, then all metadata at once."""
    listed, unread, conda = _listings(host, python)
    entries = [(d, name) for d, names in listed.items() for name in names if name.endswith(_KINDS)]
    links = [(d, name) for d, names in listed.items() for name in names if name.endswith(".egg-link")]
    heads = [path for d, name in entries for path in _heads(d, name)]
    notes = [f"{escape(d)}/*.dist-info/direct_url.json" for d in listed]
    installers = [f"{escape(d)}/*.dist-info/INSTALLER" for d in listed if isinstance(conda, Value)]
    answers = iter(host.found([
        *(["read", path, HEAD_BYTES, True] for path in heads),
        *(["hash", f"{d}/{name}/RECORD"] for d, name in entries),
        *(["read_matching", pattern, DIRECT_URL_BYTES] for pattern in [*notes, *installers]),
        *(["read", f"{d}/{name}", 4096, True] for d, name in links),
    ]))  # fmt: skip
    texts = {path: next(answers) for path in heads}
    hashes = [next(answers) for _ in entries]
    urls = _direct_urls(_matched(next(answers) for _ in notes))
    installed_by = _matched(next(answers) for _ in installers)
    editable = {name.removesuffix(".egg-link"): _first_line(found) for (_, name), found in zip(links, answers)}
    editable = {normalised(name): path for name, path in editable.items()}
    copies: dict[str, list[Dist]] = {}
    broken = [name for names in listed.values() for name in names if name.startswith(("~", "-"))]
    for (directory, entry), record in zip(entries, hashes):
        text = _readable(texts[path] for path in _heads(directory, entry))
        dist = _dist(directory, entry, text, record, urls.get(f"{directory}/{entry}/direct_url.json", {}))
        if dist and (installer := installed_by.get(f"{directory}/{entry}/INSTALLER")):
            dist = replace(dist, installer=installer.strip())
        if dist and editable.get(dist.name) == directory:
            dist = replace(dist, direct_url={"dir_info": {"editable": True}}, tree=directory)
        if dist:
            copies.setdefault(dist.name, []).append(dist)
        if not dist or not isinstance(dist.version, Value):
            broken.append(entry)
    return Installed(
        {name: _in_order(found) for name, found in sorted(copies.items())}, sorted(set(broken)), unread, conda
    )


def _listings(host: Host, python: Interpreter) -> tuple[dict[str, list[str]], list[str], Found]:
    """Names in every directory of the path, each directory once however many links lead to it; and conda's."""
    asked = [request for p in python.path for request in (["realpath", p], ["list", p])]
    *answers, conda = host.found([*asked, ["list", f"{python.prefix}/conda-meta"]])
    listed: dict[str, list[str]] = {}
    seen, unread = set(), []
    for path, real, names in zip(python.path, answers[::2], answers[1::2]):
        place = real.value if isinstance(real, Value) else path
        if isinstance(names, Value) and place not in seen:
            listed[path] = names.value
            seen.add(place)
        elif isinstance(names, Unavailable) and names.why is not Why.ABSENT:
            unread.append(path)
    return listed, unread, conda


def _heads(directory: str, entry: str) -> list[str]:
    """Where the metadata's text can stand; an .egg-info is a directory or, often on Debian, a file alone."""
    path = f"{directory}/{entry}"
    return [f"{path}/METADATA"] if entry.endswith(".dist-info") else [f"{path}/PKG-INFO", path]


def _readable(found: Iterable[Found]) -> Found:
    """The first that could be read, else the first."""
    several = list(found)
    return next((f for f in several if isinstance(f, Value)), several[0])


def _matched(found: Iterable[Found]) -> dict[str, str]:
    """Texts of all files that several patterns matched."""
    answers = (item for f in found if isinstance(f, Value) for item in f.value.items())
    return {path: answer[1] if answer[0] == "ok" else "" for path, answer in answers}


def _direct_urls(texts: Mapping[str, str]) -> dict[str, dict[str, Json]]:
    """Path of direct_url.json -> its content; one that is no JSON counts as a url of no known kind."""
    urls = {}
    for path, text in texts.items():
        try:
            urls[path] = _dict(json.loads(text)) or {"url": ""}
        except (ValueError, RecursionError):
            urls[path] = {"url": ""}
    return urls


def _first_line(found: Found) -> str:
    return str(found.value).split("\n", 1)[0].strip() if isinstance(found, Value) else ""


def _dist(directory: str, entry: str, text: Found, record: Found, direct_url: dict[str, Json]) -> Dist | None:
    """None for metadata that names nothing."""
    fields: dict[str, list[str]] = {}
    for name, value in _FIELD.findall(_header(str(text.value))) if isinstance(text, Value) else ():
        fields.setdefault(name, []).append(value.strip())
    name = normalised(fields.get("Name", [_name(entry)])[0])
    if not _NAME.match(name):
        return None
    version: Found = text
    if isinstance(text, Value):
        said = fields.get("Version", [""])[0]
        version = Value(said) if said else Unavailable(Why.NOT_SUPPORTED, f"{directory}/{entry} says no version")
    return Dist(name, version, directory, entry, tuple(fields.get("Requires-Dist", ())), record, direct_url)


def _header(text: str) -> str:
    """The fields of a METADATA file without the description behind them."""
    end = text.find("\r\n\r\n" if "\r" in text[:200] else "\n\n")
    return text if end < 0 else text[:end]


def _name(entry: str) -> str:
    """The name in `NAME-VERSION.dist-info` and `NAME-VERSION-py3.11.egg-info`."""
    return normalised(entry.rpartition(".")[0].partition("-")[0])


def _in_order(copies: list[Dist]) -> list[Dist]:
    """Readable ones first. Traces that build tools leave of one installation are no copies: what stands in the source
    tree of an editable one, an .egg-info beside the .dist-info of the same version.
    """
    trees = [c.editable_path for c in copies if c.editable_path]
    kept = [c for c in copies if c.editable_path or not any(_below(c.location, tree) for tree in trees)]
    places = list(dict.fromkeys(c.location for c in kept))
    kept.sort(
        key=lambda c: (not isinstance(c.version, Value), places.index(c.location), c.metadata.endswith(".egg-info"))
    )
    return list({(c.location, str(c.version)): c for c in reversed(kept)}.values())[::-1]


def _below(path: str, tree: str) -> bool:
    return path == tree or path.startswith(tree.rstrip("/") + "/")


def _dict(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}
