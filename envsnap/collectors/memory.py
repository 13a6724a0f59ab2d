"""Memory: size, swap, huge pages, sysctls of virtual memory, shared memory, hardware errors."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator

from envsnap.collectors._files import FileFact, Files, chosen, natural, parsed, read_files, readings, switch, times
from envsnap.host import Host, value_of
from envsnap.keys import Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Missing, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "/proc/meminfo, /proc/sys/vm, /sys/kernel/mm, /sys/devices/system/edac, /dev/shm"

_VM = "/proc/sys/vm"
_THP = "/sys/kernel/mm/transparent_hugepage"
_HUGE = "/sys/kernel/mm/hugepages/hugepages-[0-9]*kB"
_EDAC = "/sys/devices/system/edac/mc/mc[0-9]*"

_HOST = (Effect.MEMORY, Effect.HOST_LAUNCH)
_LOADING = (Effect.MEMORY, Effect.STORAGE)

_FACTS = (
    FileFact(Key("memory.swappiness", Type.INTEGER, Kind.TUNABLE,
                 "How readily the kernel swaps out programs rather than drop cached files (0 to 200).",
                 _HOST, 0.15, Lever.ROOT),
             f"{_VM}/swappiness", natural),
    FileFact(Key("memory.overcommit_mode", Type.INTEGER, Kind.TUNABLE,
                 "Whether more memory may be reserved than there is (0 within reason, 1 always, 2 never).",
                 _HOST, 0.1, Lever.ROOT),
             f"{_VM}/overcommit_memory", natural),
    FileFact(Key("memory.overcommit_percent", Type.INTEGER, Kind.TUNABLE,
                 "Share of memory that may be reserved under overcommit mode 2.", _HOST, 0.05, Lever.ROOT),
             f"{_VM}/overcommit_ratio", natural),
    FileFact(Key("memory.max_map_count", Type.INTEGER, Kind.TUNABLE, "Mappings that one process may have.",
                 _HOST, 0.05, Lever.ROOT),
             f"{_VM}/max_map_count", natural),
    FileFact(Key("memory.zone_reclaim_mode", Type.INTEGER, Kind.TUNABLE,
                 "Whether a NUMA node reclaims its own pages before it takes another's (bit mask, 0 no).",
                 _HOST, 0.3, Lever.ROOT, "Switch it off with `sysctl vm.zone_reclaim_mode=0`."),
             f"{_VM}/zone_reclaim_mode", natural),
    FileFact(Key("memory.dirty_percent", Type.INTEGER, Kind.TUNABLE,
                 "Share of memory with unwritten data at which writers are stopped; 0 where a size rules.",
                 (Effect.STORAGE,), 0.05, Lever.ROOT),
             f"{_VM}/dirty_ratio", natural),
    FileFact(Key("memory.dirty_bytes", Type.INTEGER, Kind.TUNABLE,
                 "Unwritten data at which writers are stopped; 0 where a share rules.",
                 (Effect.STORAGE,), 0.05, Lever.ROOT),
             f"{_VM}/dirty_bytes", natural),
    FileFact(Key("memory.dirty_background_percent", Type.INTEGER, Kind.TUNABLE,
                 "Share of memory with unwritten data at which writing starts; 0 where a size rules.",
                 (Effect.STORAGE,), 0.05, Lever.ROOT),
             f"{_VM}/dirty_background_ratio", natural),
    FileFact(Key("memory.compaction_proactiveness", Type.INTEGER, Kind.TUNABLE,
                 "How eagerly the kernel makes free memory contiguous in the background (0 to 100).",
                 _HOST, 0.1, Lever.ROOT),
             f"{_VM}/compaction_proactiveness", natural),
    FileFact(Key("memory.min_free_bytes", Type.INTEGER, Kind.TUNABLE, "Memory that the kernel keeps free.",
                 _HOST, 0.05, Lever.ROOT, rel_tol=0.01),
             f"{_VM}/min_free_kbytes", times(1024)),
    FileFact(Key("memory.transparent_huge_pages", Type.STRING, Kind.TUNABLE,
                 "Which programs get huge pages without asking: always, madvise or never.",
                 _HOST, 0.3, Lever.ROOT, "Set it in /sys/kernel/mm/transparent_hugepage/enabled."),
             f"{_THP}/enabled", chosen),
    FileFact(Key("memory.transparent_huge_pages_defrag", Type.STRING, Kind.TUNABLE,
                 "When a page fault waits for a huge page to be made free.", _HOST, 0.25, Lever.ROOT),
             f"{_THP}/defrag", chosen),
    FileFact(Key("memory.transparent_huge_pages_shmem", Type.STRING, Kind.TUNABLE,
                 "Which shared memory gets huge pages.", _HOST, 0.15, Lever.ROOT),
             f"{_THP}/shmem_enabled", chosen),
    FileFact(Key("memory.khugepaged_defrag", Type.BOOLEAN, Kind.TUNABLE,
                 "Whether the kernel's thread for huge pages may compact memory.", _HOST, 0.1, Lever.ROOT),
             f"{_THP}/khugepaged/defrag", switch),
    FileFact(Key("memory.same_page_merging_mode", Type.INTEGER, Kind.TUNABLE,
                 "Kernel same-page merging: 0 stopped, 1 running, 2 stopped and unmerged.", _HOST, 0.2, Lever.ROOT),
             "/sys/kernel/mm/ksm/run", natural),
    FileFact(Key("memory.zswap", Type.BOOLEAN, Kind.TUNABLE, "Whether pages are compressed before they are swapped.",
                 _HOST, 0.05, Lever.ROOT),
             "/sys/module/zswap/parameters/enabled", switch),
)  # fmt: skip

_MEMINFO = {
    "MemTotal": Key("memory.total_bytes", Type.INTEGER, Kind.IDENTITY, "Memory that the kernel manages.",
                    _HOST, 0.2, rel_tol=0.01),
    "MemFree": Key("memory.free_bytes", Type.INTEGER, Kind.VOLATILE, "Memory that nothing uses.",
                   _HOST, 0.1, rel_tol=0.2),
    "MemAvailable": Key("memory.available_bytes", Type.INTEGER, Kind.VOLATILE,
                        "Memory that a program could get without swapping.", _HOST, 0.2, rel_tol=0.1),
    "Cached": Key("memory.cached_bytes", Type.INTEGER, Kind.VOLATILE,
                  "Files held in memory; little of it makes loading weights slow.", _LOADING, 0.1, rel_tol=0.2),
    "Dirty": Key("memory.dirty_now_bytes", Type.INTEGER, Kind.VOLATILE, "Data not yet written to storage.",
                 (Effect.STORAGE,), 0.05, rel_tol=0.5, abs_tol=64 << 20),
    "SwapTotal": Key("memory.swap_total_bytes", Type.INTEGER, Kind.TUNABLE, "Swap space.", _HOST, 0.1, Lever.ROOT),
    "SwapFree": Key("memory.swap_used_bytes", Type.INTEGER, Kind.VOLATILE,
                    "Swap space in use: what lies there has to be read back.", _HOST, 0.3, rel_tol=0.2,
                    abs_tol=16 << 20, advice="Find what was swapped out, or empty swap with `swapoff -a; swapon -a`."),
    "AnonHugePages": Key("memory.transparent_huge_bytes", Type.INTEGER, Kind.VOLATILE,
                         "Program memory in transparent huge pages.", _HOST, 0.05, rel_tol=0.5, abs_tol=256 << 20),
    "Hugepagesize": Key("memory.default_huge_page_bytes", Type.INTEGER, Kind.TUNABLE, "Size of a huge page by default.",
                        _HOST, 0.1, Lever.ROOT),
}  # fmt: skip
"""Field of /proc/meminfo, counted in KiB -> its key."""

_HUGE_PAGES = {
    "nr_hugepages": Key("memory.huge_pages[].count", Type.INTEGER, Kind.TUNABLE,
                        "Huge pages of this size set aside; nothing else can use that memory.",
                        _HOST, 0.15, Lever.ROOT),
    "free_hugepages": Key("memory.huge_pages[].free_count", Type.INTEGER, Kind.VOLATILE,
                          "Huge pages of this size not in use.", _HOST, 0.05),
    "resv_hugepages": Key("memory.huge_pages[].reserved_count", Type.INTEGER, Kind.VOLATILE,
                          "Huge pages of this size promised and not in use.", _HOST, 0.05),
}  # fmt: skip

_ERRORS = {
    "ce_count": Key("memory.corrected_errors_count", Type.INTEGER, Kind.COUNTER,
                    "Memory errors that hardware corrected, over all memory controllers.", _HOST, 0.3,
                    advice="Have the memory module replaced."),
    "ue_count": Key("memory.uncorrected_errors_count", Type.INTEGER, Kind.COUNTER,
                    "Memory errors that could not be corrected, over all memory controllers.",
                    (Effect.MEMORY, Effect.VALIDITY), 0.3, advice="Have the memory module replaced."),
}  # fmt: skip

_SHARED = (
    Key("memory.shm_size_bytes", Type.INTEGER, Kind.TUNABLE,
        "Size of /dev/shm: NCCL and tensor-parallel workers share memory there, and 64 MB is a container's default.",
        (Effect.COMMUNICATION, Effect.HOST_LAUNCH), 0.35, Lever.ROOT, "Start the container with `--shm-size`.",
        rel_tol=0.01),
    Key("memory.shm_available_bytes", Type.INTEGER, Kind.VOLATILE, "Room left in /dev/shm.",
        (Effect.COMMUNICATION,), 0.15, rel_tol=0.1),
    Key("memory.shm_used_bytes", Type.INTEGER, Kind.VOLATILE,
        "What lies in /dev/shm; segments left over from killed servers keep their memory.",
        (Effect.MEMORY,), 0.1, rel_tol=0.2, abs_tol=16 << 20),
)  # fmt: skip

KEYS = (
    *(fact.key for fact in _FACTS),
    *_MEMINFO.values(),
    *_HUGE_PAGES.values(),
    *_ERRORS.values(),
    *_SHARED,
    Key("memory.shm_entries_count", Type.INTEGER, Kind.VOLATILE, "Entries in /dev/shm.", (Effect.MEMORY,), 0.05),
    Key("memory.shm_nccl_entries_count", Type.INTEGER, Kind.VOLATILE,
        "Shared segments of NCCL in /dev/shm: of running communicators, or left over.", (Effect.COMMUNICATION,), 0.1),
    Key("memory.page_bytes", Type.INTEGER, Kind.IDENTITY, "Size of a page of memory.", _HOST, 0.2),
)  # fmt: skip


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    patterns = [f"{_HUGE}/{name}" for name in _HUGE_PAGES] + [f"{_EDAC}/{name}" for name in _ERRORS]
    files = read_files(host, ("/proc/meminfo", *(fact.file for fact in _FACTS), *patterns))
    yield from _meminfo(files["/proc/meminfo"])
    yield from readings(files, _FACTS)
    yield from files.absent(f"{_HUGE}/nr_hugepages", "memory.huge_pages")
    for name, key in _HUGE_PAGES.items():
        for (kib,), found in files.matching(f"{_HUGE}/{name}"):
            yield path_of(key.pattern, _page_size(int(kib))), parsed(found, natural)
    for name, key in _ERRORS.items():
        yield key.pattern, attempt(_total, files, f"{_EDAC}/{name}")
    vector, space, names = host.found(
        [["bytes", "/proc/self/auxv", 0, 4096], ["statvfs", "/dev/shm"], ["list", "/dev/shm"]]
    )
    yield "memory.page_bytes", attempt(_page_bytes, vector)
    yield from _shared_memory(space, names)


def _meminfo(found: Found) -> Iterator[tuple[str, Found]]:
    if not isinstance(found, Value):
        yield from ((key.pattern, found) for key in _MEMINFO.values())
        return
    fields = {line.partition(":")[0]: line.partition(":")[2] for line in str(found.value).splitlines()}
    for name, key in _MEMINFO.items():
        if name == "SwapFree":
            yield key.pattern, attempt(lambda: _kib(fields, "SwapTotal") - _kib(fields, "SwapFree"))
        else:
            yield key.pattern, attempt(_kib, fields, name)


def _kib(fields: dict[str, str], name: str) -> int:
    if name not in fields:
        raise Missing(Why.NOT_SUPPORTED, f"/proc/meminfo has no {name}")
    return natural(fields[name].removesuffix("kB")) * 1024


def _page_size(kib: int) -> str:
    """2048 KiB is 2M, 1048576 KiB is 1G: as the kernel's hugepagesz parameter has them."""
    for unit, letter in ((1 << 20, "G"), (1 << 10, "M")):
        if kib % unit == 0:
            return f"{kib // unit}{letter}"
    return f"{kib}K"


