"""Which value is the slow one: what is known of values of variables, arguments and other readings.

A change towards the slow value speaks for a suspect, one away from it against: a slow run seldom has the faster
setting. The tables are knowledge of engines and libraries in general, never of one incident.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, lru_cache

from envsnap.change import Change
from envsnap.explain.harm_values import fits, holds, names_count, number, place
from envsnap.explain.setting import Setting
from envsnap.keys import instances_of, pattern_of
from envsnap.reading import Reading, Unset, Value


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


LOWER, HIGHER, LIMIT, FEWER, HARMLESS, ANY, OTHER = "<", ">", "limit", "fewer", "harmless", "any", "other"

STEP, ACCEPTANCE, PREFILL = "step", "acceptance", "prefill"
"""Terms of the speed model of which a value may be slow."""


@dataclass(frozen=True)
class Harm:
    """What is known of the values under some names.

    `names` are patterns: of variables (`NCCL_*`), of arguments (`--attention_backend`), of keys (`cpu.governor`), of
    single instances (`nvidia.daemon[dcgm-exporter].running`). `slow` says which values are slow: words; words in order
    (`fa3 > triton`: the farther right the slower, `*` and `unset` among them); LOWER or HIGHER of two numbers; LIMIT
    (the lower number, or any where there was none); FEWER names in a list; ANY (what is set against what is not); OTHER
    (any other value than before, where nobody changes it who wants the same speed); HARMLESS; none where only `needs`
    is known. `severe`: nobody who wants speed has it set, so that it stands out among innocent changes. `makes` is what
    it is known to make of the time of a token, at least and at most, as ratios. `term`: the slow value is that for this
    term alone; a longer draft makes a step longer and has more accepted. `depends`: on some GPUs, topologies, at some
    loads or by some metrics it is the other way round.
    """

    names: str
    slow: str
    says: str = ""
    severe: bool = False
    needs: Needs | None = None
    makes: tuple[float, float] | None = None
    term: str = ""
    depends: bool = False


@dataclass(frozen=True)
class Known:
    """What the tables say of one change; `guessed`: by its name. `makes`: see `Harm`.

    `depends`: see `Harm`; a value for one term or under load alone does, too. `slight`: the values hardly differ.
    """

    towards: Towards
    severe: bool = False
    says: str = ""
    guessed: bool = False
    gone: bool = False
    depends: bool = False
    slight: bool = False
    makes: tuple[float, float] | None = None


UNKNOWN = Known(Towards.UNKNOWN)


def known(change: Change, setting: Setting, moved: frozenset[str] = frozenset()) -> Known:
    """What the tables say of a change, in a setting; `moved` are the terms that did, empty where that is not known.

    Where no line knows its values, how much such a setting can make is still known of its name.
    """
    spans: list[tuple[float, float]] = []
    missing, acts = None, False
    for harm in _candidates(name_of(change), change.path):
        if harm.term and moved and harm.term not in moved:
            continue
        if (why := lacking(harm.needs, setting) or _unreached(harm.needs, change, setting)) is not None:
            missing = missing or why
            continue
        acts = True
        if harm.slow == HARMLESS:
            return Known(Towards.NEITHER, says=harm.says or "It does not act on the speed of a running server.")
        found = told_apart(harm, change.before, change.after)
        if found.towards is not Towards.UNKNOWN:
            found = replace(found, depends=harm.depends or bool(harm.term) or harm.needs is Needs.LOAD)
            gone = found.depends and found.towards is Towards.FAST and _vanished(change)
            return _missed(change, harm.makes) if gone else found
        if harm.makes and (harm.slow in ("", LOWER, HIGHER, LIMIT, FEWER) or " > " in harm.slow):
            spans.append(harm.makes)  # of a line for single values, none of which it has, nothing follows
    if missing and not acts:  # what can act in another way too is not harmless where one way is closed to it
        return Known(Towards.NEITHER, says=missing)
    found = _switch(change)
    return replace(found, makes=max(spans, key=lambda span: span[1])) if spans and found.makes is None else found


def _vanished(change: Change) -> bool:
    """Whether a variable or an argument that somebody had set is not set any more."""
    name = name_of(change)
    option = name.startswith("--") or ("." not in name and "[" not in name)
    return option and isinstance(change.before, Value) and isinstance(change.after, Unset)


def _missed(change: Change, makes: tuple[float, float] | None) -> Known:
    says = f"Somebody had set {name_of(change)}, and it is gone."
    return Known(Towards.SLOW, says=says, gone=True, makes=(1.0, makes[1]) if makes else None)


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
    limits = [n for n in (number(change.before), number(change.after)) if n is not None]
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
def _candidates(name: str, path: str) -> tuple[Harm, ...]:
    # NOTE: some engines group their arguments: `--parallel_config.disable_custom_all_reduce`.
    names = (name, f"--{name.rpartition('.')[2]}") if name.startswith("--") else (name, path)
    exact, patterns, harms = _index()
    found = {i for n in names for i in exact.get(n, ())}
    found |= {i for parts, i in patterns if any(fits(n, parts) for n in names)}
    return tuple(harms[i] for i in sorted(found))


@cache
def _index() -> tuple[dict[str, list[int]], list[tuple[list[str], int]], tuple[Harm, ...]]:
    """Entries by name, and those whose names are patterns, in parts."""
    from envsnap.explain.harm_tables import HARMS

    exact: dict[str, list[int]] = {}
    patterns: list[tuple[list[str], int]] = []
    for i, harm in enumerate(HARMS):
        for name in harm.names.split():
            if "*" in name:
                patterns.append((name.split("*"), i))
            else:
                exact.setdefault(name, []).append(i)
    return exact, patterns, HARMS


def told_apart(harm: Harm, before: Reading, after: Reading) -> Known:
    """What one line of the tables says of two readings, in whatever setting."""
    if harm.slow in (LOWER, HIGHER, LIMIT, FEWER):
        return _numbers(harm, before, after)
    if harm.slow == OTHER:
        known_both = isinstance(before, Value) and isinstance(after, Value)
        return _towards(harm, False, known_both)
    if " > " in harm.slow:
        return _order(harm, before, after)
    if harm.slow == ANY:
        pair = isinstance(before, Value), isinstance(after, Value)
    else:
        words = {word.lower() for word in harm.slow.split()}
        pair = holds(before, words), holds(after, words)
    return _towards(harm, *pair)


def _towards(harm: Harm, was_slow: bool, is_slow: bool) -> Known:
    if was_slow == is_slow:
        return UNKNOWN
    return Known(Towards.SLOW if is_slow else Towards.FAST, harm.severe, harm.says, makes=harm.makes)


def _numbers(harm: Harm, before: Reading, after: Reading) -> Known:
    read = names_count if harm.slow == FEWER else number
    x, y = read(before), read(after)
    if x is None or y is None:
        unset = isinstance(before if x is None else after, Unset)
        return _towards(harm, x is not None, y is not None) if harm.slow == LIMIT and unset else UNKNOWN
    if x == y:
        return UNKNOWN
    if min(x, y) > _COUNTS and max(x, y) / min(x, y) < _NOTICED:
        return Known(Towards.NEITHER, says="It differs by less than anybody would notice.", slight=True)
    is_slow = (y < x) is (harm.slow != HIGHER)
    return _at_most(_towards(harm, not is_slow, is_slow), harm, x, y)


def _at_most(found: Known, harm: Harm, x: float, y: float) -> Known:
    """With its span cut to the ratio of the numbers: what is half as much takes twice as long at most.

    Not so where a limit is reached, from which on things are put off or done anew.
    """
    if found.makes is None or harm.needs is Needs.LOAD or harm.slow == LIMIT or min(x, y) <= 0:
        return found
    most = min(found.makes[1], max(x, y) / min(x, y))
    return replace(found, makes=(min(found.makes[0], most), most))


_COUNTS, _NOTICED = 20, 1.03
"""Numbers above the first are quantities, of which less than the second, as a ratio, makes no difference."""


def _order(harm: Harm, before: Reading, after: Reading) -> Known:
    """By the places of two values in a line from fast to slow; unknown where one has none there."""
    places = [group.lower().split() for group in harm.slow.split(" > ")]
    x, y = (place(reading, places) for reading in (before, after))
    return UNKNOWN if x is None or y is None or x == y else _towards(harm, x > y, y > x)


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
    return replace(_towards(harm, holds(change.before, words), holds(change.after, words)), guessed=True)


def clearest(found: Sequence[Known]) -> Known:
    """What says most of several changes that act as one: a severe harm, a harm, what speaks against it, nothing."""
    order = {Towards.SLOW: 0, Towards.UNKNOWN: 1, Towards.FAST: 2, Towards.NEITHER: 3}
    return min(found, key=lambda k: (order[k.towards], not k.severe, k.guessed, k.gone), default=UNKNOWN)
