"""GPUs do not reach each other directly: by access control, by the IOMMU, or by a setting.

Without NVLink, ranks exchange over PCIe, directly where bridges and IOMMU let them. ACS on the bridges above sends
every packet up to the root complex and back, a translating IOMMU makes each transfer slow or impossible, and
NCCL_P2P_DISABLE, NCCL_P2P_LEVEL or a registry key of the driver forbids it. NCCL then copies through host memory.
Capability bits may all say OK and the path be slow all the same, so that direct access that was switched on can be
slower than none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envsnap.change import Change
from envsnap.explain.explanation import Evidence, Mistake
from envsnap.explain.stories._look import is_on, of_pattern, variable, variable_changes
from envsnap.explain.story import Clue, Facts, Finding, Together, View, after, before
from envsnap.explain.weights import FAIR, STRONG, WEAK
from envsnap.keys import Effect, instances_of
from envsnap.reading import Json

CODE = "p2p_off"
NEEDS = ("gpu_pair[].p2p_read", "nccl.rank[].transport[]", "pci[].acs_enabled", "pci[].iommu_type", "worker[].env[]",
         "kernel.parameter[]")  # fmt: skip

_SHOWN = ("gpu_pair[].p2p_read", "gpu_pair[].p2p_write", "gpu_pair[].p2p_pci", "nccl.rank[].transport[]",
          "nccl.rank[].all_direct_p2p")  # fmt: skip
_REDIRECTS = {"request_redirect", "completion_redirect"}
_TRANSLATES = {"DMA", "DMA-FQ"}
_ADVICE = "Bare metal: boot with iommu=pt, and clear ACS on the bridges above the GPUs after each boot."


def tell(view: View) -> Iterator[Finding]:
    """Yield direct access that was lost, with what took it, or that was gained through a slow path."""
    if view.setting.ranks == 1:
        return
    causes = _causes(view)
    lost = [c for c in of_pattern(view.changes, *_SHOWN) if _is_direct(before(c)) and _is_indirect(after(c))]
    if lost:
        text = "Pairs of GPUs that reached each other directly do not any more."
        why = [Evidence(f"{_words(causes)} with it.", FAIR, tuple(c.path for c in causes))] if causes else []
        yield Together(
            "GPUs no longer reach each other directly",
            "What ranks exchange is copied through host memory.",
            (*lost, *causes),
            (Effect.COMMUNICATION, Effect.VERIFY),
            (Evidence(text, STRONG, tuple(c.path for c in lost)), *why),
        )
    elif (boot := _iommu(causes)) is not None:
        yield boot
    elif causes and (view.setting.nvlink is not True or view.setting.hosts != 1):
        settings = [c for c in causes if not c.path.startswith(("pci[", "kernel."))]
        yield Clue(
            f"{_words(causes)}: traffic between GPUs takes a longer way.", FAIR if settings else WEAK, tuple(causes)
        )
    gained = [c for c in variable_changes(view, "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL") if _is_gained(c)]
    if gained and not lost and (slow := _slow_path(view.slow)):
        yield Clue(
            f"Direct access between GPUs was switched on, and {slow}: it can be slower than host memory.",
            FAIR,
            tuple(gained),
        )
    if not lost and not causes and view.setting.nvlink is False and all(_goes_far(f) for f in view.sides):
        shown = view.slow.values("pci[].acs_enabled") or view.slow.values("pci[].iommu_type")
        text = f"Traffic between GPUs takes a long way on both sides: {_slow_path(view.slow)}"
        yield Mistake(text, _ADVICE, tuple(shown))


def _iommu(causes: Sequence[Change]) -> Together | None:
    """How the machine was booted and how the IOMMU treats its devices since: one change."""
    found = [c for c in causes if "iommu" in c.path]
    if not {c.path.partition("[")[0] for c in found} >= {"pci", "kernel.parameter"}:
        return None
    return Together(
        "the IOMMU translates",
        "Each transfer between devices is looked up, and direct ones between GPUs may be impossible.",
        tuple(found),
        (Effect.COMMUNICATION, Effect.PREFILL),
        (Evidence("A boot parameter of the IOMMU changed, and how it treats the GPUs.", FAIR),),
    )


def _causes(view: View) -> list[Change]:
    """Changes that take direct access away, towards the slow side."""
    found = [c for c in view.changed("pci[].acs_enabled") if _redirects(after(c)) and not _redirects(before(c))]
    found += [c for c in view.changed("pci[].iommu_type") if _translates(after(c)) and not _translates(before(c))]
    iommu = ("iommu", "intel_iommu", "amd_iommu", "pcie_acs_override", "pci")
    found += [c for c in view.changed("kernel.parameter[]") if instances_of(c.path)[0] in iommu and _worse_boot(c)]
    found += [c for c in variable_changes(view, "NCCL_P2P_DISABLE") if is_on(after(c))]
    found += [c for c in variable_changes(view, "NCCL_P2P_LEVEL") if str(after(c)).upper() in ("LOC", "0", "NVL")]
    found += [c for c in view.changed("nvidia.module[].text_parameter[]") if _speaks_of_peers(c)]
    found += [c for c in view.changed("nvidia.module[].parameter[]") if c.path.endswith("[NvLinkDisable]") and after(c)]
    return found


def _speaks_of_peers(change: Change) -> bool:
    """Whether a registry key of the driver that rules peer access came, went or changed."""
    then, now = ({part.strip().lower() for part in str(v or "").split(";")} for v in (before(change), after(change)))
    return any("p2p" in part or "peer" in part for part in then ^ now)


def _worse_boot(change: Change) -> bool:
    """Whether the IOMMU translates since: switched on, or no longer passing through."""
    then, now = (
        {str(v) for v in value} if isinstance(value, list) else set() for value in (before(change), after(change))
    )
    if instances_of(change.path)[0] == "pci":
        return "disable_acs_redir" in "".join(then) and "disable_acs_redir" not in "".join(now)
    return (
        ("pt" in then and "pt" not in now) or ("off" in then and "off" not in now) or bool({"on", "force"} & now - then)
    )


def _redirects(value: Json) -> bool:
    return any(str(v) in _REDIRECTS for v in value) if isinstance(value, list) else False


def _translates(value: Json) -> bool:
    return str(value) in _TRANSLATES


def _is_direct(value: Json) -> bool:
    return value is True or value == "ok" or (isinstance(value, list) and any("P2P" in str(v) for v in value))


def _is_indirect(value: Json) -> bool:
    if isinstance(value, list):
        return any(str(v).split("/")[0] in ("SHM", "NET", "COLLNET") for v in value)
    return value is False or (isinstance(value, str) and value != "ok")


def _is_gained(change: Change) -> bool:
    if instances_of(change.path)[-1] == "NCCL_P2P_DISABLE":
        return is_on(before(change)) and not is_on(after(change))
    return str(after(change)).upper() in ("SYS", "PHB", "NODE", "3", "4", "5")


def _slow_path(facts: Facts) -> str:
    """Why direct traffic takes a long way on a side; empty where nothing says so."""
    if any(_redirects(v) for p, v in facts.values("pci[].acs_enabled").items() if instances_of(p)[0].startswith("gpu")):
        return "ACS redirects it up to the root complex"
    types = [v for p, v in facts.values("pci[].iommu_type").items() if instances_of(p)[0].startswith("gpu")]
    if any(_translates(v) for v in types) and facts.get("platform.virtualization") in (None, "none"):
        return "the IOMMU translates it"
    return ""


def _goes_far(facts: Facts) -> bool:
    """Whether direct traffic is wanted on a side and takes a long way."""
    return bool(_slow_path(facts)) and not is_on(variable(facts, "NCCL_P2P_DISABLE"))


def _words(causes: Sequence[Change]) -> str:
    names = []
    for change in causes:
        if change.path.startswith("pci["):
            names.append("ACS" if change.path.endswith("acs_enabled") else "the IOMMU's mode")
        elif change.path.startswith("kernel."):
            names.append(f"the boot parameter {instances_of(change.path)[0]}")
        else:
            names.append(instances_of(change.path)[-1])
    unique = list(dict.fromkeys(names))
    text = " and ".join(unique[:3])
    return f"{text[:1].upper()}{text[1:]} changed"
