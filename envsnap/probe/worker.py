"""The process that measures: takes probes by name on standard input, answers on a pipe of its own.

Its arguments are the pipe's descriptor, the seconds after which it ends in any case and, for one on a GPU,
`measure_gpu.Place` as JSON. Both directions are lines of JSON. First it takes hold of its GPU and says {"ready": true,
"torch": VERSION}, or {"unavailable": REASON}. Asked for {"probe": NAME, ...}, it answers one line per figure or
{"unavailable": REASON}, and {"done": true}.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from envsnap.probe.result import Figure
from envsnap.reading import Json, Missing, describe

if TYPE_CHECKING:
    from envsnap.probe.measure_gpu import Gpu

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> NoReturn:
    """Serve until standard input ends."""
    _die_in_time(int(arguments[1]))
    with os.fdopen(int(arguments[0]), "w", encoding="utf-8") as pipe:

        def say(document: dict[str, Json]) -> None:
            pipe.write(json.dumps(document) + "\n")
            pipe.flush()

        try:
            gpu = _gpu(json.loads(arguments[2])) if len(arguments) > 2 else None
            say({"ready": True, "torch": gpu.torch.__version__ if gpu else ""})
            for line in sys.stdin:
                _answer(json.loads(line), gpu, say)
        except Exception as error:
            say({"unavailable": reason(error)})
            gpu = None
    if gpu is not None:
        from envsnap.probe.measure_group import leave

        leave(gpu)
    # NOTE: a library that hangs while it is torn down would keep the process, and the GPU, until the deadline.
    os._exit(0)


def _die_in_time(seconds: int) -> None:
    """Nobody has to end this process: it ends with its parent, and by itself when its time is over."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.alarm(max(1, seconds))
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass


def _gpu(place: dict[str, Any]) -> Gpu:
    from envsnap.probe.measure_gpu import Place, take_hold

    return take_hold(Place(**place))


def _answer(request: dict[str, Any], gpu: Gpu | None, say: Callable[[dict[str, Json]], None]) -> None:
    try:
        for figure in _measure(request, gpu):
            say(
                {
                    "figure": figure.name,
                    "values": figure.values,
                    "method": figure.method,
                    "unavailable": figure.unavailable,
                }
            )
    except Exception as error:
        say({"unavailable": reason(error)})
    say({"done": True})


def _measure(request: dict[str, Any], gpu: Gpu | None) -> Iterator[Figure]:
    from envsnap.probe import measure_host

    probe = request["probe"]
    if gpu is None:
        host: dict[str, Callable[[], Iterator[Figure]]] = {
            "cpu": measure_host.cpu,
            "memory": measure_host.memory,
            "disk": lambda: measure_host.disk(request["folder"]),
        }
        return host[probe]()
    from envsnap.probe import measure_gpu, measure_group

    device: dict[str, Callable[[Gpu], Iterator[Figure]]] = {
        "matmul": measure_gpu.matmul,
        "gpu_memory": measure_gpu.memory,
        "host_link": measure_gpu.host_link,
        "launch": measure_gpu.launch,
        "all_reduce": measure_group.all_reduce,
        "all_reduce_graph": measure_group.all_reduce_graph,
    }
    return device[probe](gpu)


def reason(error: BaseException) -> str:
    """Why something could not be measured, on one line."""
    return (error.detail or str(error)) if isinstance(error, Missing) else describe(error)
