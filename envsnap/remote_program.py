"""What is sent to another machine, and how it is started there.

The far side is asked to run one word, `sh`, behind the user's prefix: a word that needs no quoting, however many
shells and programs (ssh, `bash -c`, docker) hand it on. All else travels over standard input: first a line of shell
that finds a Python and lets it take the shell's place, then, once that has said so, the program as one line, which
it keeps in memory. From there on requests go over the same stream (`machine.serve_streams`).

Where there is no shell, Python's own module `code` takes the line: it runs what it reads, line by line.
"""

from __future__ import annotations

import base64
import importlib.util
import re
import secrets
import shlex
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envsnap import machine

NVML_MODULE = "pynvml"

_PYTHONS = (
    *("python3", *(f"python3.{minor}" for minor in range(13, 7, -1))),
    *("/usr/local/bin/python3", "/usr/bin/python3", "/opt/conda/bin/python3"),
)
_ITSELF = "import sys; print(sys.executable if sys.version_info >= (3, 8) else str())"
_START_SECONDS = 60
"""How long the far side waits for its program."""

# In single quotes on a line of shell, so it can have none itself; and without an expression by itself, whose value
# `code` would print. The working directory is taken off the module path first: a `json.py` that lies there is not ours.
_LOADER = (
    "import sys; _ = sys.path[:1] == [str()] and sys.path.pop(0); import base64, os, signal, zlib; "
    f"_ = signal.alarm({_START_SECONDS}); mark = %s; tty = os.isatty(0); "
    'about = (mark, tty and "terminal" or "pipe", sys.platform, os.uname().machine) + sys.version_info[:3]; '
    '_ = os.write(1, ("\\n%%s %%s %%s %%s %%d.%%d.%%d\\n" %% about).encode()); _ = tty and sys.exit(); '
    "exec(zlib.decompress(base64.b64decode(sys.stdin.buffer.readline())))"
)


@dataclass(frozen=True)
class Start:
    """The words behind the prefix, the first line, and the word with which the far side answers it.

    The line holds that word in two parts, so that an echo of the line is not taken for the answer.
    """

    words: tuple[str, ...]
    line: bytes
    mark: str

    @classmethod
    def by_shell(cls, python: str = "") -> Start:
        """With a new mark; `python` is an interpreter to try first. -B, since some images hold no compiled modules."""
        one, two = secrets.token_hex(6), secrets.token_hex(6)
        pythons = " ".join(map(shlex.quote, (*([python] if python else []), *_PYTHONS)))
        line = (
            # NOTE: started by what it calls itself, since the name may be a script that takes its time (pyenv).
            f"for p in {pythons}; do q=$(\"$p\" -BSEc '{_ITSELF}' </dev/null 2>/dev/null); "
            f'if [ -n "$q" ]; then exec "$q" -B -c \'{_LOADER % "sys.argv.pop(1) + sys.argv.pop(1)"}\' {one} {two}; '
            f"fi; done; echo; echo {one}''{two} none; python3 -V 2>&1; exit 127\n"
        )
        return cls(("sh",), line.encode("utf-8", "surrogateescape"), one + two)

    @classmethod
    def without_shell(cls, python: str = "") -> Start:
        """The same where there is no shell; isolated, since a `code.py` that lies about is not that module."""
        one, two = secrets.token_hex(6), secrets.token_hex(6)
        line = _LOADER % f'"{one}" + "{two}"' + "\n"
        return cls((python or "python3", "-B", "-I", "-m", "code"), line.encode(), one + two)


@dataclass(frozen=True)
class Ready:
    """What the far side said of itself when it was started; all empty where it has no Python 3.8 or later."""

    stream: str = ""
    platform: str = ""
    machine: str = ""
    python: str = ""


_READY = re.compile(r"(pipe|terminal) (\w{1,32}) ([\w.-]{1,32}) (3\.\d{1,3}\.\d{1,3})")


def ready_of(line: str, mark: str) -> Ready | None:
    """The far side's answer to the first line, if `line` is that; anything else is noise."""
    if not line.startswith(f"{mark} "):
        return None
    match = _READY.fullmatch(line.removeprefix(f"{mark} ").strip())
    return Ready(*match.groups()) if match else Ready()


@cache
def program(seconds: int) -> bytes:
    """The line that is run there: `machine`, nvidia-ml-py's module where it is had, and the call that serves."""
    sent = {NVML_MODULE: source} if (source := nvml_source()) else {}
    text = f"{Path(machine.__file__).read_text(encoding='utf-8')}\n_sent.update({sent!r})\nserve_streams({seconds})\n"
    return base64.b64encode(zlib.compress(text.encode(), 6)) + b"\n"


@cache
def nvml_source() -> str:
    """The source of nvidia-ml-py's module; empty where this Python has none, or another one of that name."""
    spec = importlib.util.find_spec(NVML_MODULE)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return ""
    source = Path(spec.origin).read_text(encoding="utf-8")
    # NOTE: the name that tells nvidia-ml-py 12.535 or later from other modules named so; see `machine._start_nvml`.
    return source if "def nvmlDeviceGetCurrentClocksEventReasons" in source else ""
