"""What runs, and the command that was to start it."""

from __future__ import annotations

import re

from envsnap.check.facts import Facts
from envsnap.check.wanted import Wanted, read_command

EXISTS = "worker[].started_seconds"
"""What can be read of every process: a retitled one has overwritten its arguments."""
COMMAND = ("worker[].argv", "server[].launch_command")
"""Keys that tell the command where nobody named it."""
USES = (EXISTS, *COMMAND)

_RANK = re.compile(r"(?:.*/)?(?:scheduler|Worker|rank)[^/]*")
_MAIN = re.compile(r"(?:.*/)?main\Z")


def ranks(facts: Facts) -> list[str]:
    """The roles of processes that compute, in order of name."""
    return sorted(role for (role,), *_ in facts.each(EXISTS) if _RANK.fullmatch(role))


def asked(facts: Facts) -> Wanted:
    """The command that was named, else the one that the launcher or the server shows."""
    if facts.wanted.engine:
        return facts.wanted
    launchers = [argv for (role,), _, argv in facts.each("worker[].argv") if _MAIN.match(role)]
    commands = [*launchers, *facts.all("server[].launch_command").values()]
    return read_command([str(word) for word in commands[0]]) if commands else facts.wanted
