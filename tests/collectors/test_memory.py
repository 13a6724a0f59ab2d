from __future__ import annotations

import base64
import mmap
import os
import struct
from multiprocessing.shared_memory import SharedMemory

from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Why
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost

THP = "/sys/kernel/mm/transparent_hugepage"
HUGE = "/sys/kernel/mm/hugepages"
EDAC = "/sys/devices/system/edac/mc"

MEMINFO = """MemTotal:       2113461848 kB
MemFree:        1984017344 kB
MemAvailable:   2015360472 kB
Cached:         40404764 kB
SwapTotal:       8388604 kB
SwapFree:        8126460 kB
Dirty:               688 kB
AnonHugePages:   1048576 kB
HugePages_Total:   16384
Hugepagesize:       2048 kB
"""


def machine() -> FakeHost:
    files = {
        "/proc/meminfo": MEMINFO,
        "/proc/sys/vm/swappiness": "10\n",
        "/proc/sys/vm/zone_reclaim_mode": "0\n",
        "/proc/sys/vm/min_free_kbytes": "90112\n",
        "/proc/sys/vm/max_map_count": "65530\n",
        f"{THP}/enabled": "always [madvise] never\n",
        f"{THP}/defrag": "always defer defer+madvise [madvise] never\n",
        f"{THP}/shmem_enabled": "always within_size advise [never] deny force\n",
        "/sys/kernel/mm/ksm/run": "0\n",
        "/sys/module/zswap/parameters/enabled": "N\n",
        f"{HUGE}/hugepages-2048kB/nr_hugepages": "16384\n",
        f"{HUGE}/hugepages-2048kB/free_hugepages": "16380\n",
        f"{HUGE}/hugepages-2048kB/resv_hugepages": "4\n",
        f"{HUGE}/hugepages-1048576kB/nr_hugepages": "0\n",
        f"{HUGE}/hugepages-1048576kB/free_hugepages": "0\n",
        f"{HUGE}/hugepages-1048576kB/resv_hugepages": "0\n",
        f"{EDAC}/mc0/ce_count": "3\n",
        f"{EDAC}/mc0/ue_count": "0\n",
        f"{EDAC}/mc1/ce_count": "4\n",
        f"{EDAC}/mc1/ue_count": "0\n",
        "/dev/shm/nccl-x1": "",
        "/dev/shm/nccl-x2": "",
        "/dev/shm/sem.mp-a": "",
    }
    space = {"size_bytes": 1 << 40, "available_bytes": (1 << 40) - 4096, "files": 10, "files_available": 7}
    vector = struct.pack("<6Q", 33, 0x7F00, 6, 65536, 0, 0)
    replies = {
        ("statvfs", "/dev/shm"): space,
        ("bytes", "/proc/self/auxv"): base64.b64encode(vector).decode(),
    }
    return FakeHost(files, replies=replies)


def test_sizes_are_bytes() -> None:
    read = section("memory", machine())
    values = read.values
    assert read.errors == {}
    assert values["memory.total_bytes"] == 2113461848 * 1024
    assert values["memory.available_bytes"] == 2015360472 * 1024
    assert values["memory.swap_total_bytes"] == 8388604 * 1024
    assert values["memory.swap_used_bytes"] == (8388604 - 8126460) * 1024
    assert values["memory.min_free_bytes"] == 90112 * 1024
    assert values["memory.default_huge_page_bytes"] == 2 << 20
    assert values["memory.page_bytes"] == 65536


def test_settings() -> None:
    values = section("memory", machine()).values
    assert values["memory.transparent_huge_pages"] == "madvise"
    assert values["memory.transparent_huge_pages_defrag"] == "madvise"
    assert values["memory.transparent_huge_pages_shmem"] == "never"
    assert (values["memory.swappiness"], values["memory.zone_reclaim_mode"]) == (10, 0)
    assert values["memory.same_page_merging_mode"] == 0
    assert values["memory.zswap"] is False


def test_huge_pages_by_size() -> None:
    values = section("memory", machine()).values
    assert values["memory.huge_pages[2M].count"] == 16384
    assert values["memory.huge_pages[2M].free_count"] == 16380
    assert values["memory.huge_pages[2M].reserved_count"] == 4
    assert values["memory.huge_pages[1G].count"] == 0


def test_errors_of_all_memory_controllers() -> None:
    values = section("memory", machine()).values
    assert (values["memory.corrected_errors_count"], values["memory.uncorrected_errors_count"]) == (7, 0)


def test_a_controller_that_cannot_be_read_leaves_no_sum() -> None:
    host = machine()
    host.denied = (f"{EDAC}/mc1/ce_count",)
    assert section("memory", host).unavailable["memory.corrected_errors_count"].why is Why.DENIED


def test_no_controller_is_not_no_errors() -> None:
    host = machine()
    host.files = {path: text for path, text in host.files.items() if not path.startswith(EDAC)}
    assert section("memory", host).unavailable["memory.corrected_errors_count"].why is Why.ABSENT


def test_shared_memory_and_what_nccl_left_there() -> None:
    values = section("memory", machine()).values
    assert values["memory.shm_size_bytes"] == 1 << 40
    assert values["memory.shm_used_bytes"] == 4096
    assert (values["memory.shm_entries_count"], values["memory.shm_nccl_entries_count"]) == (3, 2)


def test_no_shared_memory_is_not_an_empty_one() -> None:
    host = machine()
    host.files = {path: text for path, text in host.files.items() if not path.startswith("/dev/shm")}
    host.replies.pop(("statvfs", "/dev/shm"))
    read = section("memory", host)
    for name in ("size_bytes", "used_bytes", "entries_count", "nccl_entries_count"):
        assert read.unavailable[f"memory.shm_{name}"].why is Why.ABSENT


def test_a_kernel_without_a_field() -> None:
    host = machine()
    host.files["/proc/meminfo"] = "MemTotal: 16 kB\nSwapTotal: 8 kB\n"
    read = section("memory", host)
    assert read.values["memory.total_bytes"] == 16384
    assert read.unavailable["memory.available_bytes"].why is Why.NOT_SUPPORTED
    assert read.unavailable["memory.swap_used_bytes"].why is Why.NOT_SUPPORTED


def test_the_empty_machine() -> None:
    empty = on_the_empty_machine("memory")
    assert empty.values == {}
    assert isinstance(empty.reading("memory.huge_pages[2M].count"), Unavailable)


def test_this_machine() -> None:
    before = section("memory", LiveHost())
    assert before.errors == {}
    assert before.values["memory.page_bytes"] == mmap.PAGESIZE
    assert before.values["memory.total_bytes"] == os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE


def test_a_segment_that_somebody_left_in_shared_memory_is_seen() -> None:
    before = section("memory", LiveHost()).values["memory.shm_nccl_entries_count"]
    segment = SharedMemory(name=f"nccl-test-{os.getpid()}", create=True, size=1 << 20)
    try:
        after = section("memory", LiveHost()).values["memory.shm_nccl_entries_count"]
    finally:
        segment.close()
        segment.unlink()
    assert after == before + 1
