"""Why a process's memory may not be read, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envsnap.host import Host
from envsnap.reading import Found, Unavailable, Value, Why

WAYS_OUT = (
    "Run envsnap as its ancestor (envsnap run), or start the server with ENVSNAP_RECORD=DIR, or use sudo or "
    "CAP_SYS_PTRACE; SPT_NOENV=1 at its start keeps at least the environment at exec."
)
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"
_CAP_SYS_PTRACE = 1 << 19


def explain(host: Host, pids: Sequence[int]) -> dict[int, Unavailable]:
    """For each process whose reading was denied: the reason and the ways out. One batch for all."""
    if not pids:
        return {}
    requests = [r for pid in pids for r in (["read", f"/proc/{pid}/status"], ["stat", f"/proc/{pid}/status"])]
    mine, yama, *found = host.found([["read", "/proc/self/status"], ["read", _YAMA], *requests])
    me = _text(mine)
    scope = int(_text(yama).strip() or 0)
    return {
        pid: Unavailable(Why.DENIED, f"{reason(me, _text(status), _owner(stat), scope)}. {WAYS_OUT}")
        for pid, status, stat in zip(pids, found[::2], found[1::2])
    }


def reason(me: str, target: str, owner: int | None, yama: int) -> str:
    """One clause, from the texts of both status files, the owner of the target's files in /proc and Yama's scope.

    The order is the kernel's: Yama's strictest scope, users, dumpable, capabilities, Yama.
    """
    mine, theirs = _ids(me), _ids(target)
    trusted = bool(_mask(me, "CapEff") & _CAP_SYS_PTRACE)
    if yama >= 3:
        return "Yama's ptrace_scope is 3: nobody may read another process's memory until the next boot"
    if not trusted:
        if mine and theirs and set(theirs) != {mine[1]}:
            return f"it runs as user {theirs[0]}, and envsnap as user {mine[1]} without CAP_SYS_PTRACE"
        if theirs and owner is not None and owner != theirs[1]:
            return "it has declared itself not dumpable, so that only root may look into it"
        if _mask(target, "CapPrm") & ~_mask(me, "CapPrm"):
            return "it has capabilities that envsnap lacks"
        if yama == 2:
            return "Yama's ptrace_scope is 2: only with CAP_SYS_PTRACE may another process's memory be read"
        if yama == 1:
            return "Yama's ptrace_scope is 1: only an ancestor may read its memory"
    return "the kernel refuses it: another user namespace, a security module or a sandbox"


def _text(found: Found) -> str:
    return found.value if isinstance(found, Value) and isinstance(found.value, str) else ""


def _owner(found: Found) -> int | None:
    return found.value.get("uid") if isinstance(found, Value) and isinstance(found.value, dict) else None


def _ids(status: str) -> list[int]:
    """Real, effective and saved user id."""
    match = re.search(r"^Uid:\s+(\d+)\s+(\d+)\s+(\d+)", status, re.M)
    return [int(group) for group in match.groups()] if match else []


def _mask(status: str, name: str) -> int:
    match = re.search(rf"^{name}:\s+([0-9a-f]+)$", status, re.M)
    return int(match[1], 16) if match else 0
