"""NCCL: its configuration files, and what it says of itself in a log.

What each worker really has set is in the worker's environment, which holds what NCCL set from these files too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Error, Found, Json, Unavailable, Value, Why
from envsnap.scope import Scope

if TYPE_CHECKING:
    from envsnap.workers import nccl_log

METHOD = "nccl.conf files, NCCL_DEBUG log, RAS"

_COMM = (Effect.COMMUNICATION, Effect.VERIFY)
LOG_LIMIT = 32 << 20
RAS_PORT = 28028

KEYS = (
    Key("nccl.conf[].path", Type.STRING, Kind.LABEL,
        "Configuration file that NCCL reads: system is /etc/nccl.conf, user is ~/.nccl.conf or what NCCL_CONF_FILE "
        "names instead of it."),
    Key("nccl.conf[].set[]", Type.STRING, Kind.TUNABLE,
        "Variable that NCCL sets from this file in every process where the environment does not hold it already.",
        _COMM, 0.8, Lever.FILE, "os.environ never shows it; the worker's live environment does, after NCCL's start."),
    Key("nccl.conf[].odd_names", Type.STRINGS, Kind.TUNABLE,
        "Names that the file sets but NCCL never looks up, because of a blank or a misspelling.",
        (Effect.VALIDITY, Effect.COMMUNICATION), 0.6, Lever.FILE,
        "NCCL takes the text before the equals sign as it stands: with blanks around it, the name ends in a blank."),
    Key("nccl.log.rank_count", Type.INTEGER, Kind.IDENTITY, "Ranks that the log speaks of.", (Effect.WORKLOAD,), 0.3),
    Key("nccl.log.unread_count", Type.INTEGER, Kind.VOLATILE, "Lines of the log that are not NCCL's."),
    Key("nccl.ras.version", Type.STRING, Kind.IDENTITY, "NCCL version of the job that answers at the RAS port.",
        _COMM, 0.7, Lever.PACKAGE),
    Key("nccl.ras.cuda_runtime", Type.INTEGER, Kind.IDENTITY, "CUDA runtime version by NCCL's RAS.", _COMM, 0.3),
    Key("nccl.ras.cuda_driver", Type.INTEGER, Kind.IDENTITY, "CUDA driver version by NCCL's RAS.", _COMM, 0.4),
    Key("nccl.ras.communicators_count", Type.INTEGER, Kind.IDENTITY, "Communicators of the job.",
        (Effect.WORKLOAD, Effect.COMMUNICATION), 0.3),
    Key("nccl.ras.largest_ranks_count", Type.INTEGER, Kind.IDENTITY, "Ranks of the largest communicator.",
        (Effect.WORKLOAD, Effect.COMMUNICATION), 0.4),
    Key("nccl.ras.missing_ranks_count", Type.INTEGER, Kind.IDENTITY, "Ranks that do not answer, of all communicators.",
        (Effect.COMMUNICATION, Effect.VALIDITY), 0.8, None, "A rank that hangs or died holds every collective."),
    Key("nccl.ras.errors_count", Type.INTEGER, Kind.IDENTITY, "Ranks with an asynchronous error or an abort.",
        (Effect.COMMUNICATION, Effect.VALIDITY), 0.8),
    Key("nccl.rank[].version", Type.STRING, Kind.IDENTITY, "NCCL version that this rank loaded, by its own word.",
        _COMM, 0.7, Lever.PACKAGE),
    Key("nccl.rank[].cuda_driver", Type.INTEGER, Kind.IDENTITY, "CUDA driver version as this rank's NCCL sees it.",
        _COMM, 0.4),
    Key("nccl.rank[].ranks_count", Type.INTEGER, Kind.IDENTITY, "Ranks in this rank's largest communicator.",
        (Effect.WORKLOAD, Effect.COMMUNICATION), 0.4),
    Key("nccl.rank[].network", Type.STRING, Kind.IDENTITY, "Network NCCL uses between nodes (IB, Socket, a plug-in).",
        _COMM, 0.8, None, "Socket where InfiniBand or RoCE exists means that NCCL fell back to TCP."),
    Key("nccl.rank[].plugins", Type.STRINGS, Kind.IDENTITY, "Plug-ins that NCCL loaded.", _COMM, 0.6),
    Key("nccl.rank[].set[]", Type.STRING, Kind.TUNABLE, "Variable that NCCL says it took from the environment.",
        _COMM, 0.8, Lever.ENV),
    Key("nccl.rank[].transport[]", Type.STRINGS, Kind.IDENTITY, "Transports that this rank sends to that peer by.",
        _COMM, 0.8, None, "P2P is direct; SHM goes through host memory; NET through the network."),
    Key("nccl.rank[].channels[]", Type.INTEGER, Kind.IDENTITY,
        "Channels of one kind: collective, collnet, nvls, p2p.", _COMM, 0.6),
    Key("nccl.rank[].protocols[]", Type.STRINGS, Kind.IDENTITY, "Protocols enabled for a collective.", _COMM, 0.7),
    Key("nccl.rank[].algorithms[]", Type.STRINGS, Kind.IDENTITY, "Algorithms enabled for a collective.", _COMM, 0.7),
    Key("nccl.rank[].gpu_direct_rdma", Type.BOOLEAN, Kind.IDENTITY, "Whether rings use GPU direct RDMA.", _COMM, 0.7),
    Key("nccl.rank[].all_direct_p2p", Type.BOOLEAN, Kind.IDENTITY, "Whether all peers reach each other directly.",
        _COMM, 0.8),
    Key("nccl.rank[].warnings", Type.STRINGS, Kind.IDENTITY, "Warnings that this rank's NCCL printed.",
        (Effect.COMMUNICATION, Effect.VALIDITY), 0.5),
)  # fmt: skip

_NAME = re.compile(r"NCCL_[A-Z0-9_]+\Z")


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    yield from _conf_files(host)
    yield from _logs(host, scope)
    if scope.pids or scope.match:
        yield from _ras(host)


def _conf_files(host: Host) -> Iterator[tuple[str, Found]]:
    files = {"system": "/etc/nccl.conf", "user": host.environ().get("NCCL_CONF_FILE") or _home(host) + "/.nccl.conf"}
    found = host.found([["read", path, 1 << 20] for path in files.values()])
    for (role, path), text in zip(files.items(), found):
        if isinstance(text, Value):
            yield path_of("nccl.conf[].path", role), Value(path)
            settings = settings_of(str(text.value))
            for name, value in settings.items():
                yield path_of("nccl.conf[].set[]", role, name), Value(value)
            odd = sorted(name for name in settings if not _NAME.match(name))
            yield path_of("nccl.conf[].odd_names", role), Value(odd)
        elif not (isinstance(text, Unavailable) and text.why is Why.ABSENT):
            yield f"nccl.conf[{role}]", text


def _home(host: Host) -> str:
    """The user's directory by the passwd file, as NCCL takes it; HOME where the user is not in there."""
    uid = str(host.self()["uid"])
    for line in _passwd(host).splitlines():
        fields = line.split(":")
        if len(fields) >= 6 and fields[2] == uid:
            return fields[5].rstrip("/")
    return host.environ().get("HOME", "")


