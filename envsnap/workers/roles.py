"""Roles: what each process of interest is called, so that the workers of two runs line up.

By title, then by what it runs, then by its rank, then by parentage. One declaration for each engine, matched
loosely, since titles differ between versions.

Seen on real runs: SGLang 0.5.16 (launcher, scheduler, scheduler_TP0, scheduler_TP1, detokenizer, resource tracker),
multiprocessing's spawn, fork and forkserver children of Python 3.10 to 3.13. By their sources or public process
listings, not by a run here: SGLang's other titles, vLLM, TensorRT-LLM, torchrun, MPI, Ray.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envsnap.workers.tree import SHELL, Group, Process

Rules = tuple[tuple[str, str], ...]
"""(regular expression on the whole text, role; groups may be referred to)."""


@dataclass(frozen=True)
class Engine:
    """How the processes of one engine are known."""

    titles: Rules = ()
    """By the title that a process gave itself."""
    programs: Rules = ()
    """By the module or script that it runs, with its arguments; see `command`."""


SGLANG = Engine(
    titles=(
        (r"sglang::tokenizer_worker\b.*", "tokenizer_worker"),  # its title ends in its pid
        (r"sglang::(\w+).*", r"\1"),
        (r"sgl_diffusion::(\w+).*", r"diffusion_\1"),
    ),
    programs=(
        (
            r"(sglang\.launch_server|(\S*/)?sglang/launch_server\.py|(\S*/)?sglang serve|sglang\.cli\S* serve)\b.*",
            "main",
        ),
        (r"sglang\.(bench_one_batch|bench_offline_throughput|benchmark\.(one_batch|offline_throughput))\b.*", "main"),
        (r"sglang\.(bench|benchmark|test)\b.*|sglang\.bench_\w+.*", "client"),
    ),
)
VLLM = Engine(
    titles=((r"\S+::((?:EngineCore|Worker|APIServer|DPCoordinator)\w*)", r"\1"),),  # the prefix can be configured
    programs=(
        (r"((\S*/)?vllm serve|vllm\.entrypoints\.(openai\.)?api_server)\b.*", "main"),
        (r"(\S*/)?vllm bench\b.*", "client"),
    ),
)
TENSORRT_LLM = Engine(
    programs=((r"((\S*/)?trtllm-serve|tensorrt_llm\.commands\.serve)\b.*", "main"),),
)
TORCHRUN = Engine(
    programs=((r"((\S*/)?torchrun|torch\.distributed\.(run|launch))\b.*", "agent"),),
)
RAY = Engine(titles=((r"ray::([A-Za-z_]\w*).*", r"ray_\1"),))  # what follows is the method that runs just now

ENGINES = (SGLANG, RAY, VLLM, TENSORRT_LLM, TORCHRUN)
ANY = "|".join(
    f"(?:{pattern})" for engine in ENGINES for pattern, role in (*engine.titles, *engine.programs) if role != "client"
)
"""A pattern that finds the processes of any of them, as `Scope.match` takes it."""

_HELPERS: Rules = (
    (r"-c from multiprocessing\.spawn import\b.*", "spawn"),
    (r"-c from multiprocessing\.forkserver import\b.*", "forkserver"),
    (r"-c from multiprocessing\.resource_tracker import\b.*", "resource_tracker"),
    (r"(\S*/)?torch/_inductor/compile_worker/\S*.*", "compile_worker"),
    (r"mpi4py\.futures\.server\b.*", "mpi_worker"),
)
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""Variables that launchers give their workers, the most telling first."""

_NUMBERED = frozenset({"spawn", "fork", "forkserver_child", "child", "compile_worker", "tokenizer_worker"})
"""Roles that always carry a number, in order of start."""
_SERVING = frozenset({"main", "agent"})
_WRAPPERS = re.compile(
    r"(?:timeout|time|env|nice|numactl|taskset|chrt|stdbuf|setsid|nohup|sudo|uv|nsys|ncu|perf|strace|gdb|tee|tini|"
    r"dumb-init|docker-init|srun|mpirun|mpiexec|prte|prterun|orted|hydra_pmi_proxy)\Z"
)


def assign(groups: Sequence[Group], environments: Mapping[int, Mapping[str, str]]) -> dict[int, str]:
    """pid -> role, unique, for all members and chains.

    `environments` (by pid, where known) tell the rank that a launcher gave. Where several servers run, roles have
    the form SERVER/role; SERVER is the port where every server was given one, else the position in order of start.
    """
    roles: dict[int, str] = {}
    prefixes = _prefixes(groups)
    for group, prefix in zip(groups, prefixes):
        for pid, role in _unique([(p, base) for p, base in _bases(group, environments).items()]).items():
            roles[pid] = prefix + role
    chain = {p.pid: p for group in groups for p in group.chain if p.pid not in roles}
    taken = set(roles.values())
    for pid, role in _unique([(p, _chain_role(p)) for p in chain.values()]).items():
        roles[pid] = role if role not in taken else f"launcher/{role}"
    return roles


