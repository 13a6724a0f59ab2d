"""What NCCL says of itself in a log written with NCCL_DEBUG=INFO.

One file may hold several ranks (lines begin with `host:pid:tid [device]`) and several communicators of one rank.
A rank's figures are those of its largest communicator. Lines that say nothing known are counted, never guessed at.
Read from logs of NCCL 2.28; other versions' lines are recognised as far as they agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

MAX_LINES = 200_000
MAX_RANKS = 1024

_LINE = re.compile(r"(?P<process>\S+:\d+):\d+ \[(?P<device>-?\d+)\] NCCL (?P<level>INFO|WARN|TRACE) (?P<text>.*)")
_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+\S*)")
_DRIVER = re.compile(r"cudaDriverVersion (\d+)$")
_SET = re.compile(r"(NCCL_[A-Z0-9_]+) set (?:by environment )?to (.+?)\.?$")
_INIT = re.compile(r"(?:ncclCommInit\w+ )?comm (0x[0-9a-f]+) rank (\d+) n[rR]anks (\d+)\b")
_NETWORK = re.compile(r"Using network (.+)$")
_VIA = re.compile(r"Channel \d+/\d+ : \d+\[[^\]]*\] -> (\d+)\[[^\]]*\](?: \[(?:send|receive)\])? via (\S+)")
_CHANNELS = re.compile(r"(\d+) coll channels, (\d+) collnet channels, (\d+) nvls channels, (\d+) p2p channels")
_MATRIX_HEAD = re.compile(r"\s*Function \|(.*)\|(.*?)\|?\s*$")
_MATRIX_ROW = re.compile(r"\s*(\w+) \|([ \d]+)\|([ \d]+)\|?\s*$")
_RINGS = re.compile(r"Connected all rings.*\bGDR (\d)")
_LOADED = re.compile(r"(?:NET|TUNER|PROFILER|ENV)/Plugin: (?:Loaded|Using) .*?(?:plugin )?(\S+)")
_P2P = re.compile(r"isAllDirectP2p (\d)")


@dataclass
class Rank:
    """What one rank's lines say. `transports` maps a peer to the transports used to send to it."""

    version: str = ""
    cuda_driver: int | None = None
    rank: int | None = None
    ranks: int = 0
    network: str = ""
    set_by_environment: dict[str, str] = field(default_factory=dict)
    transports: dict[int, set[str]] = field(default_factory=dict)
    channels: dict[str, int] = field(default_factory=dict)
    protocols: dict[str, list[str]] = field(default_factory=dict)
    algorithms: dict[str, list[str]] = field(default_factory=dict)
    plugins: set[str] = field(default_factory=set)
    gpu_direct_rdma: bool | None = None
    all_direct_p2p: bool | None = None
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Log:
    """Ranks by number, and how many lines were NCCL's, were none of its, or were beyond the bound."""

    ranks: dict[int, Rank]
    nccl_lines: int
    other_lines: int
    cut: bool


def parse(lines: Iterable[str]) -> Log:
    """Read a log of one or more ranks. Never raises for its content."""
    processes: dict[str, Rank] = {}
    matrix: dict[str, list[str]] = {}
    current: Rank | None = None
    nccl = other = 0
    cut = False
    for number, line in enumerate(lines):
        if number >= MAX_LINES:
            cut = True
            break
        match = _LINE.match(line.rstrip("\n"))
        if match:
            nccl += 1
            if match["process"] not in processes and len(processes) >= MAX_RANKS:
                cut = True
                continue
            current = processes.setdefault(match["process"], Rank())
            _line(current, match["level"], match["text"])
        elif current is not None and _matrix(current, line, matrix):
            nccl += 1
        elif line.strip():
            other += 1
    return Log(_by_number(processes), nccl, other, cut)


def _by_number(processes: dict[str, Rank]) -> dict[int, Rank]:
    """Processes by the rank they had; those that never named one come after, so that nothing is lost."""
    found: dict[int, Rank] = {}
    for rank in processes.values():
        if rank.rank is not None and rank.rank not in found:
            found[rank.rank] = rank
    return found


def _line(rank: Rank, level: str, text: str) -> None:
    if level == "WARN":
        if len(rank.warnings) < 20:
            rank.warnings.append(text[:300])
        return
    if match := _INIT.match(text):
        if int(match[3]) >= rank.ranks:
            rank.rank, rank.ranks = int(match[2]), int(match[3])
    elif match := _VIA.match(text):
        rank.transports.setdefault(int(match[1]), set()).add(match[2])
    elif match := _VERSION.search(text):
        rank.version = match[1]
    elif match := _SET.search(text):
        rank.set_by_environment[match[1]] = match[2].strip()
    elif match := _CHANNELS.search(text):
        names = ("collective", "collnet", "nvls", "p2p")
        rank.channels = {name: int(count) for name, count in zip(names, match.groups())}
    elif match := _DRIVER.match(text):
        rank.cuda_driver = int(match[1])
    elif match := _NETWORK.search(text):
        rank.network = match[1].strip()
    elif match := _RINGS.search(text):
        rank.gpu_direct_rdma = match[1] == "1"
    elif match := _P2P.search(text):
        rank.all_direct_p2p = match[1] == "1"
    elif match := _LOADED.match(text):
        rank.plugins.add(match[1])


def _matrix(rank: Rank, line: str, heads: dict[str, list[str]]) -> bool:
    """One line of the table of enabled protocols and algorithms; it has no prefix of its own."""
    if head := _MATRIX_HEAD.match(line):
        heads["protocols"], heads["algorithms"] = head[1].split(), head[2].split()
        return True
    row = _MATRIX_ROW.match(line)
    if not row or not heads:
        return False
    for name, cells, target in (("protocols", row[2], rank.protocols), ("algorithms", row[3], rank.algorithms)):
        if len(cells.split()) == len(heads[name]):
            target[row[1]] = sorted(n for n, on in zip(heads[name], cells.split()) if on != "0")
    return True