def _passwd(host: Host) -> str:
    found = host.found([["read", "/etc/passwd", 1 << 20]])[0]
    return str(found.value) if isinstance(found, Value) else ""


def settings_of(text: str) -> dict[str, str]:
    """What NCCL sets from a file: everything before the first `=` of a line, and everything after, blanks included.

    A `#` is a comment in the first column alone. The first line of a name holds, since NCCL overwrites nothing.
    """
    found: dict[str, str] = {}
    for line in text.split("\n")[:10_000]:
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name[:1023], value[:1023])
    return found


def _ras(host: Host) -> Iterator[tuple[str, Found]]:
    """Ask the RAS service of a running job, which NCCL 2.24 and later offer unless NCCL_RAS_ENABLE=0."""
    address, _, port = host.environ().get("NCCL_RAS_ADDR", "").rpartition(":")
    lines = ["CLIENT PROTOCOL 2", "SET FORMAT json", "VERBOSE STATUS"]
    answer = host.found([["dialogue", int(port) if port.isdigit() else RAS_PORT, lines, 3.0, 4 << 20,
                          address or "127.0.0.1"]])[0]  # fmt: skip
    if not isinstance(answer, Value):
        yield "nccl.ras", answer
        return
    greeting, accepted, status = answer.value
    if not greeting.startswith("SERVER PROTOCOL") or accepted.strip() != "OK":
        yield "nccl.ras", Unavailable(Why.NOT_SUPPORTED, "what answers is no RAS service that speaks JSON")
        return
    yield from ras_readings(status)


