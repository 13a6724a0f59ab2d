"""Candidates: changes that moved together, each bundle one suspect.

One git pull changes a dozen readings of a repository, a driver update as many of eight GPUs, a package its version and
its files' hash: each is one thing that somebody did, and one thing that can be undone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envsnap.change import Change
from envsnap.explain.explanation import Evidence
from envsnap.explain.harm import Towards, known
from envsnap.explain.homes import home_of
from envsnap.explain.setting import Setting
from envsnap.explain.titles import mechanism_of, title_of
from envsnap.keys import Effect, Lever, instances_of, pattern_of
from envsnap.reading import Unset, Value

_TELLING = 0.7
"""Share of the highest prior of a bundle from which a change counts: a driver's name matters, its compiler hardly."""
NOTABLE = 0.25
"""Prior from which a package is a suspect of its own; the others are one together."""


@dataclass(frozen=True)
class Candidate:
    """A bundle on its way to be a suspect. `evidence` is what stories and the bundling itself say.

    `telling` are the changes that are likeliest to be the cause, the likeliest first; the others accompany them.
    """

    id: str
    title: str
    changes: tuple[Change, ...]
    telling: tuple[Change, ...]
    prior: float
    effects: tuple[Effect, ...]
    mechanism: str
    evidence: tuple[Evidence, ...] = ()
    largest_ratio: float | None = None
    story: str | None = None

    @property
    def principal(self) -> Change:
        """The change that is likeliest to be the cause."""
        return self.telling[0]

    @property
    def lever(self) -> Lever | None:
        """How it could be undone in an experiment."""
        return self.principal.key.lever

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of its changes."""
        return tuple(c.path for c in self.changes)


_WITH_TORCH = ("library:nccl", "library:cudnn", "library:cublas", "library:nvshmem", "library:cuda", "package:triton")
"""What a torch of another version brings along, since it requires exact versions of them."""

_FAMILY = re.compile(r"(?:TORCH_)?(NCCL|SGLANG|SGL|VLLM|FLASHINFER|CUDA|PYTORCH|OMP|UCX|NVSHMEM)_")


def gather(changes: Sequence[Change], setting: Setting | None = None) -> list[Candidate]:
    """Changes as candidates, each change in exactly one; `setting` says which of them could act in it at all."""
    homes: dict[str, list[Change]] = {}
    for change in changes:
        homes.setdefault(home_of(change), []).append(change)
    _minor_packages(homes)
    _with_torch(homes)
    _clocks(homes)
    _caches(homes)
    _with_repository(homes)
    _with_arguments(homes)
    _lost(homes, setting)
    return [candidate(home, members) for home, members in homes.items()]


def candidate(home: str, changes: Sequence[Change]) -> Candidate:
    """One candidate of these changes."""
    ordered = sorted(changes, key=lambda c: (-c.key.prior, c.path, c.leaf))
    # NOTE: what came along with a package or a setting does not stand for it: torch acts on more than its NCCL does.
    own = [c for c in ordered if home_of(c) == home] or ordered
    telling = [c for c in own if c.key.prior >= own[0].key.prior * _TELLING]
    effects = tuple(dict.fromkeys(effect for c in telling for effect in c.key.effects))
    return Candidate(
        id=home,
        title=title_of(home, ordered),
        changes=tuple(ordered),
        telling=tuple(telling),
        prior=own[0].key.prior,
        effects=effects,
        mechanism=mechanism_of(own[0], effects),
    )


def _minor_packages(homes: dict[str, list[Change]]) -> None:
    minor = [h for h in homes if h.startswith("package:") and max(c.key.prior for c in homes[h]) < NOTABLE]
    if len(minor) > 1:
        homes["packages"] = [c for home in minor for c in homes.pop(home)]


def _with_torch(homes: dict[str, list[Change]]) -> None:
    torch = homes.get("package:torch", [])
    if any(pattern_of(c.path).endswith("].version") for c in torch):
        for home in _WITH_TORCH:
            # NOTE: only where a package moved; a library that is mapped from elsewhere did not come with torch.
            if any(c.path.startswith("package[") for c in homes.get(home, ())):
                torch += homes.pop(home)


def _clocks(homes: dict[str, list[Change]]) -> None:
    """Clocks that were limited or set, unless to more than before, and what they then were under load."""
    for home in ("clocks_set", "power_limit"):
        if "load:clocks" in homes and home in homes and not any(_is_higher(c) for c in homes[home]):
            homes[home] += homes.pop("load:clocks")


def _is_higher(change: Change) -> bool:
    pair = change.before, change.after
    numbers = [r.value for r in pair if isinstance(r, Value) and isinstance(r.value, (int, float))]
    return len(numbers) == 2 and numbers[1] > numbers[0]


def _caches(homes: dict[str, list[Change]]) -> None:
    """Caches that are all cold now: one home that was emptied, or another one than before."""
    cold = [h for h in homes if h.startswith("cache:") and any(_went_cold(c) for c in homes[h])]
    if len(cold) > 1:
        homes["caches"] = [c for home in cold for c in homes.pop(home)]


def _went_cold(change: Change) -> bool:
    was, now = change.before, change.after
    return change.path.endswith(".warm") and isinstance(was, Value) and isinstance(now, Value) and now.value is False


def _with_repository(homes: dict[str, list[Change]]) -> None:
    """A package that is installed from a repository beside it changes its version with every commit."""
    for home in [h for h in homes if h.startswith("git:")]:
        package = f"package:{home[4:].split('/')[-1].lower().replace('_', '-')}"
        if package in homes and all(pattern_of(c.path) != "package[].origin" for c in homes[package]):
            homes[home] += homes.pop(package)


def _with_arguments(homes: dict[str, list[Change]]) -> None:
    """A model that came or went, or moved to a revision, since an argument says so; and what is named after it."""
    arguments = sorted(h for h in homes if h.startswith("argument:"))
    for home in [h for h in homes if h.startswith("model:")]:
        owner = next((a for a in arguments if any(_names(c, homes[home]) for c in homes[a])), None)
        if owner:
            homes[owner] += homes.pop(home)
    for home in ("argument:model", "argument:model_path"):
        pairs = [(c.before, c.after) for c in homes.get(home, ())]
        for follower in _NAMED_AFTER:
            if follower in homes and all((c.before, c.after) in pairs for c in homes[follower]):
                homes[home] += homes.pop(follower)


_NAMED_AFTER = ("argument:served_model_name", "argument:tokenizer", "argument:tokenizer_path")
"""Arguments that are those of the model unless they are given."""


def _names(argument: Change, model: Sequence[Change]) -> bool:
    """Whether an argument names a model that is on its side alone, or the revision that it has on this side."""
    name = instances_of(model[0].path)[0]
    for side in (0, 1):
        asked = _sides(argument)[side].rstrip("/")
        alone = not any(_sides(c)[1 - side] for c in model)
        if asked and alone and f"/{asked}".endswith(f"/{name}"):
            return True
        if asked and any(pattern_of(c.path) == "model[].revision" and _sides(c)[side] == asked for c in model):
            return True
    return False


def _sides(change: Change) -> tuple[str, str]:
    """Its readings as text; empty where there is no value."""
    before, after = (str(r.value) if isinstance(r, Value) else "" for r in (change.before, change.after))
    return before, after


def _lost(homes: dict[str, list[Change]], setting: Setting | None) -> None:
    """Variables of one family that are all gone: one file not sourced, or one process that did not hand them on.

    Those that could not have acted stay by themselves: they were lost with the others, and no speed with them.
    """
    families: dict[str, list[str]] = {}
    for home, members in homes.items():
        match = _FAMILY.match(home.removeprefix("env:")) if home.startswith("env:") else None
        gone = all(isinstance(c.before, Value) and isinstance(c.after, Unset) for c in members)
        if match and gone and not (setting and all(_is_inert(c, setting) for c in members)):
            families.setdefault(match[1], []).append(home)
    for family, names in families.items():
        if len(names) > 1:
            homes[f"lost:{family}"] = [c for name in names for c in homes.pop(name)]


def _is_inert(change: Change, setting: Setting) -> bool:
    """Whether it does not act on speed at all, or not in this setting."""
    return known(change, setting).towards is Towards.NEITHER
