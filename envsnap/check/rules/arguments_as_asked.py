"""The server runs with other arguments than the command asks for.

It may be an older server that was never stopped, or the engine resolved or changed an argument by itself. Judged are
the arguments that the command gives, against what the server says of itself at start and now. Fix: stop the old server;
see the log for why the engine chose otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

from envsnap.check.facts import ERROR, Facts, NotApplicable, Problem
from envsnap.check.rules import AFTER, _running
from envsnap.keys import path_of
from envsnap.reading import Json

CODE = "arguments_as_asked"
SEVERITY = ERROR
NEEDS = ("server[].argument[]",)
USES = ("server[].dp[].runtime_argument[]", *_running.COMMAND)
WHEN = AFTER

_NAMES = {"tp": "tp_size", "tensor_parallel_size": "tp_size", "dp": "dp_size", "data_parallel_size": "dp_size",
          "pp": "pp_size", "pipeline_parallel_size": "pp_size", "ep": "ep_size", "model": "model_path"}  # fmt: skip
_NOT_COMPARED = ("port", "host", "config", "revision", "log_level", "api_key", "random_seed")


def judge(facts: Facts) -> Iterable[Problem]:
    """Yield what is wrong."""
    wanted = _running.asked(facts)
    if not wanted.engine:
        raise NotApplicable("the server's command is not known (--for)")
    servers = {server for (server, _), *_ in facts.each("server[].argument[]")}
    for server in sorted(servers):
        for given, text in wanted.options.items():
            name = _NAMES.get(given, given)
            path = path_of("server[].argument[]", server, name)
            has = facts.value(path)
            if name in _NOT_COMPARED or has is None:
                continue
            if not _same(text, has):
                yield Problem(f"{name} is {has!s:.60}, the command asks for {text or 'it'}", (path,))
            for (where, _, changed), now_path, now in facts.each("server[].dp[].runtime_argument[]"):
                if where == server and changed == name and not _same(text, now):
                    yield Problem(f"{name} is {now!s:.60} now, the command asks for {text or 'it'}", (now_path,))


def _same(text: str, value: Json) -> bool:
    """Whether a command line's word means this value; a structure, or `auto`, is not compared."""
    if isinstance(value, (dict, list)) or text == "auto":
        return True
    if isinstance(value, bool):
        return text.lower() in (("", "true", "1") if value else ("false", "0"))
    if isinstance(value, (int, float)):
        try:
            return float(text) == float(value)
        except ValueError:
            return False
    return text == "" or text.rstrip("/").lower() == str(value).rstrip("/").lower()
