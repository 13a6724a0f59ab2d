"""A worker has mapped another library than the one that is installed, or two copies of one.

What pip lists, what torch was built with and what a rank has mapped can be three versions: LD_LIBRARY_PATH,
LD_PRELOAD, a CUDA compatibility package or an engine's own loader put another file first. Two copies of NCCL in one
process hold their buffers and settings twice. A file that was replaced under a running server is still the old one
there.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.explanation import Evidence, Mistake
from envsnap.explain.ranks import ranks
from envsnap.explain.stories._look import variable_changes
from envsnap.explain.story import Clue, Facts, Finding, Together, View, after, before
from envsnap.explain.weights import FAIR, STRONG, WEAK
from envsnap.keys import instances_of, path_of

CODE = "mapped_library"
NEEDS = ("worker[].library[].path", "worker[].library[].replaced", "worker[].executable_replaced")

_PATHS = ("LD_LIBRARY_PATH", "LD_PRELOAD", "SGLANG_NCCL_SO_PATH", "VLLM_NCCL_SO_PATH")
_COPIES = ("nccl", "cudnn", "cublas", "openmp", "cuda_runtime")
"""Libraries of which a second copy in one process does harm."""


def tell(view: View) -> Iterator[Finding]:
    """Yield libraries that the workers do not have from where they should."""
    mapped = view.changed("worker[].library[].version", "worker[].library[].path", "worker[].library[].build_id")
    by_kind: dict[str, list[Change]] = {}
    for change in mapped:
        by_kind.setdefault(instances_of(change.path)[1].split("/")[0], []).append(change)
    for kind, changes in by_kind.items():
        yield from _elsewhere(view, kind, changes)
    for kind in _COPIES:
        one, two = (_copies(facts, kind) for facts in view.sides)
        if two > max(1, one) and by_kind.get(kind):
            yield Clue(f"A worker has {two} copies of {kind} mapped.", FAIR, tuple(by_kind[kind]))
        elif one > 1 and two > 1 and kind == "nccl":
            yield Mistake(
                f"Workers have {two} copies of NCCL mapped",
                "Let torch and the engine load the same file.",
                tuple(p for p in view.slow.values("worker[].library[].path") if "[nccl/" in p),
            )
    replaced = [
        c for c in view.changed("worker[].library[].replaced", "worker[].executable_replaced") if after(c) is True
    ]
    if replaced:
        yield Clue(
            "The file was replaced while the server ran: it runs what is no longer installed.", FAIR, tuple(replaced)
        )


def _elsewhere(view: View, kind: str, changes: list[Change]) -> Iterator[Finding]:
    """A library that comes from another place than before, or than the environment's own."""
    places = [c for c in changes if c.path.endswith("].path")]
    moved = [c for c in places if before(c) and after(c) and _folder(str(before(c))) != _folder(str(after(c)))]
    if kind == "cuda_driver" and any("/compat/" in str(after(c)) for c in places):
        yield Together(
            "the CUDA driver library of a compatibility package",
            "Programs reach the kernel module through a library of another version than the driver's own.",
            (*changes, *view.changed("nvidia.cuda_compat_versions")),
            changes[0].key.effects,
            (Evidence("libcuda comes from a compatibility package, and came from the driver before.", STRONG),),
            prior=0.6,
        )
    elif moved and (how := _led(variable_changes(view, *_PATHS), moved)):
        name = instances_of(how[0].path)[-1]
        yield Together(
            f"{kind} from {_folder(str(after(moved[0])))}, by {name}",
            "The workers run another build of the library than before.",
            (*changes, *how),
            changes[0].key.effects,
            (Evidence(f"{name} changed, and leads to that copy of {kind} now.", FAIR, (how[0].path, moved[0].path)),),
        )
    elif moved and any(_in_packages(str(before(c))) and not _in_packages(str(after(c))) for c in moved):
        text = f"The workers' {kind} is no longer that of the Python environment: {after(moved[0])}."
        yield Clue(text, FAIR, tuple(changes))
    elif _apart(view.slow, kind) and not _apart(view.fast, kind):
        text = (
            f"The workers have {kind} {_own(view.slow, kind)} mapped, and installed is {_installed(view.slow, kind)}."
        )
        yield Clue(text, WEAK, tuple(changes))


def _led(variables: list[Change], moved: list[Change]) -> list[Change]:
    """The changed variables that name the place where a library comes from now, or named where it came from before."""
    new, old = _folder(str(after(moved[0]))), _folder(str(before(moved[0])))

    def leads(change: Change) -> bool:
        then, now = (str(value or "") for value in (before(change), after(change)))
        return (new in now and new not in then) or (old in then and old not in now)

    names = {instances_of(c.path)[-1] for c in variables if leads(c)}
    return [c for c in variables if instances_of(c.path)[-1] in names]


def _apart(facts: Facts, kind: str) -> bool:
    """Whether another version is mapped than the one that a process started now would take."""
    versions = _own(facts, kind), _installed(facts, kind)
    return all(versions) and versions[0] != versions[1]


def _own(facts: Facts, kind: str) -> str:
    for role in ranks(facts):
        if (value := facts.get(path_of("worker[].library[].version", role, f"{kind}/0"))) is not None:
            return str(value)
    return ""


def _installed(facts: Facts, kind: str) -> str:
    return str(facts.get(path_of("library[].version", f"{kind}/0")) or "")


def _copies(facts: Facts, kind: str) -> int:
    held: dict[str, set[str]] = {}
    for path, file in facts.values("worker[].library[].path").items():
        role, name = instances_of(path)
        if name.split("/")[0] == kind and role in ranks(facts):
            held.setdefault(role, set()).add(str(file))
    return max(map(len, held.values()), default=0)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _in_packages(path: str) -> bool:
    return "/site-packages/" in path or "/dist-packages/" in path or "/conda" in path
