"""Git, run so that nothing which a repository configures is ever run, and nothing is written or fetched.

Only plumbing that neither reads working files through filters nor renders differences is called anywhere:
`config`, `rev-list`, `describe`, `for-each-ref`, `symbolic-ref`, `ls-files`, `diff-index --cached`, `check-attr`,
`cat-file`. None of them runs hooks, external diffs, text conversions, or clean and process filters. `git status` and
`git diff` do run filters, whatever their options.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from envsnap.host import Host, Request, value_of
from envsnap.reading import Found, Missing, Why

TIMEOUT_SECONDS = 5.0
OUTPUT_LIMIT = 16 << 20
"""Bytes of one answer of git: the listing of about 70,000 files."""

_SETTINGS = (
    # NOTE: empty, not "false": before Git 2.36 the value is a program, and "false" is one.
    "core.fsmonitor=",
    "core.hooksPath=/dev/null",
)


@dataclass(frozen=True)
class Git:
    """Git at work in one directory: the top of a working tree, or a bare repository."""

    directory: str
    environment: dict[str, str | None]
    bare: bool = False

    def request(self, *arguments: str, stdin: str = "") -> Request:
        """A request to `Host` that runs git with these arguments."""
        argv = ["git", "-C", self.directory]
        for setting in _SETTINGS:
            argv += ["-c", setting]
        return ["run", [*argv, *arguments], self.environment, None, TIMEOUT_SECONDS, OUTPUT_LIMIT, stdin]


def git_in(host: Host, directory: str, bare: bool = False) -> Git:
    """Git for a directory, free of whatever GIT_* variables the caller has."""
    own = host.environ()
    environment: dict[str, str | None] = {name: None for name in own if name.startswith("GIT_")}
    environment |= {
        "GIT_OPTIONAL_LOCKS": "0",
        # A missing object of a partial clone is not fetched. Old versions of git do not know the first of these: they
        # start `git fetch`, which the second lets connect to nothing.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        # A broken .git here must not make git answer for the repository around it.
        "GIT_CEILING_DIRECTORIES": posixpath.dirname(directory),
        "LC_ALL": "C",
        "LANGUAGE": None,
        # A relative entry would find a program called git in the directory that is looked at.
        "PATH": ":".join(p for p in own.get("PATH", "").split(":") if p.startswith("/")) or "/usr/bin:/bin",
    }
    return Git(directory, environment, bare)


def output_of(found: Found, directory: str) -> str:
    """What git printed.

    Raises: Missing in git's own words where it refused, HostError where it could not be run at all.
    """
    answer = value_of(found)
    if answer["code"] == 0:
        text: str = answer["out"]
        return text
    complaint: str = answer["err"]
    if "dubious ownership" in complaint or "unsafe repository" in complaint:
        raise Missing(
            Why.DENIED,
            f"git refuses: owned by another user; git config --global --add safe.directory {directory}",
        )
    line = next((x for x in complaint.splitlines() if x.startswith(("fatal:", "error:"))), complaint.strip())
    detail = f"git: {line.removeprefix('fatal:').removeprefix('error:').strip()[:300]}"
    if "bad revision 'HEAD'" in complaint:
        raise Missing(Why.ABSENT, "HEAD names no commit yet")
    if "not a git repository" in complaint:
        raise Missing(Why.ABSENT, detail)
    raise Missing(Why.DENIED if "Permission denied" in complaint else Why.NOT_SUPPORTED, detail)