def _total(files: Files, pattern: str) -> int:
    counts = [value_of(parsed(found, natural)) for _, found in files.matching(pattern)]
    if not counts:
        raise Missing(Why.ABSENT, "no memory controller reports errors here")
    return sum(counts)


def _shared_memory(space: Found, names: Found) -> Iterator[tuple[str, Found]]:
    yield "memory.shm_size_bytes", attempt(lambda: value_of(space)["size_bytes"])
    yield "memory.shm_available_bytes", attempt(lambda: value_of(space)["available_bytes"])
    used = attempt(lambda: value_of(space)["size_bytes"] - value_of(space)["available_bytes"])
    yield "memory.shm_used_bytes", used
    yield "memory.shm_entries_count", attempt(lambda: len(value_of(names)))
    nccl = attempt(lambda: sum(name.startswith("nccl-") for name in value_of(names)))
    yield "memory.shm_nccl_entries_count", nccl


def _page_bytes(vector: Found) -> int:
    """AT_PAGESZ (6) of this process's auxiliary vector, which is pairs of words."""
    data = base64.b64decode(value_of(vector))
    for kind, value in struct.iter_unpack("<QQ", data[: len(data) // 16 * 16]):
        if kind == 6:
            return int(value)
    raise Missing(Why.NOT_SUPPORTED, "the auxiliary vector does not hold it")
