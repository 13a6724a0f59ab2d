"""Where a user's programs keep their things: the home directory, and the places that variables move elsewhere."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from envsnap.host import Host
from envsnap.reading import Missing, Why

HUB_VARIABLES = {
    "HF_HUB_CACHE": "",
    "HUGGINGFACE_HUB_CACHE": "",
    "HF_HOME": "hub",
    "XDG_CACHE_HOME": "huggingface/hub",
}
"""Variables that say where Hugging Face models are kept, the first that is set -> what is below it."""


@dataclass(frozen=True)
class Place:
    """A directory, and the variable that moved it there (empty: it is where it is by default)."""

    path: str
    moved_by: str = ""


def home(host: Host, environ: Mapping[str, str]) -> str:
    """The home directory as programs find it: $HOME, else by the user database. Raises: Missing."""
    return environ.get("HOME") or _account(host)[5]


def user(host: Host, environ: Mapping[str, str]) -> str:
    """The user's name as Python's `getpass.getuser` finds it. Raises: Missing."""
    named = [environ[name] for name in ("LOGNAME", "USER", "LNAME", "USERNAME") if environ.get(name)]
    return named[0] if named else _account(host)[0]


def _account(host: Host) -> list[str]:
    uid = str(host.self()["uid"])
    for line in host.read("/etc/passwd").splitlines():
        fields = line.split(":")
        if len(fields) >= 7 and fields[2] == uid:
            return fields
    raise Missing(Why.ABSENT, f"neither HOME nor /etc/passwd knows user {uid}")


def expanded(host: Host, path: str, environ: Mapping[str, str], cwd: str = "") -> str:
    """The path with a leading `~` replaced and made absolute, from here unless `cwd` is given. Raises: Missing."""
    if path == "~" or path.startswith("~/"):
        path = home(host, environ) + path[1:]
    if not path.startswith("/"):
        path = posixpath.join(cwd or str(host.self()["cwd"]), path)
    return posixpath.normpath(path)


def placed(host: Host, environ: Mapping[str, str], variables: Mapping[str, str], default: str, cwd: str = "") -> Place:
    """Where the first variable that is set puts something, else the default place.

    `variables` maps a name to what is appended to its value. Raises: Missing where only a home would tell.
    """
    for name, below in variables.items():
        if environ.get(name):
            return Place(posixpath.join(expanded(host, environ[name], environ, cwd), below).rstrip("/"), name)
    return Place(expanded(host, default, environ, cwd))


def hub(host: Host, environ: Mapping[str, str], cwd: str = "") -> Place:
    """Where Hugging Face models are kept."""
    return placed(host, environ, HUB_VARIABLES, "~/.cache/huggingface/hub", cwd)
