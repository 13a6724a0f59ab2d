"""The two arms of an interleaved comparison, as a user writes them.

NAME=VALUE    a variable of the environment; NAME= sets it empty, -u:NAME removes it
--argument    added to the server's command, or to the benchmark's where there is no server
git:REV       the working directory's repository at a revision, unpacked aside and put first on PYTHONPATH;
              the working tree is not touched
"""

from __future__ import annotations

import os
import re
import shlex
import tarfile
from collections.abc import Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

from envsnap.runs.plan import Arm, SessionError

_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)\Z", re.DOTALL)


def parse(name: str, words: Sequence[str], has_server: bool, folder: Path) -> Arm:
    """An arm from its words (each option may hold several, quoted as in a shell). Raises: SessionError."""
    environment: dict[str, str | None] = {}
    arguments: list[str] = []
    for word in (w for text in words for w in shlex.split(text)):
        if match := _VARIABLE.match(word):
            environment[match[1]] = match[2]
        elif word.startswith("-u:"):
            environment[word[3:]] = None
        elif word.startswith("git:"):
            environment.update(_at_revision(word[4:], folder / f"tree-{name}"))
        else:
            arguments.append(word)
    extra = tuple(arguments)
    return Arm(name, environment, extra if has_server else (), () if has_server else extra)


def _at_revision(revision: str, target: Path) -> dict[str, str | None]:
    """Unpack a revision of the repository here, and put it first on the import path."""
    if revision.startswith("-"):
        raise SessionError(f"{revision!r} is no git revision.")
    command = ["git", "archive", "--format=tar", f"{revision}^{{commit}}"]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    target.mkdir(mode=0o700)
    with Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment) as git:
        assert git.stdout is not None
        assert git.stderr is not None
        try:
            with tarfile.open(fileobj=git.stdout, mode="r|") as archive:
                if hasattr(tarfile, "data_filter"):
                    archive.extractall(target, filter="data")
                else:
                    archive.extractall(target)
        except tarfile.ReadError:  # git wrote nothing, and says why
            pass
        said = git.stderr.read(4096)
    if git.returncode:
        words = " ".join(said.decode(errors="replace").split())[:160]
        raise SessionError(f"git cannot unpack {revision!r} here: {words}.")
    paths = [str(p) for p in (target / "python", target / "src", target) if p.is_dir()]
    if old := os.environ.get("PYTHONPATH"):
        paths.append(old)
    return {"PYTHONPATH": os.pathsep.join(paths)}
