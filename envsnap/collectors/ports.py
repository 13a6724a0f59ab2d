"""Ports: at which TCP ports something listens."""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.collectors._files import read_files
from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Type
from envsnap.reading import Found, Value, attempt
from envsnap.scope import Scope

METHOD = "/proc/net/tcp, /proc/net/tcp6"

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN = "0A"

KEYS = (
    Key("ports.listening", Type.INTEGERS, Kind.VOLATILE,
        "TCP ports of this network namespace at which some process listens.", (Effect.WORKLOAD,), 0.1,
        advice="`ss -ltnp` says which process it is."),
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the reading; a kernel without IPv6 has one table alone."""
    files = read_files(host, TABLES)
    older, newer = (attempt(lambda table=table: listening(str(value_of(files[table])))) for table in TABLES)
    if isinstance(older, Value) and isinstance(newer, Value):
        older = Value(sorted({*older.value, *newer.value}))
    yield "ports.listening", older if isinstance(older, Value) or not isinstance(newer, Value) else newer


def listening(table: str) -> list[int]:
    """The ports in a table of sockets whose state is LISTEN; lines are number, local and remote address, state."""
    rows = (line.split(None, 4) for line in table.splitlines()[1:])
    return sorted({int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == _LISTEN})
