"""What a capture is about: the processes, repositories and models that the user named."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Scope:
    """All of it is optional: without any, the machine, this environment and the working directory's repository."""

    pids: tuple[int, ...] = ()
    """Roots of process trees of interest."""
    match: tuple[str, ...] = ()
    """Patterns (regular expressions) of command lines or titles whose process trees are of interest."""
    repos: tuple[str, ...] = ()
    """Git repositories beside those found by themselves."""
    models: tuple[str, ...] = ()
    """Model directories or hub names beside those named on command lines."""
    nccl_logs: tuple[str, ...] = ()
    """Logs that NCCL wrote under NCCL_DEBUG=INFO."""
    servers: tuple[str, ...] = ()
    """Addresses of running servers to ask, such as http://127.0.0.1:30000."""
    api_key_file: str = ""
    """A file with the key that those servers want."""
    records: str = ""
    """Directory of the records that workers wrote of themselves, beside those that their environment names."""
    python: str = ""
    """The interpreter whose packages matter; empty: that of the processes of interest, else the running one."""
    cache: bool = True
    """Whether envsnap may keep and use its own cache of slow look-ups."""

    def as_json(self) -> dict[str, Any]:
        """Only what was given, as it stands in a snapshot."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items() if v not in ((), "", True)}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Scope:
        """The scope that `as_json` described. Raises: TypeError where a field is unknown or of another type."""
        default = cls()
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        for name, value in fields.items():
            if type(value) is not type(getattr(default, name, None)):
                raise TypeError(f"scope.{name}")
        return cls(**fields)
