"""Why a far side could not be had, in one sentence: from what was printed, and how it ended."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from envsnap.remote_program import Ready
from envsnap.wording import printable, shorten

MACHINES = ("x86_64", "aarch64")

_INTO_CONTAINERS = ("docker", "podman", "nerdctl", "kubectl", "oc", "crictl")
"""Programs whose `exec` gives the command no standard input unless it is asked to."""

_LONGEST = 200

_COMPLAINTS = (
    (r"password is required|terminal is required|no tty present",
     "{who} wants a password, which nobody can type here: let sudo do it without one, or log in as root"),
    (r"permission denied \(|too many authentication failures",
     "{who} did not let us in without a password, which nobody can type here: `ssh -o BatchMode=yes` to it must work "
     "first (a key in ssh-agent, or a connection that ControlMaster keeps open)"),
    (r"passphrase|password:|password for|verification code|authentication code",
     "{who} asks for a password, which nobody can type here: it has to work without one "
     "(for ssh: with -o BatchMode=yes)"),
    (r"host key verification failed|authenticity of host",
     "{who} has a host key that is not known here: connect once by hand to accept it"),
    (r"could not resolve|name or service not known|connection refused|timed out|no route to host|is unreachable",
     "{who} cannot be reached"),
    (r"exec format error",
     "{who} cannot run its own programs: they are built for another processor"),
)  # fmt: skip
_CODES = {
    126: "it may not be run there, or there is no `sh`",
    127: "a command in it is not found there, or there is no `sh`",
}


@dataclass(frozen=True)
class Silence:
    """How a far side ended that never said that it is ready; `code` is None where it was still running."""

    code: int | None
    noise: str
    """The end of what it printed."""
    complaint: str
    """The last line of its standard error."""
    seconds: float = 0.0


def why_silent(who: str, silence: Silence) -> str:
    """The sentence about a far side, which is called `who`."""
    said = f"{silence.complaint}\n{silence.noise[-_LONGEST:]}"
    for pattern, sentence in _COMPLAINTS:
        if re.search(pattern, said, re.IGNORECASE):
            return f"{sentence.format(who=who)}{_quoted(silence.complaint)}."
    last = _last(silence.complaint) or _last(silence.noise)
    if silence.code is None:
        return f"{who} did not start a Python within {silence.seconds:.0f} s{_quoted(last)}."
    if silence.code == 0:
        return f"{who} ended before a Python had started: it passes no standard input on, or no shell{_quoted(last)}."
    why = _CODES.get(silence.code, f"it ended with code {silence.code}")
    return f"{who} did not start a shell: {why}{_quoted(last)}."


def may_lack_shell(silence: Silence) -> bool:
    """Whether what is missing there may be a shell."""
    return silence.code in _CODES or "executable file not found" in silence.complaint


def unfit(who: str, ready: Ready, said: str) -> str:
    """Why a far side that answered cannot be used; empty where it can. `said` is what its python3 printed."""
    if not ready.python:
        # NOTE: a plain shell takes such a program for a script, and stumbles over its first word.
        if re.search("exec format error|\x7fELF", said, re.IGNORECASE):
            return f"{who} cannot run its python3: it is built for another processor{_quoted(_last(said))}."
        version = re.search(r"Python (\d+\.\d+\.\d+)", said)
        if version:
            return f"{who} has Python {version[1]}, and 3.8 or later is needed; name another one with --python."
        return f"{who} has no python3 on its PATH; name one with --python."
    if tuple(map(int, ready.python.split("."))) < (3, 8):
        return f"{who} has Python {ready.python}, and 3.8 or later is needed; name another one with --python."
    if ready.platform != "linux":
        return f"{who} runs {printable(ready.platform)}, and only Linux can be read."
    if ready.machine not in MACHINES:
        return f"{who} is a {printable(ready.machine)} machine, and only {' and '.join(MACHINES)} can be read."
    if ready.stream == "terminal":
        return f"{who} puts a terminal in between, which garbles what is sent: leave out -t (and ssh's -tt)."
    return ""


def with_input(prefix: Sequence[str]) -> list[str]:
    """The prefix, with `-i` behind the `exec` of a container program that would give no standard input without."""
    words = list(prefix)
    for at, word in enumerate(words):
        if os.path.basename(word) in _INTO_CONTAINERS and "exec" in words[at:]:
            behind = words.index("exec", at) + 1
            if not any(re.fullmatch(r"--(interactive|stdin)(=true)?|-[a-z]*i[a-z]*", w) for w in words[behind:]):
                words.insert(behind, "-i")
            break
    return words


def name_of(prefix: Sequence[str]) -> str:
    """What the far side is called in a sentence."""
    return f"`{shorten(printable(' '.join(prefix)), 80)}`" if prefix else "`sh`"


def _last(text: str) -> str:
    return next((line.strip() for line in reversed(text.split("\n")) if line.strip()), "")


def _quoted(text: str) -> str:
    return f" ({shorten(printable(text), _LONGEST).rstrip('.')})" if text else ""
