"""Names of variables: those set here or in a worker that nobody reads, by the engines' own lists of what they read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from envsnap.collectors import Partial
from envsnap.collectors import _env_names as known
from envsnap.collectors._dists import installed
from envsnap.collectors._interpreter import interpreter
from envsnap.host import Host
from envsnap.keys import Effect, Key, Kind, Type, path_of
from envsnap.reading import Found, Missing, Unavailable, Value, Why
from envsnap.scope import Scope
from envsnap.workers.tree import of_interest

METHOD = "os.environ, memory of the processes of interest, text of the installed engines"

UNKNOWN = Key(
    "env_names.unknown[]", Type.STRING, Kind.VOLATILE,
    "Name that was perhaps meant by a variable which nothing here reads; empty where none is close.",
    (Effect.COMMUNICATION, Effect.HOST_LAUNCH, Effect.COMPUTE), 0.4,
    advice="A misspelt variable is ignored without a word.",
)  # fmt: skip
CHECKED = Key(
    "env_names.checked[]", Type.STRING, Kind.VOLATILE,
    "Where the names come from that the variables of an engine were compared with: a version or a file.", (), 0.02,
)  # fmt: skip
KEYS = (UNKNOWN, CHECKED)

MAX_UNKNOWN = 50
_SOURCE_BYTES = 1 << 20
_CLOSE, _ALMOST_THE_SAME = 0.75, 0.9


@dataclass(frozen=True)
class Names:
    """What one engine reads. `families` are prefixes of further names; `certain`: no name is missing in the list."""

    prefix: str
    names: frozenset[str]
    source: str
    families: tuple[str, ...] = ()
    certain: bool = True

    def knows(self, name: str) -> bool:
        """Whether the engine reads that variable, as far as its lists say."""
        return name in self.names or name.startswith(self.families or "\0")


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings; an engine that is not installed is not asked."""
    environ, unread = _environs(host, scope)
    left = MAX_UNKNOWN
    for engine, list_of in _ENGINES.items():
        prefix = f"{engine.upper()}_"
        mine = [name for name in sorted(environ) if name.startswith(prefix)]
        names = list_of(host, scope) if mine else None
        if names is None:
            continue
        yield path_of(CHECKED.pattern, engine), Value(names.source)
        for name, meant in islice(_unknown(mine, names), left):
            left -= 1
            yield path_of(UNKNOWN.pattern, name[:256]), Value(meant)
    if unread:
        raise Partial(f"the variables of {unread} of the processes of interest could not be read")


def _environs(host: Host, scope: Scope) -> tuple[set[str], int]:
    """Names of all variables that are set here or in a process of interest, and of how many of these none is known.

    A launcher sets variables for its workers alone, and a misspelt one would be seen nowhere else.
    """
    names = set(host.environ())
    try:
        of_interest(host, scope)
    except Missing:  # none is named, or none runs
        return names, 0
    from envsnap.workers import census as workers
    from envsnap.workers.live_env import Environment

    census = workers.take(host, scope)
    unread = 0
    for process in census.processes:
        live, given = census.live[process.pid], census.at_exec[process.pid]
        if isinstance(live, Environment):
            names.update(live.variables)
        elif not isinstance(given, Unavailable):
            names.update(given)
        elif live.why is not Why.GONE:
            unread += 1
    return names, unread


def _unknown(mine: list[str], names: Names) -> Iterator[tuple[str, str]]:
    from difflib import get_close_matches

    for name in mine:
        if names.knows(name):
            continue
        close = get_close_matches(name[:256], names.names, n=1, cutoff=_CLOSE if names.certain else _ALMOST_THE_SAME)
        if close or names.certain:
            yield name, close[0] if close else ""


def _sglang(host: Host, scope: Scope) -> Names | None:
    found = _source(host, scope, "sglang", "srt/environ.py")
    if found is None:
        return None
    path, text = found
    names = frozenset(re.findall(r"\bSGLANG_[A-Z0-9_]+", text)) | known.SGLANG_ELSEWHERE
    return Names("SGLANG_", names, path, known.SGLANG_FAMILIES)


def _vllm(host: Host, scope: Scope) -> Names | None:
    found = _source(host, scope, "vllm", "envs.py")
    if found is None:
        return None
    path, text = found
    return Names("VLLM_", frozenset(re.findall(r"\bVLLM_[A-Z0-9_]+", text)), path)


def _source(host: Host, scope: Scope, package: str, file: str) -> tuple[str, str] | None:
    """Path and text of a package's file where it can be imported from; nothing is imported."""
    try:
        places = list(interpreter(host, scope).path)
        dist = installed(host, scope).first.get(package)
    except Missing:
        return None
    if dist and dist.editable_path:  # first: an import hook may lead there, without a directory on the path
        places = [dist.editable_path, f"{dist.editable_path}/python", *places]
    paths = [f"{place}/{package}/{file}" for place in places]
    for path, found in zip(paths, host.found([["read", path, _SOURCE_BYTES] for path in paths])):
        if isinstance(found, Value):
            return path, str(found.value)
    return None


_ENGINES: Mapping[str, Callable[[Host, Scope], Names | None]] = {
    "nccl": lambda host, scope: Names("NCCL_", known.NCCL, known.NCCL_VERSION, known.NCCL_FAMILIES),
    "sglang": _sglang,
    "vllm": _vllm,
    "cuda": lambda host, scope: Names("CUDA_", known.CUDA, "CUDA's documentation", certain=False),
    "torch": lambda host, scope: Names("TORCH_", known.TORCH, "torch's documentation", certain=False),
}
"""Engine -> its names, or None where it is not installed."""
