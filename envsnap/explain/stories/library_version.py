"""A library is older than before, or another one than torch was built with.

An image, a dependency or a cache can bring a library back to an older release without anybody asking for it. NCCL
is the one that hurts most: torch is built and tested with one release, and another one chooses other algorithms for
the same messages. A build of torch without CUDA, or for another, replaces every kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.ranks import ranks
from envsnap.explain.stories._look import version
from envsnap.explain.story import Clue, Facts, Finding, View, after, before
from envsnap.explain.weights import FAIR, STRONG, WEAK
from envsnap.keys import instances_of, path_of, pattern_of

CODE = "library_version"
NEEDS = ("package[].version", "package[].local_tag", "worker[].library[].version", "library[].version",
         "nccl.rank[].version", "record[].torch.version")  # fmt: skip

_VERSIONS = ("package[].version", "conda[].version", "worker[].library[].version")
_BUILT_FOR_CUDA = ("torch", "sgl-kernel", "sglang-kernel", "vllm", "flashinfer-python")
_NOTABLE = 0.4
_TAGS = ("package[].local_tag", "record[].torch.cuda_version", "record[].torch.hip_version")


def tell(view: View) -> Iterator[Finding]:
    """Yield releases that went back, and mixes that nobody tested."""
    for name, changes in _older(view).items():
        text = f"{name} is older than on the fast side ({after(changes[0])}, not {before(changes[0])})."
        yield Clue(text, 0.0, tuple(changes))
    nccl = _nccl(view)
    built = [_built_with(facts) for facts in view.sides]
    own = [_mapped(facts) for facts in view.sides]
    if nccl and built[1] and own[1] and own[1][:2] != built[1][:2] and own[0][:2] == built[0][:2]:
        yield Clue(
            f"torch was built and tested with NCCL {_dotted(built[1])}; the ranks have {_dotted(own[1])}.",
            FAIR if own[1] < built[1] else WEAK,
            tuple(nccl),
        )
    for change in view.changed(*_TAGS):
        if not change.path.startswith("package[") or instances_of(change.path)[0] in _BUILT_FOR_CUDA:
            lost = after(change) is None or str(after(change)) in ("cpu", "")
            what = f"{before(change) or 'none'} → {after(change) or 'none'}"
            yield Clue(f"Another build of the same release: {what}.", STRONG if lost else WEAK, (change,))


def _older(view: View) -> dict[str, list[Change]]:
    """Libraries of note that went back, by name. NOTE: as many causes are newer releases, so that it weighs nothing."""
    found: dict[str, list[Change]] = {}
    for change in view.changed(*_VERSIONS):
        then, now = version(before(change)), version(after(change))
        if then and now and now < then and change.key.prior >= _NOTABLE:
            found.setdefault(instances_of(change.path)[-1].split("/")[0], []).append(change)
    return found


def _nccl(view: View) -> list[Change]:
    found = view.changed("nccl.rank[].version", "nccl.ras.version")
    found += [c for c in view.changed("worker[].library[].version", "library[].version") if "[nccl/" in c.path]
    return found + [c for c in view.changed("package[].version") if instances_of(c.path)[0].startswith("nvidia-nccl")]


def _built_with(facts: Facts) -> tuple[int, ...]:
    held = [
        *facts.values("record[].torch.nccl_built_version").values(),
        *facts.values("library[].nccl_version").values(),
    ]
    return version(held[0])[:3] if held else ()


def _mapped(facts: Facts) -> tuple[int, ...]:
    for role in ranks(facts):
        if (value := facts.get(path_of("worker[].library[].version", role, "nccl/0"))) is not None:
            return version(value)[:3]
    held = [v for p, v in facts.values("nccl.rank[].version").items() if pattern_of(p)]
    return version(held[0])[:3] if held else ()


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
