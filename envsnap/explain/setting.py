"""The setting: what the engine was told and what it resolved, as far as it decides how a change can act at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from envsnap.keys import instances_of
from envsnap.known_names import OFF
from envsnap.reading import Json
from envsnap.snapshot import Snapshot

_SHORT = {"tp": "tp_size", "tensor_parallel_size": "tp_size", "tensor_parallel": "tp_size", "dp": "dp_size"}
_RANK = re.compile(r"(?:.*/)?(?:scheduler|Worker|worker|rank|child|spawn|fork).*\d")


@dataclass(frozen=True)
class Setting:
    """One side's setting; None is not known.

    `ranks` are the processes among which a model is split, `hosts` the machines that they stand on. `graphs` says
    whether decoding runs from CUDA graphs, `nvlink` whether GPUs are joined by it.
    """

    arguments: Mapping[str, Json]
    typed: Mapping[str, Json]
    ranks: int | None
    hosts: int | None
    speculative: bool | None
    graphs: bool | None
    nvlink: bool | None
    gpus: int | None
    concurrency: int | None = None

    @property
    def communicates(self) -> bool | None:
        """Whether a step has to wait for other ranks."""
        return None if self.ranks is None else self.ranks > 1


def setting_of(snapshot: Snapshot) -> Setting:
    """What a snapshot says of it; arguments as resolved where somebody recorded that, else as typed."""
    typed = typed_arguments(snapshot)
    resolved = resolved_arguments(snapshot)
    arguments = resolved or typed
    values = snapshot.values
    return Setting(
        arguments=arguments,
        typed=typed,
        ranks=_ranks(snapshot, arguments),
        hosts=_hosts(snapshot, arguments),
        speculative=_speculates(arguments, typed) if arguments else None,
        graphs=_graphs(arguments) if arguments else None,
        nvlink=_any(v for p, v in values.items() if p.startswith("gpu[") and p.endswith("].nvlink_active_count")),
        gpus=_integer(values.get("nvml.gpu_count")),
    )


def joined(fast: Setting, slow: Setting) -> Setting:
    """What may matter on either side: the larger number, and a feature that one of them has."""
    return Setting(
        arguments=slow.arguments or fast.arguments,
        typed=slow.typed or fast.typed,
        ranks=_larger(fast.ranks, slow.ranks),
        hosts=_larger(fast.hosts, slow.hosts),
        speculative=_any(v for v in (fast.speculative, slow.speculative) if v is not None),
        graphs=_any(v for v in (fast.graphs, slow.graphs) if v is not None),
        nvlink=_any(v for v in (fast.nvlink, slow.nvlink) if v is not None),
        gpus=_larger(fast.gpus, slow.gpus),
        concurrency=_larger(fast.concurrency, slow.concurrency),
    )


def _larger(one: int | None, two: int | None) -> int | None:
    return max((n for n in (one, two) if n is not None), default=None)


_CONCURRENCY = ("concurrency", "max_concurrency", "num_concurrent", "batch_size")


def concurrency_of(request: Mapping[str, Json]) -> int | None:
    """How many requests a benchmark had under way at once, by what it recorded of itself."""
    return next((n for name in _CONCURRENCY if (n := _integer(request.get(name))) is not None), None)


def resolved_arguments(snapshot: Snapshot) -> dict[str, Json]:
    """Arguments by name, as the first server (or worker's record) resolved them and as they hold at run time."""
    found: dict[str, Json] = {}
    late: dict[str, Json] = {}
    for path, value in snapshot.values.items():
        if path.startswith(("server[", "record[")) and "argument[" in path:
            kind = path[path.index("].") + 2 :]
            name = instances_of(path)[-1]
            if kind.startswith("argument["):
                found.setdefault(name, value)
            elif ".runtime_argument[" in path:
                late.setdefault(name, value)
    return {**found, **late}


def typed_arguments(snapshot: Snapshot) -> dict[str, Json]:
    """Arguments by name, as they stand on the command line of the server or of its main process."""
    values = snapshot.values
    for path, value in values.items():
        if path.startswith("server[") and path.endswith("].launch_command"):
            return options(value)
    launchers = [p for p in values if p.startswith("worker[") and p.endswith("].argv")]
    for path in sorted(launchers, key=lambda p: (not instances_of(p)[0].endswith("main"), p)):
        if found := options(values[path]):
            return found
    return {}


def options(argv: Json) -> dict[str, Json]:
    """The long options of a command line by name (`tp_size`), True for one without a value; the last one holds.

    None for what is no command line: who wrote a record is not trusted.
    """
    found: dict[str, Json] = {}
    if not isinstance(argv, (list, tuple)):
        return found
    words = [str(word) for word in argv]
    for i, word in enumerate(words):
        if not word.startswith("--") or len(word) < 4:
            continue
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        following = words[i + 1 : i + 2]
        if equals:
            found[_SHORT.get(name, name)] = value
        elif following and not following[0].startswith("--"):
            found[_SHORT.get(name, name)] = following[0]
        else:
            found[_SHORT.get(name, name)] = True
    return found


def _ranks(snapshot: Snapshot, arguments: Mapping[str, Json]) -> int | None:
    sizes = [_integer(arguments.get(name)) for name in ("tp_size", "ep_size", "pp_size")]
    if known := [size for size in sizes if size is not None]:
        return max(known)
    counted = [
        _integer(v) for p, v in snapshot.values.items() if p.startswith("nccl.rank[") and p.endswith("].ranks_count")
    ]
    if ranks := [n for n in counted if n is not None]:
        return max(ranks)
    roles = {instances_of(p)[0] for p in snapshot.values if p.startswith("worker[")}
    workers = sum(_RANK.fullmatch(role) is not None for role in roles)
    return workers if workers > 1 else 1 if arguments else None


def _hosts(snapshot: Snapshot, arguments: Mapping[str, Json]) -> int | None:
    if (told := _integer(arguments.get("nnodes"))) is not None:
        return told
    ranks = [_integer(v) for p, v in snapshot.values.items() if p.endswith("].ranks_count")]
    here = sum(p.startswith("nccl.rank[") and p.endswith("].ranks_count") for p in snapshot.values)
    largest = max((n for n in ranks if n is not None), default=0)
    if largest:
        return 1 if here >= largest else 2
    if any(p.startswith("nccl.rank[") and p.endswith("].network") for p in snapshot.values):
        return None
    return 1 if arguments and not {"dist_init_addr", "node_rank"} & arguments.keys() else None


_ALGORITHM = ("speculative_algorithm", "speculative_config")
_SPECULATION = re.compile(r"(?:^|[_.-])(?:spec(?:ulat\w*)?|draft\w*)(?:[_.-]|$)", re.IGNORECASE)


def _speculates(arguments: Mapping[str, Json], typed: Mapping[str, Json]) -> bool:
    """By the algorithm that was resolved; an engine that names none so has options of its own, which were typed."""
    for name in _ALGORITHM:
        if name in arguments:
            return is_set(arguments[name])
    return any(
        _SPECULATION.search(name) and not name.startswith(("no_", "disable_")) and is_set(value)
        for name, value in typed.items()
    )


def is_set(value: Json) -> bool:
    """Whether a value of an argument asks for anything: `none`, `null`, `off` and `0` do not."""
    return bool(value) and str(value).strip().lower() not in OFF | {"null"}


def _graphs(arguments: Mapping[str, Json]) -> bool:
    return not any(arguments.get(name) in (True, "True", "true") for name in ("disable_cuda_graph", "enforce_eager"))


def _any(values: Iterable[Json]) -> bool | None:
    found = list(values)
    return any(found) if found else None


def _integer(value: Json) -> int | None:
    try:
        return None if value is None or isinstance(value, bool) else int(value)
    except (TypeError, ValueError):
        return None
