"""Which value is the slow one: what is known of values of variables, arguments and other readings.

A change towards the slow value speaks for a suspect, one away from it against: a slow run seldom has the faster
setting. The tables are knowledge of engines and libraries in general, never of one incident.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache

from envsnap.change import Change
from envsnap.explain.setting import Setting
from envsnap.keys import instances_of, pattern_of
from envsnap.reading import Json, Reading, Unset, Value


class Needs(str, Enum):
    """What the setting has to be for a value to matter at all."""

    RANKS = "ranks"
    """Several ranks."""
    HOSTS = "hosts"
    """Several machines."""
    NVLINK = "nvlink"
    """GPUs that NVLink joins."""
    SPECULATION = "speculation"
    LOAD = "load"
    """So many requests at once that a limit is reached."""


class Towards(str, Enum):
    """Where a change goes, as far as is known."""

    SLOW = "slow"
    FAST = "fast"
    NEITHER = "neither"
    """It does not act on speed, or not in this setting."""
    UNKNOWN = "unknown"


LOWER, HIGHER, LIMIT, HARMLESS, ANY = "<", ">", "limit", "harmless", "any"


@dataclass(frozen=True)
class Harm:
    """What is known of the values under some names.

    `names` are patterns: of variables (`NCCL_*`), of arguments (`--attention_backend`), of keys (`cpu.governor`).
    `slow` says which values are slow: words; LOWER or HIGHER of two numbers; LIMIT (the lower number, or any where
    there was none); ANY (what is set against what is not); HARMLESS; none where only `needs` is known. `severe`: nobody
    who wants speed has it set, so that it stands out among innocent changes.
    """

    names: str
    slow: str
    says: str = ""
    severe: bool = False
    needs: Needs | None = None


@dataclass(frozen=True)
class Known:
    """What the tables say of one change; `guessed`: by its name. `ratio` is that of two numbers, larger / smaller."""

    towards: Towards
    severe: bool = False
    says: str = ""
    guessed: bool = False
    gone: bool = False
    ratio: float | None = None


UNKNOWN = Known(Towards.UNKNOWN)


def known(change: Change, setting: Setting) -> Known:
    """What the tables say of a change, in a setting."""
    for harm in _candidates(name_of(change)):
        if (missing := lacking(harm.needs, setting) or _unreached(harm.needs, change, setting)) is not None:
            return Known(Towards.NEITHER, says=missing)
        if harm.slow == HARMLESS:
            return Known(Towards.NEITHER, says=harm.says or "It does not act on the speed of a running server.")
        found = _direction(harm, change.before, change.after)
        if found.towards is not Towards.UNKNOWN:
            return found
    return _switch(change)


def lacking(needs: Needs | None, setting: Setting) -> str | None:
    """In words why a setting makes something indifferent; None where it may matter."""
    match needs:
        case Needs.RANKS if setting.ranks == 1:
            return "There is one rank alone, which exchanges nothing."
        case Needs.HOSTS if setting.hosts == 1:
            return "All ranks are on one machine, where nothing goes over a network."
        case Needs.NVLINK if setting.nvlink is False:
            return "These GPUs have no NVLink."
        case Needs.SPECULATION if setting.speculative is False:
            return "Nothing is speculated."
    return None


_FEW = 8
"""Requests at once that fill no cache of a usual size."""


def _unreached(needs: Needs | None, change: Change, setting: Setting) -> str | None:
    """In words why a limit is not reached by the requests that were sent at once; None where it may be."""
    if needs is not Needs.LOAD or setting.concurrency is None:
        return None
    limits = [n for n in (_number(change.before), _number(change.after)) if n is not None]
    share = bool(limits) and max(limits) <= 1  # of memory, which so few requests do not fill
    if not limits or (setting.concurrency > _FEW if share else min(limits) < setting.concurrency):
        return None
    many = "one request" if setting.concurrency == 1 else f"{setting.concurrency} requests"
    return f"With {many} at a time it does not come to that."


def name_of(change: Change) -> str:
    """The name under which the tables know a change: VARIABLE, --argument, else the key's pattern and leaf."""
    pattern = pattern_of(change.path)
    if pattern.endswith((".env[]", ".env_at_exec[]", ".set[]", ".os_environ_differs[]")) or pattern == "env[]":
        return instances_of(change.path)[-1]
    if pattern.endswith(("argument[]",)):
        return f"--{instances_of(change.path)[-1]}"
    if pattern in ("worker[].argv", "server[].launch_command") and change.leaf:
        return change.leaf.strip("[]")
    if pattern in ("kernel.parameter[]", "nvidia.module[].parameter[]", "cpu.vulnerability[]"):
        return f"{pattern.removesuffix('[]')}[{instances_of(change.path)[-1]}]"
    return pattern


