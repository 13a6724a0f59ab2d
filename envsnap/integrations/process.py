"""This process: which one it is, how its interpreter is set, what it may use."""

from __future__ import annotations

import gc
import os
import re
import resource
import sys
import time
from typing import Any


def is_spawned() -> bool:
    """Whether `multiprocessing` has spawned this process."""
    return "--multiprocessing-fork" in sys.orig_argv


def identity() -> dict[str, Any]:
    """What tells this process from any other: its number, start, user and machine's boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return {"pid": os.getpid(), "start_ticks": start_ticks(), "uid": os.geteuid(), "boot_id": boot}


def start_ticks() -> int:
    """When this process was started, in the kernel's ticks since boot: what `/proc/PID/stat` says."""
    with open("/proc/self/stat", "rb") as file:
        # NOTE: the name in brackets may hold anything; the fields after its last bracket are numbers.
        return int(file.read().rsplit(b")", 1)[1].split()[19])


def started() -> float:
    """When this process was started, in seconds since the epoch."""
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks() / os.sysconf("SC_CLK_TCK")
    return time.time() - age


def process() -> dict[str, Any]:
    """Identity, names, program."""
    return {
        **identity(),
        "ppid": os.getppid(),
        "title": title(),
        "argv": list(sys.orig_argv),
        "executable": sys.executable,
        "cwd": os.getcwd(),
    }


def title() -> str:
    """The name that a process has given itself (`sglang::scheduler_TP0`); empty where it kept its command line."""
    with open("/proc/self/cmdline", "rb") as file:
        first = os.fsdecode(file.read(4096).split(b"\0")[0])
    return first if "::" in first else ""


def file_word() -> str:
    """A word for the record's file name: of the title what follows its colons, else the kernel's short name."""
    try:
        word = title().split("::", 1)[-1]
        if not word:
            with open("/proc/self/comm", "rb") as file:
                word = os.fsdecode(file.read()).strip()
    except OSError:
        word = ""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", word)[:64].strip(".") or "process"


def python() -> dict[str, Any]:
    """The interpreter and its settings."""
    multiprocessing = sys.modules.get("multiprocessing")
    flags = [name for name in dir(sys.flags) if not name.startswith(("_", "n_")) and name not in ("count", "index")]
    return {
        "version": "%d.%d.%d" % sys.version_info[:3],
        "implementation": sys.implementation.name,
        "flags": {name: int(getattr(sys.flags, name)) for name in flags},
        "gc_enabled": gc.isenabled(),
        "gc_thresholds": list(gc.get_threshold()),
        "gc_frozen": gc.get_freeze_count(),
        "switch_interval_seconds": sys.getswitchinterval(),
        # NOTE: without allow_none asking would settle it.
        "start_method": multiprocessing.get_start_method(allow_none=True) if multiprocessing else None,
    }


def limits() -> dict[str, list[int]]:
    """Resource limits, name -> [soft, hard], -1 for none."""
    names = [name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"]
    return {name[7:].lower(): list(resource.getrlimit(getattr(resource, name))) for name in sorted(names)}


def affinity() -> list[int]:
    """The CPUs of the process's own thread, which engines bind after the thread that asks here has started."""
    return sorted(os.sched_getaffinity(os.getpid()))
