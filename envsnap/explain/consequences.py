"""Causes and consequences: of two changes of which one brings the other about, the first is the suspect.

A boot parameter withholds CPUs, and the workers wait for CPUs: both differ. Where one change alone is likely by itself
to have brought something about, both are one suspect, under the name of the cause. Where several are, what follows is
no cause of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from envsnap.explain.evidence import Weighed
from envsnap.explain.explanation import Evidence
from envsnap.explain.two_names import same_setting
from envsnap.explain.weights import FAIR, STRONG, Consequences, Weights
from envsnap.keys import Kind, instances_of, pattern_of

_CHOSEN = "nccl:resolved"

# Ids of consequences -> ids of what brings them about (regular expressions on the whole id).
_FOLLOWS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (consequence, re.compile(causes))
    for consequence, causes in (
        ("load:cpu", r"boot:(isolcpus|maxcpus|nr_cpus|nosmt)|affinity|cgroup:cpu|scheduling|cpu\.offline"
                     r"|argument:\w*(thread|worker)\w*|kernel\.scheduler_extension|env:(OMP|MKL|KMP)_\w+|load:foreign"
                     r"|numa:layout"),
        ("affinity", r"boot:isolcpus|env:SGLANG_(SET_CPU_AFFINITY|\w*NUMA\w*)|cgroup:cpu|argument:numa_node"
                     r"|numa:layout"),
        ("numa_binding", r"env:SGLANG_\w*NUMA\w*|argument:numa_node|numa:layout"),
        ("load:clocks", r"power_limit|clocks_set|gpu\[\]\.target_temperature_celsius|gpu\[\]\.power_source|faults"),
        ("load:cpu_clock", r"cpu:clock|cpu:idle|platform\.power_profile|cpu\.package\S*"),
        ("load:memory", r"cgroup:memory|memory\.\S+|storage:\S+|huge_pages"),
        (_CHOSEN, r"env:NCCL_\w+|lost:NCCL|library:nccl\S*|p2p|pci\[\]\.acs_enabled|pci:iommu|rdma"
                          r"|nvlink|fabric|driver|limits:memlock|memory\.shm_size_bytes|container\.kind|network\S*"
                          r"|env:LD_LIBRARY_PATH|daemon:(nv-fabricmanager|nvidia-imex)"),
        ("server:capacity", r"argument:(\w+\.)?(mem_fraction_static|gpu_memory_utilization|max_total_tokens)"),
        ("during.server.cached_prompt_percent", r"request\[.*"
                                                r"|argument:(\w+\.)?(disable_radix_cache|enable_prefix_caching)"),
        ("p2p", r"pci\[\]\.acs_enabled|pci:iommu|nvlink|driver|virtualization|container\.kind"),
        ("nvlink", r"link_errors|fabric|daemon:nv-fabricmanager|module:nvidia:NvLinkDisable"),
        ("fabric", r"daemon:nv-fabricmanager"),
        ("pcie", r"link_errors"),
        ("memory_errors", r"faults"),
    )
)  # fmt: skip


# What is only observed, and comes from nowhere but a setting -> what sets it. A neighbour can crowd the CPUs; nobody
# but this server takes requests back, uses up its own quota or makes NCCL choose.
_OBSERVED: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (consequence, re.compile(causes))
    for consequence, causes in (
        ("during.server.retraction_count",
         r"argument:(\w+\.)?(mem_fraction_static|gpu_memory_utilization|max_total_tokens|max_running_requests"
         r"|max_num_seqs|schedule_conservativeness|page_size|block_size|kv_cache_dtype)|server:capacity|request\[.*"),
        ("cgroup:cpu", r"env:(OMP|MKL|KMP|OPENBLAS)_\w+|argument:\w*(thread|worker)\w*"),
        (_CHOSEN, dict(_FOLLOWS)[_CHOSEN].pattern),
    )
)  # fmt: skip


def related(weighed: Sequence[Weighed], weights: Weights) -> list[Weighed]:
    """The same suspects, with what they say of each other, and what one brought about joined to it."""
    sizes = weights.consequences
    found = _observed(_decided(weighed, sizes), sizes)
    for consequence, causes in _FOLLOWS:
        at = next((i for i, w in enumerate(found) if w.candidate.id == consequence), None)
        if at is None:
            continue
        likely = [i for i, w in enumerate(found) if causes.fullmatch(_home(w)) and _stands_out(w, sizes)]
        if len(likely) == 1:
            found[likely[0]] = _caused(found[likely[0]], found[at], sizes)
            del found[at]
            continue
        for i in likely:
            found[i] = _with(
                found[i], f"It would bring about what changed too: {found[at].candidate.title}.", sizes.cause
            )
        if likely:
            names = " or ".join(found[i].candidate.title for i in likely[:2])
            found[at] = _with(found[at], f"It may follow from another change: {names}.", sizes.consequence)
    return found


def _observed(weighed: Sequence[Weighed], sizes: Consequences) -> list[Weighed]:
    """With what nobody sets joined to the one setting that changed and sets it, likely by itself or not."""
    found = list(weighed)
    for consequence, causes in _OBSERVED:
        seen = [w for w in found if w.candidate.id == consequence and _nobody_sets(w)]
        setting = [w for w in found if causes.fullmatch(_home(w)) and not _acquitted(w)]
        if len(seen) == 1 and len(setting) == 1:
            found[found.index(setting[0])] = _caused(setting[0], seen[0], sizes)
            found.remove(seen[0])
    return found


def _nobody_sets(weighed: Weighed) -> bool:
    observed = all(c.key.kind in (Kind.CONDITION, Kind.COUNTER) for c in weighed.candidate.changes)
    return observed or weighed.candidate.id == _CHOSEN


def _acquitted(weighed: Weighed) -> bool:
    """Whether something all but rules it out."""
    return any(e.weight <= -FAIR for e in weighed.evidence)


def _home(weighed: Weighed) -> str:
    """The id of a suspect, or of the first bundle in one that a story made of several."""
    return _OF_STORY.sub("", weighed.candidate.id)


_OF_STORY = re.compile(r"^story:\w+?:(?=.)")


def _decided(weighed: Sequence[Weighed], sizes: Consequences) -> list[Weighed]:
    """With variables and arguments that are one setting joined: nobody changed both for two reasons.

    The cause is what somebody typed: the argument where the command line has it otherwise and only ranks have the
    variable otherwise, which the engine then wrote from it; else the variable.
    """
    found = list(weighed)
    for argument in [w for w in weighed if w.candidate.id.startswith("argument:")]:
        name = argument.candidate.id.partition(":")[2]
        deciding = [w for w in found if w is not argument and any(same_setting(v, name) for v in _variables(w))]
        if len(deciding) == 1 and argument in found:
            written = _is_typed(argument) and not _is_exported(deciding[0])
            cause, consequence = (argument, deciding[0]) if written else (deciding[0], argument)
            found[found.index(cause)] = _caused(cause, consequence, sizes)
            found.remove(consequence)
    return found


def _variables(weighed: Weighed) -> set[str]:
    """Names of its variables, where something may read them."""
    if any(e.weight <= -STRONG for e in weighed.evidence):
        return set()  # nothing reads it: another engine's
    paths = [p for p in weighed.candidate.paths if pattern_of(p).endswith(_VARIABLES)]
    return {instances_of(path)[-1] for path in paths}


_VARIABLES = ("env[]", ".env_at_exec[]", ".set[]")


def _is_typed(argument: Weighed) -> bool:
    return any(c.leaf.startswith("[--") or ".typed_argument[" in c.path for c in argument.candidate.changes)


def _is_exported(variable: Weighed) -> bool:
    """Whether a process that starts the ranks has it otherwise too: then somebody exported it."""
    held = [c.path for c in variable.candidate.changes]
    return any(p.startswith("env[") or (p.startswith("worker[") and instances_of(p)[0].endswith("main")) for p in held)


def _caused(cause: Weighed, consequence: Weighed, sizes: Consequences) -> Weighed:
    """One suspect of both, for which all speaks that speaks for the consequence."""
    weight = max(sizes.cause, consequence.odds - cause.odds)
    text = f"It would bring about what changed too: {consequence.candidate.title}."
    return _joined(_with(cause, text, weight), consequence)


def _joined(cause: Weighed, consequence: Weighed) -> Weighed:
    """One suspect of both. What was measured of the consequence bounds the cause."""
    candidate = replace(
        cause.candidate,
        changes=(*cause.candidate.changes, *consequence.candidate.changes),
        prior=max(cause.candidate.prior, consequence.candidate.prior),
    )
    bound = consequence.bound
    if bound is None or not bound.measured or (cause.bound is not None and cause.bound.measured):
        return replace(cause, candidate=candidate)
    kept = tuple(e for e in cause.evidence if cause.bound is None or not e.text.startswith(cause.bound.says))
    size = tuple(e for e in consequence.evidence if e.text.startswith(bound.says))
    return Weighed(candidate, (*kept, *size), bound)


def _stands_out(weighed: Weighed, sizes: Consequences) -> bool:
    """Whether something of its own speaks for it, and more for than against it."""
    return weighed.odds > 0 and any(e.weight >= sizes.least for e in weighed.evidence)


def _with(weighed: Weighed, text: str, weight: float) -> Weighed:
    piece = Evidence(text, weight, weighed.candidate.paths[:1])
    return replace(weighed, evidence=(*weighed.evidence, piece))
