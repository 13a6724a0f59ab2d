"""What was effective: changes reduced to those that reached what computes, and the rest ruled out with its reason.

- a variable counts where the ranks have it, not where it was exported;
- an argument as the engine resolved it, not as it was typed;
- a setting as what it stands for where it is not set;
- a library as the workers have mapped it, not as it is installed;
- clocks and links as sampled under load, not as an idle moment showed them;
- the content of a repository, not its branch or reflog;
- figures (utilisation, power, acceptance) are what a cause shows in, and no cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from envsnap.change import Change, Diff
from envsnap.diff import diff
from envsnap.explain.defaults import default_of, stands_for_default
from envsnap.explain.explanation import RuledOut
from envsnap.explain.harm import name_of
from envsnap.explain.setting import options, resolved_arguments
from envsnap.explain.story import Facts
from envsnap.fold import listed
from envsnap.keys import Key, Kind, instances_of, matches, pattern_of
from envsnap.reading import Json, Unset, Value
from envsnap.wording import plural, reading_text, shorten

SHOWN_IN = (
    "server[].dp[].accept_length",
    "server[].dp[].step_seconds[]",
    "during.gpu[].utilization_*",
    "during.gpu[].power_*",
    "during.gpu[].memory_used_*",
    "during.worker[].cpu_*",
    "during.host.cpu_busy_*",
)
"""Figures that a slowdown shows in: evidence, and never a cause."""

_ENVIRONMENTS = ("worker[].env[]", "record[].env[]")
_VARIABLES = (*_ENVIRONMENTS, "env[]", "worker[].env_at_exec[]", "record[].os_environ_differs[]")
_TYPED = ("worker[].argv", "server[].launch_command", "record[].typed_argument[]")
_BYSTANDERS = frozenset({"shell", "client", "resource_tracker", "compile_worker"})
"""Roles whose variables and arguments compute nothing."""

_MAPPED = {
    "nvidia-nccl": "nccl",
    "nvidia-cudnn": "cudnn",
    "nvidia-cublas": "cublas",
    "nvidia-cuda-runtime": "cuda_runtime",
    "nvidia-cuda-nvrtc": "nvrtc",
    "nvidia-nvshmem": "nvshmem",
}
"""Package -> the kind of library that a worker maps from it."""

_CONTENT = ("tree_id", "head", "patch", "patch_truncated", "changed[].blob", "changed[].status", "submodule[].commit",
            "submodule[].tree_id")  # fmt: skip
"""Of a repository, what says which code there is."""


@dataclass(frozen=True)
class Effective:
    """`changes` that can be causes, `shown` what a cause shows in, `ruled_out` the rest with reasons."""

    changes: tuple[Change, ...]
    shown: tuple[Change, ...]
    ruled_out: tuple[RuledOut, ...]
    diff: Diff


def effective(fast: Facts, slow: Facts) -> Effective:
    """Compare two sides, and keep what was effective."""
    found = diff(fast.snapshot, slow.snapshot, also=[Kind.COUNTER])
    changes = [c for c in found.changes if c.key.kind is not Kind.COUNTER or c.path.startswith("during.")]
    shown = [c for c in changes if any(matches(c.path, pattern) or _same_key(c, pattern) for pattern in SHOWN_IN)]
    kept = without(changes, shown)
    ruled_out: list[RuledOut] = []
    for step in (_idle_readings, _variables, _arguments, _defaults, _libraries, _repositories):
        kept = step(kept, fast, slow, ruled_out)
    return Effective(tuple(kept), tuple(shown), tuple(ruled_out), found)


def _same_key(change: Change, pattern: str) -> bool:
    key = pattern_of(change.path)
    return key == pattern or (pattern.endswith("*") and key.startswith(pattern[:-1]))


def _idle_readings(changes: Sequence[Change], fast: Facts, slow: Facts, ruled_out: list[RuledOut]) -> list[Change]:
    """Where both sides were sampled under load, what a single moment showed of clocks and links says nothing."""
    if not all("during" in facts.snapshot.sections for facts in (fast, slow)):
        return list(changes)
    return [c for c in changes if c.key.kind is not Kind.CONDITION or c.path.startswith("during.")]


def _variables(changes: Sequence[Change], fast: Facts, slow: Facts, ruled_out: list[RuledOut]) -> list[Change]:
    """Variables that no computing process has otherwise than before."""
    if not all(_sees_workers(facts) for facts in (fast, slow)):
        return list(changes)
    arrived = {
        instances_of(c.path)[1]
        for c in changes
        if pattern_of(c.path) in _ENVIRONMENTS and computes(instances_of(c.path)[0])
    }
    kept: list[Change] = []
    lost: dict[str, list[Change]] = {}
    for change in changes:
        name = instances_of(change.path)[-1] if pattern_of(change.path) in _VARIABLES else ""
        if not name or name in arrived:
            kept.append(change)
        else:
            lost.setdefault(name, []).append(change)
    if lost:
        names = listed(sorted(lost))
        verb = "differ" if len(lost) > 1 else "differs"
        ruled_out.append(
            RuledOut(
                f"{plural(len(lost), 'variable')} of the shell ({names})",
                f"{'they' if len(lost) > 1 else 'it'} {verb} there alone: every worker has the same value as before",
                tuple(c.path for group in lost.values() for c in group),
            )
        )
    return kept


def _sees_workers(facts: Facts) -> bool:
    """Whether the environment of some computing process is known."""
    return any(computes(instances_of(path)[0]) for key in _ENVIRONMENTS for path in facts.values(key))


def computes(role: str) -> bool:
    """Whether a process of that role does the work: what the shell or the client has, computes nothing."""
    return role.rsplit("/", 1)[-1] not in _BYSTANDERS


def _arguments(changes: Sequence[Change], fast: Facts, slow: Facts, ruled_out: list[RuledOut]) -> list[Change]:
    """Typed arguments where both sides say what the engine made of them; else each option as a change of its own."""
    sides = resolved_arguments(fast.snapshot), resolved_arguments(slow.snapshot)
    if not all(sides):
        return [part for c in changes for part in _unfolded(c)]
    kept = [c for c in changes if pattern_of(c.path) not in _TYPED]
    typed = {name for c in changes for name in _names_of(c)}
    same = sorted(n for n in typed if n in sides[0] and n in sides[1] and sides[0][n] == sides[1][n])
    if same:
        ruled_out.append(
            RuledOut(f"--{', --'.join(n.replace('_', '-') for n in same)}", "typed differently, resolved to the same")
        )
    return kept


def _defaults(changes: Sequence[Change], fast: Facts, slow: Facts, ruled_out: list[RuledOut]) -> list[Change]:
    """Settings that one side lacks and the other has as what lacking them means."""
    spared = [c for c in changes if stands_for_default(c, (fast, slow))]
    for name in dict.fromkeys(name_of(c) for c in spared):
        title = name.replace("_", "-") if name.startswith("--") else name
        reason = f"unset stands for {default_of(name)}, its documented default, which the other side has"
        ruled_out.append(RuledOut(title, reason, tuple(c.path for c in spared if name_of(c) == name)))
    return without(changes, spared)


def _names_of(change: Change) -> Iterator[str]:
    if pattern_of(change.path) == "record[].typed_argument[]":
        yield instances_of(change.path)[-1]
    else:
        yield from (part.leaf.strip("[-]") for part in _unfolded(change) if part.leaf)


def _unfolded(change: Change) -> Iterator[Change]:
    """A changed command line as one change an option; as it is where no option explains it."""
    if pattern_of(change.path) not in _TYPED or not (
        isinstance(change.before, Value) and isinstance(change.after, Value)
    ):
        yield change
        return
    if not computes(instances_of(change.path)[0]):
        return
    before, after = options(change.before.value), options(change.after.value)
    differing = [n for n in sorted({*before, *after}) if before.get(n) != after.get(n)]
    for name in differing:
        yield Change(change.path, _option_key(change.key, name), _side(before, name), _side(after, name), f"[--{name}]")
    if not differing:
        yield change


def _option_key(key: Key, name: str) -> Key:
    """The key of an argument of that name, as it is declared of resolved ones."""
    from dataclasses import replace

    from envsnap.collectors import key_for
    from envsnap.keys import path_of

    known = key_for(path_of("server[].argument[]", 0, name))
    return replace(key, effects=known.effects, prior=known.prior, meaning=known.meaning, lever=known.lever)


def _side(arguments: dict[str, Json], name: str) -> Value | Unset:
    return Value(arguments[name]) if name in arguments else Unset()


def _libraries(changes: Sequence[Change], fast: Facts, slow: Facts, ruled_out: list[RuledOut]) -> list[Change]:
    """Installed libraries that the workers have not mapped, or have mapped as before."""
    kinds = {instances_of(p)[1].split("/")[0] for p in fast.values("worker[].library[].version")}
    kinds &= {instances_of(p)[1].split("/")[0] for p in slow.values("worker[].library[].version")}
    kinds -= {
        instances_of(c.path)[1].split("/")[0] for c in changes if c.path.startswith("worker[") and ".library[" in c.path
    }
    kept = []
    spared: dict[str, list[Change]] = {}
    for change in changes:
        kind = _kind_of(change.path)
        if kind in kinds:
            spared.setdefault(kind, []).append(change)
        else:
            kept.append(change)
    for kind, group in spared.items():
        paths = tuple(c.path for c in group)
        ruled_out.append(RuledOut(f"installed {kind}", "what the workers have mapped is the same build", paths))
    return kept


def _kind_of(path: str) -> str:
    """The kind of library that an installed package or library file is; empty for anything else."""
    if path.startswith("library["):
        return instances_of(path)[0].split("/")[0]
    if path.startswith(("package[", "conda[")):
        name = instances_of(path)[0]
        return next((kind for package, kind in _MAPPED.items() if name.startswith(package)), "")
    return ""


def _repositories(changes: Sequence[Change], fast: Facts, slow: Facts, ruled_out: list[RuledOut]) -> list[Change]:
    """Repositories whose files are the same on both sides, whatever else of them changed."""
    same = {
        instances_of(path)[0]
        for path, tree in fast.values("repo[].tree_id").items()
        if isinstance(tree, str) and slow.get(path) == tree
    }
    spared = [c for c in changes if c.path.startswith("repo[") and instances_of(c.path)[0] in same]
    for name in sorted({instances_of(c.path)[0] for c in spared}):
        held = [c for c in spared if instances_of(c.path)[0] == name]
        what = shorten(", ".join(dict.fromkeys(pattern_of(c.path).split("].", 1)[1].split("[")[0] for c in held)), 60)
        ruled_out.append(RuledOut(f"repository {name} ({what})", "its files are the same", tuple(c.path for c in held)))
    return without(changes, spared)


def without(changes: Iterable[Change], others: Iterable[Change]) -> list[Change]:
    """Changes without some of them."""
    # NOTE: a change may hold a list or an object, so it cannot be hashed itself.
    gone = {(c.path, c.leaf) for c in others}
    return [c for c in changes if (c.path, c.leaf) not in gone]


def content_of(changes: Iterable[Change]) -> list[Change]:
    """Of a repository's changes, those that say which code there is."""
    return [c for c in changes if pattern_of(c.path).removeprefix("repo[].") in _CONTENT]


def values_text(change: Change) -> tuple[str, str]:
    """Both readings in words."""
    return reading_text(change.key, change.before), reading_text(change.key, change.after)
