"""Worker records: what workers started with ENVSNAP_RECORD=DIR tell of themselves from within, by role."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from envsnap.collectors._record_keys import KEYS
from envsnap.collectors._server_arguments import named
from envsnap.host import Host
from envsnap.keys import path_of
from envsnap.reading import Found, Json, Unavailable, Value, Why
from envsnap.scope import Scope
from envsnap.workers.tree import of_interest

if TYPE_CHECKING:
    from envsnap.workers.record_file import Record

__all__ = ["KEYS", "METHOD", "collect"]

METHOD = "the records in the directory that ENVSNAP_RECORD names"

ENGINES = ("sglang", "vllm", "tensorrt_llm", "sgl_kernel")
PACKAGES = (
    *ENGINES, "torch", "triton", "transformers", "flashinfer", "flash_attn", "deep_gemm", "deep_ep", "xgrammar",
    "tilelang", "cutlass", "tvm_ffi", "numpy",
)  # fmt: skip
"""Packages whose place is told, beside those of the recorded trees."""

MAX_NAMES = 4096
MAX_FILES = 20_000

_WITHHELD = "<withheld>"

# What a part of the record is told as: readings that are unavailable where it could not be made.
_PARTS = {
    "environment": ("os_environ_differs", "env"),
    "engine": ("engine", "engine_version", "rank", "argument", "graph_batch_sizes"),
    "torch": ("torch",),
    "python": ("python",),
    "code": ("module_count", "package_origin", "package_hash", "module_elsewhere", "source_newer"),
}

Readings = Iterator[tuple[str, Found]]


def collect(host: Host, scope: Scope) -> Readings:
    """Yield the readings."""
    if not scope.records:
        of_interest(host, scope)  # where nothing is, what looks into it need not be imported
    from envsnap.workers import records, stale_source

    found = records.read(host, scope)
    told: dict[str, dict[str, Json]] = {}
    for record, changed in zip(found, stale_source.changed(host, found)):
        at = path_of("record[]", record.role)
        yield f"{at}.state", Value(record.state)
        if record.content:
            for readings in (_itself(record), _environment(record), _settings(record), _code(record, changed)):
                for name, reading in readings:
                    yield at + name, reading
            for name, reading in _engine(record.part("engine"), told):
                yield at + name, reading
        else:
            yield f"{at}.moment", Unavailable(Why.ABSENT, record.reason)
    yield "record.code_reach", _reach(found)
    if any(record.part("stacks").get("looks") for record in found):
        yield "record.code_time", Value({record.role: _time(record.part("stacks")) for record in found})


def _itself(record: Record) -> Readings:
    content = record.content
    yield from _present(content, {".moment": "moment", ".ready_by": "ready_by", ".cost_seconds": "cpu_seconds"})
    if record.age_seconds is not None:
        yield ".age_seconds", Value(round(record.age_seconds, 2))
    for part, why in record.part("failed").items():
        yield path_of(".failed[]", part), Value(str(why))
        for name in _PARTS.get(part, ()):
            yield f".{name}", Unavailable(Why.ABSENT, f"the worker could not record it: {why}")


def _environment(record: Record) -> Readings:
    part = record.part("environment")
    values, differs = part.get("values"), part.get("differs")
    if isinstance(values, dict) and _WITHHELD in values.values():
        why = Unavailable(Why.OFF, "withheld, since the worker's Python could not load the rules of redaction")
        yield ".env", why
        yield ".os_environ_differs", why
        return
    if part.get("libc"):
        yield ".os_environ_differs", Unavailable(Why.NOT_SUPPORTED, f"libc's view could not be read: {part['libc']}")
    for name, sides in _first(differs):
        yield path_of(".os_environ_differs[]", name), Value(sides)
    if not record.seen_from_outside:
        for name, value in _first(values):
            yield path_of(".env[]", name), Value(value)


def _settings(record: Record) -> Readings:
    """Each declared setting that its part of the record holds."""
    for part in ("torch", "python"):
        settings = record.part(part)
        prefix = f"record[].{part}."
        names = [key.pattern.removeprefix(prefix) for key in KEYS if key.pattern.startswith(prefix)]
        yield from _present(settings, {f".{part}.{name}": name for name in names})
    python = record.part("python")
    yield from _present(python, {".python.gc_frozen_count": "gc_frozen"})
    for name, value in _first(python.get("flags")):
        if value:
            yield path_of(".python.flag[]", name), Value(value)


def _engine(engine: dict[str, Any], told: dict[str, dict[str, Json]]) -> Readings:
    """`told` holds what the first worker said, so that others repeat only what differs."""
    yield from _present(engine, {".engine": "name", ".engine_version": "version"})
    for name, rank in _first(engine.get("ranks")):
        yield path_of(".rank[]", name), Value(rank)
    for phase, sizes in _first(engine.get("graph_batch_sizes")):
        yield path_of(".graph_batch_sizes[]", phase), Value(sizes)
    resolved = dict(named(dict(_first(engine.get("server_args")))))
    for name, value in _news("argument", resolved, told).items():
        yield path_of(".argument[]", name), Value(value)
    typed = dict(named(dict(_first(engine.get("typed_args")))))
    changed = {name: value for name, value in typed.items() if resolved.get(name) != value}
    for name, value in _news("typed_argument", changed, told).items():
        yield path_of(".typed_argument[]", name), Value(value)
    for name, source in _news("argument_source", dict(_first(engine.get("resolved_by"))), told).items():
        yield path_of(".argument_source[]", name), Value(source)


def _news(what: str, found: dict[str, Json], told: dict[str, dict[str, Json]]) -> dict[str, Json]:
    if not found:
        return {}
    before = told.setdefault(what, found)
    return found if before is found else {name: value for name, value in found.items() if before.get(name) != value}


def _code(record: Record, changed: Found) -> Readings:
    code = record.part("code")
    yield from _present(code, {".module_count": "count"})
    if isinstance(newer := code.get("newer"), list):
        by_both = {*map(str, newer), *(changed.value if isinstance(changed, Value) else ())}
        yield ".source_newer", Value(sorted(by_both)) if by_both else changed
    recorded = tuple(f for f, _ in _first(code.get("files")))
    for name, package in _first(code.get("packages")):
        if not isinstance(package, dict) or not isinstance(origin := package.get("origin"), str):
            continue
        ours = any(file == origin or file.startswith(f"{origin}/") for file in recorded)
        if not (ours or name in PACKAGES):
            continue
        yield path_of(".package_origin[]", name), Value(origin)
        # NOTE: what is loaded at the end of a mere settle time is a matter of chance, and so is its digest.
        if "hash" in package and record.content.get("ready_by") != "settle":
            yield path_of(".package_hash[]", name), Value(package["hash"])
        for module, file in _first(package.get("elsewhere")) if ours or name in ENGINES else ():
            yield path_of(".module_elsewhere[]", module), Value(file)


def _reach(found: Sequence[Record]) -> Found:
    """What ran in any worker: {"files": {FILE: {"blob", WINDOW: [[first, last], ...]}}, "workers": {ROLE: ...}}."""
    files: dict[str, dict[str, Any]] = {}
    workers: dict[str, Json] = {}
    for record in found:
        reach = record.part("reach")
        why = str(reach.get("reason") or record.reason)
        windows = {name: dict(_first(window)) for name, window in _first(reach.get("windows"))}
        if record.renewed_at is not None and "serving" in windows:
            windows["serving"]["to"] = record.renewed_at  # nothing new ran until then, or it would have been written
        workers[record.role] = {"state": record.state, "reason": why, "windows": windows}
        for file, blob in _first(record.part("code").get("files"), MAX_FILES):
            files.setdefault(file, {})["blob"] = blob
        for file, windows in _first(reach.get("files"), MAX_FILES):
            for window, ranges in _first(windows):
                if isinstance(ranges, list):
                    files.setdefault(file, {}).setdefault(window, []).extend(ranges)
    if len(files) > MAX_FILES:
        return Unavailable(Why.TOO_LARGE, f"more than {MAX_FILES} source files")
    return Value({"files": {f: _merged(windows) for f, windows in sorted(files.items())}, "workers": workers})


def _time(stacks: dict[str, Json]) -> Json:
    """{"looks", "files": {FILE: {LINE: [looks in it, looks at it]}}}; what is no such thing is left out."""
    files = {
        file: {line: counts for line, counts in _first(lines) if line.isdecimal() and _are_counts(counts)}
        for file, lines in _first(stacks.get("files"), MAX_FILES)
    }
    looks = stacks.get("looks")
    return {"looks": looks if type(looks) is int else 0, "files": files}


def _are_counts(value: Json) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(n) is int and n >= 0 for n in value)


def _merged(windows: dict[str, Any]) -> dict[str, Json]:
    return {name: value if name == "blob" else _union(value) for name, value in windows.items()}


def _union(ranges: list[Json]) -> list[list[int]]:
    """Ranges of lines as ascending runs that neither touch nor overlap; what is no range is left out."""
    found: list[list[int]] = []
    known = [r for r in ranges if isinstance(r, list) and len(r) == 2 and all(type(line) is int for line in r)]
    for first, last in sorted(known):
        if found and first <= found[-1][1] + 1:
            found[-1][1] = max(found[-1][1], last)
        else:
            found.append([first, last])
    return found


def _present(part: Any, names: dict[str, str]) -> Readings:
    """What of a part is there, under other names; of the wrong type it will be an error of its own."""
    for path, name in names.items():
        if part.get(name) is not None:
            yield path, Value(part[name])


def _first(value: Json, at_most: int = MAX_NAMES) -> list[tuple[str, Json]]:
    """The fields of an object, within bounds."""
    return [(name, item) for name, item in value.items() if name][:at_most] if isinstance(value, dict) else []