def serving(groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups that count: where any runs an engine, those that only matched the pattern (an editor, a client) go."""
    known = [
        group for group in groups if group.named or any(_engine_role(p) not in ("", "client") for p in group.members)
    ]
    return tuple(known or groups)


def compile_pool(group: Group) -> dict[int, int]:
    """Inductor's compile pool, dozens of identical helpers that hold no GPU: their pids -> whose pool it is."""
    pool: dict[int, int] = {}
    for process in group.members:
        if process.parent in pool:
            pool[process.pid] = pool[process.parent]
        elif _first(_HELPERS, command(process)) == "compile_worker":
            pool[process.pid] = process.parent
    return pool


def command(process: Process) -> str:
    """What a process runs, without interpreter and its options: `sglang.launch_server --tp 2`, `vllm serve …`."""
    argv = list(process.argv)
    if not argv or not re.match(r"(?:python|pypy)[\d.]*\w?\Z", process.program):
        return " ".join(argv)
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        option = argv[at]
        at += 1
        if re.match(r"-[A-Za-z]*m\Z", option):
            break
        if re.match(r"-[A-Za-z]*c\Z", option):
            return " ".join(["-c", *argv[at:]])
        if option in ("-W", "-X"):
            at += 1
    return " ".join(argv[at:])


def _bases(group: Group, environments: Mapping[int, Mapping[str, str]]) -> dict[Process, str]:
    """Each member's role before numbers make it unique."""
    members = {p.pid: p for p in group.members}
    bases: dict[Process, str] = {}
    for process in group.members:
        parent = members.get(process.parent)
        bases[process] = _base(process, parent, bases.get(parent, "") if parent else "", environments)
    if not _SERVING & set(bases.values()):
        first = next((p for p in group.members if not SHELL.match(p.program) and not _wraps(p)), group.root)
        if not _engine_role(first) and not _first(_HELPERS, command(first)):
            bases[first] = "main"
    return bases


def _base(
    process: Process, parent: Process | None, parent_base: str, environments: Mapping[int, Mapping[str, str]]
) -> str:
    rank = _rank(environments.get(process.pid, {}))
    own_rank = f"rank{rank}" if parent and rank and rank != _rank(environments.get(parent.pid, {})) else ""
    if parent and process.command and process.command == parent.command:
        return own_rank or ("forkserver_child" if parent_base == "forkserver" else "fork")
    role = _engine_role(process) or ("shell" if SHELL.match(process.program) else "") or own_rank
    if role or (role := _first(_HELPERS, command(process))):
        return role
    if process.retitled:
        return _slug(process.argv[0].replace(str(process.pid), "")) if process.argv else "child"
    if not process.argv or command(process).startswith("-c ") or process.program.startswith("python"):
        return "child"
    return _slug(process.program)


def _chain_role(process: Process) -> str:
    if role := _engine_role(process):
        return role
    if SHELL.match(process.program):
        return "shell"
    return "launcher" if process.program.startswith("python") else _slug(process.program)


def _engine_role(process: Process) -> str:
    for engine in ENGINES:
        role = _first(engine.titles, " ".join(process.argv)) or _first(engine.programs, command(process))
        if role:
            return role
    return ""


def _first(rules: Rules, text: str) -> str:
    for pattern, role in rules:
        if match := re.fullmatch(pattern, text, re.S):
            return match.expand(role)
    return ""


def _rank(environment: Mapping[str, str]) -> str:
    value = next((environment[name] for name in RANKS if name in environment), "")
    return value if re.fullmatch(r"\d{1,6}", value) else ""


def _wraps(process: Process) -> bool:
    return bool(_WRAPPERS.match(process.program))


def _unique(named: Sequence[tuple[Process, str]]) -> dict[int, str]:
    """Numbers, in order of start, where several share a name, and where the kind always has one."""
    result: dict[int, str] = {}
    taken = {base for _, base in named}
    for base in dict.fromkeys(base for _, base in named):
        sharing = [p for p, b in named if b == base]
        if len(sharing) == 1 and base not in _NUMBERED:
            result[sharing[0].pid] = base
            continue
        number = 0
        for process in sharing:
            while (role := f"{base}{number}" if not base[-1:].isdigit() else f"{base}.{number}") in taken:
                number += 1
            result[process.pid] = role
            number += 1
    return result


def _prefixes(groups: Sequence[Group]) -> list[str]:
    if len(groups) < 2:
        return [""] * len(groups)
    ports = [next((port for p in group.members if (port := _port(p))), "") for group in groups]
    if all(ports) and len(set(ports)) == len(ports):
        return [f"port{port}/" for port in ports]
    return [f"server{i}/" for i in range(len(groups))]


def _port(process: Process) -> str:
    match = re.search(r"(?:^| )--port[= ](\d{1,5})(?: |$)", command(process))
    return match[1] if match else ""


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.:+-]+", "_", posixpath.basename(text) or text)[:48].strip("_") or "child"
