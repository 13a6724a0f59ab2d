"""Did it reach the workers? Every variable from the shell over the launcher to each worker, and who changed it.

A pure function of a snapshot: what a process has is compared with what the process has that started it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from envsnap.collectors import key_for
from envsnap.keys import Kind, instances_of, path_of
from envsnap.reading import Error, Reading, Unavailable, Unknown, Unset, Value
from envsnap.snapshot import Snapshot
from envsnap.workers.engine_writes import writer

ATTRIBUTES = (
    "working_directory",
    "umask",
    "cpus",
    "numa_policy",
    "memory_nodes",
    "cgroup",
    "scheduling_policy",
    "nice",
    "oom_score_adjustment",
    "user_id",
    "namespaces_apart",
    "memlock_soft_bytes",
    "nofile_soft_count",
    "stack_soft_bytes",
    "seccomp",
    "gpu_devices",
)
"""What else is inherited, or bound to a process: keys of the section `worker`."""

SHELL = "shell"

# Variables that differ between ranks by their nature.
_OF_A_RANK = re.compile(
    r"(?:LOCAL_|GROUP_|ROLE_|GLOBAL_)?RANK|CUDA_VISIBLE_DEVICES|SGLANG_.*RANK|VLLM_.*RANK|OMP_PLACES|GOMP_.*"
)
_NUMBERED = re.compile(r"(.*?)\d+$")


class State(str, Enum):
    """What became of a variable on the way from the parent process to this one."""

    SAME = "same"
    SET = "set"
    CHANGED = "changed"
    MISSING = "missing"
    UNSET = "unset"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Cell:
    """A variable in one process. `by` says who set or changed it, as far as is known; `why` why it is unknown."""

    state: State
    value: str | None = None
    by: str = ""
    why: str = ""


@dataclass(frozen=True)
class Row:
    """One variable or attribute over all processes. `odd` are the processes that differ from their siblings."""

    name: str
    cells: Mapping[str, Cell]
    odd: tuple[str, ...]
    prior: float

    @property
    def uniform(self) -> bool:
        """Whether every process has the same, and nothing of it is unknown."""
        return len({(c.value, c.state is State.UNKNOWN) for c in self.cells.values()}) == 1 and not any(
            c.state is State.UNKNOWN for c in self.cells.values()
        )


@dataclass(frozen=True)
class Propagation:
    """`processes` from the shell down, parents before children; rows that need a look first."""

    processes: tuple[str, ...]
    parents: Mapping[str, str]
    variables: tuple[Row, ...]
    attributes: tuple[Row, ...]


def propagation(snapshot: Snapshot, also: Iterable[str] = ()) -> Propagation:
    """Follow every variable through the processes that a snapshot holds, and those named; no processes: no rows."""
    parents = _parents(snapshot)
    processes = _in_order(parents)
    names = sorted({*variables_of(snapshot), *(also if processes else ())})
    view = _View(snapshot, processes, parents)
    variables = [view.variable(name) for name in names]
    attributes = [view.attribute(name) for name in ATTRIBUTES]
    return Propagation(
        tuple(processes),
        parents,
        tuple(sorted(variables, key=_urgency)),
        tuple(row for row in attributes if any(c.state is not State.UNSET for c in row.cells.values())),
    )


def variables_of(snapshot: Snapshot) -> set[str]:
    """The names of all variables that some process has or had."""
    return {instances_of(path)[1] for path in snapshot.paths if _is_variable(path)}


def _is_variable(path: str) -> bool:
    return path.startswith("worker[") and ("].env[" in path or "].env_at_exec[" in path)


def _urgency(row: Row) -> tuple[bool, bool, float, str]:
    """Ranks that stand out, then what did not arrive as exported, then by how readily it is a cause."""
    moved = any(c.state in (State.CHANGED, State.MISSING) for c in row.cells.values())
    return not row.odd, not moved, -row.prior, row.name


def _parents(snapshot: Snapshot) -> dict[str, str]:
    """Who started whom; empty for the first. What stands between shell and launcher (envsnap) is passed over."""
    found = {instances_of(path)[0] for path in snapshot.paths if path.startswith("worker[")}
    parents = {}
    for process in found:
        parent = snapshot.reading(path_of("worker[].parent", process))
        known = isinstance(parent, Value) and parent.value in found
        above = SHELL if SHELL in found and process != SHELL else ""
        parents[process] = str(parent.value) if isinstance(parent, Value) and known else above
    return parents


def _in_order(parents: Mapping[str, str]) -> list[str]:
    """Roles from the shell down: a process after the one that started it, siblings by name with numbers in order."""
    ordered: list[str] = []

    def place(role: str) -> None:
        ordered.append(role)
        for child in sorted((p for p, parent in parents.items() if parent == role), key=_natural):
            if child not in ordered:
                place(child)

    for root in sorted((p for p, parent in parents.items() if not parent), key=_natural):
        place(root)
    return ordered


def _natural(text: str) -> list[tuple[bool, int, str]]:
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", text)]


class _View:
    """One snapshot's processes, looked at variable by variable."""

    def __init__(self, snapshot: Snapshot, processes: Sequence[str], parents: Mapping[str, str]) -> None:
        self.snapshot = snapshot
        self.processes = processes
        self.parents = parents
        self.conf = {
            instances_of(path)[1]: (str(value), instances_of(path)[0])
            for path, value in reversed(snapshot.values.items())
            if path.startswith("nccl.conf[") and "].set[" in path
        }

    def variable(self, name: str) -> Row:
        """A variable's row."""
        live = {p: self.snapshot.reading(path_of("worker[].env[]", p, name)) for p in self.processes}
        cells = {p: self._cell(name, p, live) for p in self.processes}
        key = key_for(path_of("worker[].env[]", self.processes[0], name))
        noise = key.kind in (Kind.VOLATILE, Kind.LABEL) or _OF_A_RANK.fullmatch(name) is not None
        return Row(name, cells, () if noise else _odd(cells), 0.0 if noise else key.prior)

    def attribute(self, name: str) -> Row:
        """A row of something else that is inherited."""
        live = {p: self.snapshot.reading(path_of(f"worker[].{name}", p)) for p in self.processes}
        cells = {p: self._compared(p, live, "") for p in self.processes}
        noise = name in ("cpus", "memory_nodes", "gpu_devices")  # bound rank by rank, on purpose
        return Row(name, cells, () if noise else _odd(cells), key_for(path_of(f"worker[].{name}", "x")).prior)

    def _cell(self, name: str, process: str, live: Mapping[str, Reading]) -> Cell:
        cell = self._compared(process, live, "")
        if cell.state not in (State.SET, State.CHANGED) or cell.value is None:
            return cell
        return Cell(cell.state, cell.value, self._by(name, process, cell.value))

    def _compared(self, process: str, live: Mapping[str, Reading], by: str) -> Cell:
        """What a process has against what its parent has."""
        own, value = live[process], _text(live[process])
        parent = live.get(self.parents.get(process, ""), Unset())
        if isinstance(own, (Unavailable, Error, Unknown)):
            return Cell(
                State.UNKNOWN, why=str(own) if isinstance(own, Unavailable) else getattr(own, "message", "not read")
            )
        if value is None:
            return Cell(State.MISSING if isinstance(parent, Value) else State.UNSET)
        if isinstance(parent, (Unavailable, Error, Unknown)):
            return Cell(State.SET, value, by)
        before = _text(parent)
        if before is None:
            return Cell(State.SET, value, by)
        return Cell(State.SAME if before == value else State.CHANGED, value, by)

    def _by(self, name: str, process: str, value: str) -> str:
        """Who wrote a value that the parent does not have."""
        if not self.parents[process]:
            return "exported in the shell" if process == SHELL else ""
        if name in self.conf and self.conf[name][0] == value:
            return f"nccl.conf ({self.conf[name][1]})"
        if name.startswith("SGLANG_"):
            old = self.snapshot.reading(path_of("worker[].env[]", process, "SGL_" + name[len("SGLANG_") :]))
            if _text(old) == value:
                return f"copied from the deprecated SGL_{name[len('SGLANG_') :]}"
        if known := writer(name, process, value):
            return str(known)
        at_exec = self.snapshot.reading(path_of("worker[].env_at_exec[]", process, name))
        added = self.snapshot.reading(path_of("worker[].env_added", process))
        if isinstance(at_exec, Value) or (isinstance(added, Value) and name in added.value):
            return "the process itself, after its start"
        if isinstance(self.snapshot.reading(path_of("worker[].env_at_exec", process)), Unavailable):
            return "the process itself, or given to it alone at its start"
        # NOTE: a shell shows what it exports only once it has started a program with it, some never do.
        return (
            "exported in the shell, or given at its start" if self.parents[process] == SHELL else "given at its start"
        )


def _text(reading: Reading) -> str | None:
    if not isinstance(reading, Value):
        return None
    return ", ".join(map(str, reading.value)) if isinstance(reading.value, list) else str(reading.value)


def _odd(cells: Mapping[str, Cell]) -> tuple[str, ...]:
    """Processes that differ from the majority of those with the same name but for a number."""
    families: dict[str, list[str]] = {}
    for process in cells:
        if match := _NUMBERED.fullmatch(process):
            families.setdefault(match[1], []).append(process)
    return tuple(p for members in families.values() if len(members) > 1 for p in _minority(members, cells))


def _minority(members: Iterable[str], cells: Mapping[str, Cell]) -> list[str]:
    by_value: dict[tuple[str | None, bool], list[str]] = {}
    for member in members:
        by_value.setdefault((cells[member].value, cells[member].state is State.UNKNOWN), []).append(member)
    if len(by_value) == 1:
        return []
    largest = max(by_value.values(), key=len)
    rest = [m for group in by_value.values() if group is not largest for m in group]
    # NOTE: among two ranks there is no majority: both are named, the reader knows which one is wrong.
    return rest if len(largest) > len(rest) else [*largest, *rest]
