"""Print what makes a shell complete envsnap: verbs, options, choices, labels and runs of the store, keys, files.

bash: `eval "$(envsnap completion bash)"` in ~/.bashrc. zsh: the same in ~/.zshrc with zsh, below `compinit`. fish:
`envsnap completion fish > ~/.config/fish/completions/envsnap.fish`. What is completed is asked of envsnap each time, so
that an update needs no new script.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from envsnap.cli import EXIT_OK

EXAMPLE = "envsnap completion bash"

SHELLS = ("bash", "zsh", "fish")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("shell", choices=SHELLS, help="the shell to make a script for")


def run(args: Any) -> int:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["envsnap"], shell=args.shell).strip() + "\n")
    return EXIT_OK
