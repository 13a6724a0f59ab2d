"""Something that did not change became harmful by something that did.

A setting that fitted the old driver, library or machine does not fit the new one: a forced NCCL algorithm under
another NCCL, a kept peer test under another driver, an address index on another host, expert kernels that are
chosen by the driver's version. A list of differences shows the harmless half of such a pair alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.explain.stories._look import argument, of_pattern, package_changes, variable, version
from envsnap.explain.stories._models import is_moe
from envsnap.explain.story import Clue, Finding, View, after, before
from envsnap.explain.weights import FAIR, WEAK
from envsnap.known_names import FORCED_IN_NCCL

CODE = "made_harmful"
NEEDS = ("nvml.driver_version", "nccl.rank[].version", "worker[].library[].version", "platform.product", "gpu[].name",
         "package[].version")  # fmt: skip

_DRIVER = ("nvml.driver_version", "nvidia.module_version", "nvidia.module_flavour")
_NCCL = ("nccl.rank[].version", "nccl.ras.version")
_MACHINE = ("platform.product", "gpu[].name", "gpu_pair[].topology", "pci[].id", "platform.virtualization")
_EXPERTS_BY_DRIVER = (595,)
"""Major driver versions from which an engine takes other expert kernels for some models."""


def tell(view: View) -> Iterator[Finding]:
    """Yield pairs of an unchanged reading and a change that made it wrong."""
    yield from _forced(view)
    yield from _kept_test(view)
    yield from _experts(view)
    yield from _machine(view)


def _forced(view: View) -> Iterator[Finding]:
    """NCCL's choices, taken from it, under another NCCL."""
    nccl: list[Change] = [*of_pattern(view.changes, *_NCCL), *package_changes(view, "nvidia-nccl*")]
    nccl += [c for c in view.changed("worker[].library[].version") if "[nccl/" in c.path]
    kept = [
        name
        for name in FORCED_IN_NCCL
        if (v := variable(view.slow, name)) is not None and v == variable(view.fast, name)
    ]
    if nccl and kept and view.setting.communicates is not False:
        yield Clue(
            f"{', '.join(kept)} {'is' if len(kept) == 1 else 'are'} set as before, and was chosen for another NCCL.",
            WEAK,
            tuple(nccl),
        )


def _kept_test(view: View) -> Iterator[Finding]:
    """The engine's result of a peer test, from before the driver or the GPUs changed."""
    driver = [*of_pattern(view.changes, *_DRIVER), *view.changed("gpu[].name", "gpu_pair[].topology")]
    pairs = [p for p, v in view.slow.values("cache[].p2p_refused_count").items() if v and view.fast.get(p) == v]
    if driver and pairs and view.setting.communicates is not False:
        yield Clue(
            "The engine's kept test of peer access is from before that change: it says that GPUs do not reach each "
            "other, and is never made again.",
            FAIR,
            tuple(driver),
        )


def _experts(view: View) -> Iterator[Finding]:
    """Expert kernels that an engine chooses by the driver's version."""
    for change in view.changed("nvml.driver_version"):
        then, now = version(before(change))[:1], version(after(change))[:1]
        crossed = any(then < (bound,) <= now or now < (bound,) <= then for bound in _EXPERTS_BY_DRIVER)
        runner = argument(view.settings[1], "moe_runner_backend", "moe_backend")
        if crossed and (is_moe(view.slow) or runner not in (None, "auto", "")):
            yield Clue(
                f"From driver {_EXPERTS_BY_DRIVER[0]} on the engine takes other expert kernels for some models"
                f"{f' (now {runner})' if runner else ''}.",
                FAIR,
                (change,),
            )


def _machine(view: View) -> Iterator[Finding]:
    """Settings that were made for another machine."""
    machine = [c for c in of_pattern(view.changes, *_MACHINE) if before(c) is not None]
    if not machine or view.setting.communicates is False:
        return
    names = (
        "NCCL_TOPO_FILE",
        "NCCL_GRAPH_FILE",
        "NCCL_IB_HCA",
        "NCCL_IB_GID_INDEX",
        "NCCL_SOCKET_IFNAME",
        "NCCL_P2P_LEVEL",
        "NCCL_NET_GDR_LEVEL",
        "CUDA_VISIBLE_DEVICES",
    )
    kept = [n for n in names if (v := variable(view.slow, n)) is not None and v == variable(view.fast, n)]
    if kept:
        yield Clue(f"{', '.join(kept)} stand as they were, made for the other machine.", WEAK, tuple(machine))