@lru_cache(maxsize=4096)
def _candidates(name: str) -> tuple[Harm, ...]:
    from envsnap.explain.harm_tables import HARMS

    # NOTE: some engines group their arguments: `--parallel_config.disable_custom_all_reduce`.
    names = {name, f"--{name.rpartition('.')[2]}"} if name.startswith("--") else {name}
    return tuple(h for h in HARMS if any(_matches(n, pattern) for pattern in h.names.split() for n in names))


def _matches(name: str, pattern: str) -> bool:
    # NOTE: brackets stand for themselves in keys, and fnmatch would take them for a set of characters.
    return fnmatchcase(name.replace("[", "("), pattern.replace("[", "("))


def _direction(harm: Harm, before: Reading, after: Reading) -> Known:
    if harm.slow in (LOWER, HIGHER, LIMIT):
        return _numbers(harm, before, after)
    if harm.slow == ANY:
        pair = isinstance(before, Value), isinstance(after, Value)
    else:
        words = {word.lower() for word in harm.slow.split()}
        pair = _holds(before, words), _holds(after, words)
    return _towards(harm, *pair)


def _towards(harm: Harm, was_slow: bool, is_slow: bool, ratio: float | None = None) -> Known:
    if was_slow == is_slow:
        return UNKNOWN
    return Known(Towards.SLOW if is_slow else Towards.FAST, harm.severe, harm.says, ratio=ratio)


def _numbers(harm: Harm, before: Reading, after: Reading) -> Known:
    x, y = _number(before), _number(after)
    if x is None or y is None:
        unset = isinstance(before if x is None else after, Unset)
        return _towards(harm, x is not None, y is not None) if harm.slow == LIMIT and unset else UNKNOWN
    if x == y:
        return UNKNOWN
    ratio = max(x, y) / min(x, y) if min(x, y) > 0 else None
    is_slow = (y < x) is (harm.slow != HIGHER)
    return _towards(harm, not is_slow, is_slow, ratio)


def _holds(reading: Reading, words: set[str]) -> bool:
    """Whether one of the words is the value, an item of a list, or a part of a text (`NET/Socket`, `a:1,b:2`)."""
    if isinstance(reading, Unset):
        return "unset" in words
    if not isinstance(reading, Value):
        return False
    value = reading.value
    items: Iterable[Json] = value if isinstance(value, list) else [value]
    texts = {str(item).lower() for item in items}
    texts |= {part for text in texts for part in re.split(r"[,;/\s]", text)}
    return bool(texts & words)


def _number(reading: Reading) -> float | None:
    if not isinstance(reading, Value) or isinstance(reading.value, bool):
        return None
    if isinstance(reading.value, list):
        numbers = [v for v in reading.value if isinstance(v, (int, float)) and not isinstance(v, bool)]
        return float(max(numbers)) if numbers and len(numbers) == len(reading.value) else float(len(reading.value))
    try:
        return float(reading.value)
    except (TypeError, ValueError):
        return None


_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}
_OFF = re.compile(r"(?:^|[_-])(?:disable|no|skip|without)(?:[_-]|$)", re.IGNORECASE)
_TUNED = re.compile(
    r"NCCL_(ALGO|PROTO|P2P_LEVEL|NTHREADS|(MIN|MAX)_(NCHANNELS|CTAS)|NET_GDR_\w+|CUMEM_ENABLE|NVLS_ENABLE|LAUNCH_MODE"
    r"|TOPO_FILE|TUNER_\w+|CONF_FILE|IB_QPS_\w+|CROSS_NIC)|SGLANG_\w*(SPEC|GRAPH|ALL_?REDUCE|AFFINITY|NUMA)\w*"
)
"""Variables that somebody sets for speed."""
_ON = re.compile(r"(?:^|[_-])(?:enable|use)(?:[_-]|$)", re.IGNORECASE)


def _switch(change: Change) -> Known:
    """By its name alone: a feature switched off is likelier the slow side than one switched on."""
    name = name_of(change)
    if ("." in name and not name.startswith("--")) or "[" in name:
        return UNKNOWN
    if _TUNED.fullmatch(name) and isinstance(change.before, Value) and isinstance(change.after, Unset):
        return Known(Towards.SLOW, says="Somebody had set it, for speed as it seems, and it is gone.", gone=True)
    off, on = _OFF.search(name), _ON.search(name)
    if not off and not on:
        return UNKNOWN
    words = _TRUE if off else _FALSE
    harm = Harm(name, "", "A feature is switched off, by its name.")
    return replace(_towards(harm, _holds(change.before, words), _holds(change.after, words)), guessed=True)


def clearest(found: Sequence[Known]) -> Known:
    """What says most of several changes that act as one: a severe harm, a harm, what speaks against it, nothing."""
    order = {Towards.SLOW: 0, Towards.UNKNOWN: 1, Towards.FAST: 2, Towards.NEITHER: 3}
    return min(found, key=lambda k: (order[k.towards], not k.severe, k.guessed, k.gone), default=UNKNOWN)
