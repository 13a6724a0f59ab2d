"""The environment that a process was given at exec: /proc/PID/environ, and whether it is still whole.

A process that retitles itself (setproctitle, as SGLang's and vLLM's workers do) writes over its arguments and the
environment behind them: with NULs wholly or partly, and a long title runs into it. What is left is not believed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envsnap.host import Host
from envsnap.reading import Unavailable, Value, Why
from envsnap.workers.maps import ended
from envsnap.workers.tree import Process

LIMIT = 8 << 20

CLOBBERED = Unavailable(
    Why.CLOBBERED, "the process has written its title over it; SPT_NOENV=1 at the server's start keeps it"
)


def read_all(host: Host, processes: Sequence[Process]) -> dict[int, Mapping[str, str] | Unavailable]:
    """The environment at exec of each process, by pid; unavailable: clobbered, denied, gone."""
    found = host.found(
        [r for p in processes for r in (["read", f"/proc/{p.pid}/environ", LIMIT], ["read", f"/proc/{p.pid}/cmdline"])]
    )
    result: dict[int, Mapping[str, str] | Unavailable] = {}
    for process, environ, command in zip(processes, found[::2], found[1::2]):
        if not isinstance(environ, Value) or not isinstance(command, Value):
            result[process.pid] = ended(environ if not isinstance(environ, Value) else command)
        elif process.zombie or not command.value:
            result[process.pid] = ended(None)
        else:
            result[process.pid] = variables(str(environ.value), str(command.value), process.argument_bytes)
    return result


def variables(environ: str, command: str, argument_bytes: int = 0) -> Mapping[str, str] | Unavailable:
    """The variables in the text of an environ file, or that it is clobbered.

    `command` is the text of the cmdline file, which shows a title that runs on beyond the `argument_bytes`.
    """
    if not environ:
        return {}
    if 0 < argument_bytes < _length(command) or not command.endswith("\0") or not environ.endswith("\0"):
        return CLOBBERED
    found: dict[str, str] = {}
    for entry in environ[:-1].split("\0"):
        name, separator, value = entry.partition("=")
        if not separator or not name:
            return CLOBBERED
        found.setdefault(name, value)
    return found


def _length(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def added(live: Mapping[str, str], at_exec: Mapping[str, str]) -> list[str]:
    """Names, sorted, that the process has now and was not given."""
    return sorted(live.keys() - at_exec.keys())


def replaced(live: Mapping[str, str], at_exec: Mapping[str, str]) -> dict[str, str]:
    """What it was given under names that it has since changed or removed."""
    return {name: value for name, value in sorted(at_exec.items()) if live.get(name) != value}
