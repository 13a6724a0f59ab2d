"""docker inspect.

Seen: parts of public listings, which the fixture is put together from, and the fields of Docker's API.

Untested: a listing of one's own, podman's, of images.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from envsnap.collectors.inherited import LIMITS, limit
from envsnap.importers._dates import utc
from envsnap.importers._sheet import Sheet
from envsnap.importers._text import Text
from envsnap.importers._words import cpus
from envsnap.keys import path_of
from envsnap.reading import Json, Value

_ENGINES = ("sglang", "vllm", "trtllm-serve")


def recognise(text: Text) -> Iterator[range]:
    """Documents that are a list of one container, or one container."""
    return (lines for lines, document in text.documents.items() if _container(document))


def _container(document: Json) -> dict[str, Any] | None:
    one = document[0] if isinstance(document, list) and len(document) == 1 else document
    known = isinstance(one, dict) and isinstance(one.get("HostConfig"), dict) and isinstance(one.get("Config"), dict)
    return one if known and "OCIRuntime" not in one else None


def read(text: Text, lines: range, sheet: Sheet) -> None:
    """Readings of what the container was given: variables, limits, shared memory, command."""
    container = _container(text.documents[lines]) or {}
    sheet.skip(*lines)
    line = lines.start
    host, config = container["HostConfig"], container["Config"]
    sheet.value(line, "container.kind", "docker")
    for variable in config.get("Env") if isinstance(config.get("Env"), list) else ():
        name, equals, value = str(variable).partition("=")
        if equals and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,120}", name):
            sheet.value(line, path_of("env[]", name), value)
        else:
            sheet.drop(line)
    _limits(sheet, line, host)
    command = [container.get("Path"), *(container.get("Args") or [])]
    if all(isinstance(word, str) for word in command) and any(e in word for word in command for e in _ENGINES):
        sheet.value(line, "server[0].launch_command", command)
    state = container.get("State")
    started = state.get("StartedAt") if isinstance(state, dict) else None
    if isinstance(started, str) and not started.startswith("0001"):
        sheet.date = started
        sheet.moment = utc(started)


def _limits(sheet: Sheet, line: int, host: dict[str, Any]) -> None:
    """NOTE: zero means that this container adds no limit; one above it may."""
    if _count(host.get("ShmSize")) and host.get("IpcMode") in ("private", "shareable", ""):
        sheet.value(line, "memory.shm_size_bytes", host["ShmSize"])
    quota: Json = host.get("CpuQuota")
    period: Json = host.get("CpuPeriod") or 100_000
    if _count(host.get("NanoCpus")):
        sheet.value(line, "cgroup.cpu_limited", True)
        sheet.value(line, "cgroup.cpu_quota_cpus", host["NanoCpus"] / 1e9)
    elif _count(quota) and _count(period):
        sheet.value(line, "cgroup.cpu_limited", True)
        sheet.value(line, "cgroup.cpu_quota_cpus", float(quota) / period)
    for field, path in (("CpusetCpus", "cgroup.cpus"), ("CpusetMems", "cgroup.memory_nodes")):
        if isinstance(host.get(field), str) and host[field]:
            sheet.value(line, path, cpus(host[field]))
    for field, name, unit in (("Memory", "memory", "bytes"), ("PidsLimit", "tasks", "count")):
        if _count(host.get(field)):
            sheet.value(line, f"cgroup.{name}_limited", True)
            sheet.value(line, f"cgroup.{name}_limit_{unit}", host[field])
    units = {name: unit for name, unit, *_ in LIMITS}
    for entry in host.get("Ulimits") or ():
        resource = str(entry.get("Name")) if isinstance(entry, dict) else ""
        for end in ("Soft", "Hard"):
            value = entry.get(end) if resource in units else None
            if isinstance(value, int) and not isinstance(value, bool) and value >= -1:
                for path, found in limit(f"limits.{resource}_{end.lower()}", units[resource], Value(value)):
                    sheet.value(line, path, found.value if isinstance(found, Value) else None)


def _count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 60
