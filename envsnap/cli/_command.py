"""Becoming another program: the same process id, the streams and signals that it would have had without envsnap."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from envsnap.wording import printable

NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""What a shell returns for a command that it cannot run."""


def become(command: Sequence[str]) -> int:
    """Replace this process by a command; returns an exit code, with a sentence told, only where that fails."""
    sys.stdout.flush()
    sys.stderr.flush()
    # NOTE: Python ignores these, and what is ignored stays so in the program that follows.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], list(command))
    except FileNotFoundError:
        code, why = NOT_FOUND, "no such command"
    except (OSError, ValueError) as error:
        code, why = NOT_EXECUTABLE, getattr(error, "strerror", None) or str(error)
    print(f"envsnap: {printable(f'{command[0]}: {why}')}.", file=sys.stderr)
    return code