def ras_readings(status: str) -> Iterator[tuple[str, Found]]:
    """Readings of RAS's JSON (seen: NCCL 2.28.9)."""
    try:
        report = json.loads(status)
        communicators = report["communicators"]
        ranks = [rank for c in communicators for rank in c["ranks"]]
        found = {
            "version": report["nccl_version"],
            "cuda_runtime": report["cuda_runtime_version"],
            "cuda_driver": report["cuda_driver_version"],
            "communicators_count": report["communicators_count"],
            "largest_ranks_count": max((c["size"] for c in communicators), default=0),
            "missing_ranks_count": sum(c["missing_ranks_count"] for c in communicators),
            "errors_count": sum(bool(r["status"]["async_error"] or r["status"]["abort_flag"]) for r in ranks),
        }
    except (ValueError, KeyError, TypeError) as error:
        yield "nccl.ras", Error(f"RAS answered in another form ({type(error).__name__}: {error})")
        return
    for name, value in found.items():
        yield f"nccl.ras.{name}", Value(value)


def _logs(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    if not scope.nccl_logs:
        return
    texts = host.found([["read", path, LOG_LIMIT, True] for path in scope.nccl_logs])
    for path, text in zip(scope.nccl_logs, texts):
        if not isinstance(text, Value):
            yield "nccl.log", text if isinstance(text, Unavailable) else Error(f"{path}: {text.message}")
            return
    from envsnap.workers import nccl_log

    log = nccl_log.parse(line for text in texts for line in str(value_of(text)).splitlines())
    yield "nccl.log.rank_count", Value(len(log.ranks))
    yield "nccl.log.unread_count", Value(log.other_lines)
    for number, rank in sorted(log.ranks.items()):
        yield from rank_readings(number, rank)


def rank_readings(number: int, rank: nccl_log.Rank) -> Iterator[tuple[str, Found]]:
    """What a log says of a rank."""
    single: dict[str, Json] = {
        "version": rank.version or None,
        "cuda_driver": rank.cuda_driver,
        "ranks_count": rank.ranks,
        "network": rank.network or None,
        "plugins": sorted(rank.plugins),
        "gpu_direct_rdma": rank.gpu_direct_rdma,
        "all_direct_p2p": rank.all_direct_p2p,
        "warnings": rank.warnings,
    }
    for name, value in single.items():
        if value is not None:
            yield path_of(f"nccl.rank[].{name}", number), Value(value)
    tables: dict[str, dict[str, Json]] = {
        "set": {**rank.set_by_environment},
        "transport": {str(peer): sorted(kinds) for peer, kinds in rank.transports.items()},
        "channels": {**rank.channels},
        "protocols": {**rank.protocols},
        "algorithms": {**rank.algorithms},
    }
    for name, table in tables.items():
        for instance, value in sorted(table.items()):
            yield path_of(f"nccl.rank[].{name}[]", number, instance), Value(value)
