"""Workers: what each process of interest has, by role."""

from __future__ import annotations

import base64
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from envsnap.capture import capture
from envsnap.collectors import worker
from envsnap.host import Answer, Host, LiveHost, RecordedHost, RecordingHost, Request
from envsnap.reading import Found, Unavailable, Unset, Value, Why
from envsnap.scope import Scope
from envsnap.snapshot import Section
from envsnap.workers.live_env import Environment
from tests.fakes import FakeHost, missing
from tests.workers.running import PLAIN, PROGRAMS, compiled, python_program, reported, running, said
from tests.workers.test_tree import SERVER, machine, stat


def section(scope: Scope, host: Host | None = None) -> Section:
    return capture(scope, host or LiveHost(), only=["worker"]).sections["worker"]


def of(*pids: int) -> Scope:
    return Scope(pids=pids, cache=False)


def test_without_a_name_the_section_is_off_and_says_how() -> None:
    found = section(Scope())
    assert found.status == "unavailable"
    assert "name processes with --pid or --match" in found.reason
    assert not found.complete


def test_the_empty_machine() -> None:
    for scope in (Scope(), of(7), Scope(match=("x",))):
        found = section(scope, FakeHost())
        assert found.status == "unavailable"
        assert not found.errors


def test_processes_of_which_nothing_can_be_read() -> None:
    """They are named, and everything about them is unavailable; nothing is an error, nothing is empty."""
    host = machine((1, 0, "init\0"), (9, 1, "bash\0"), (10, 9, SERVER), (11, 10, "sglang::scheduler\0\0"))
    found = section(Scope(match=("sglang",)), host)
    assert not found.errors
    assert found.values["worker[main].argv"] == ["python3", "-m", "sglang.launch_server", "--tp", "2"]
    assert found.values["worker[scheduler].parent"] == "main"
    for path in ("env", "env_added", "env_at_exec", "cpus", "library", "executable"):
        assert found.unavailable[f"worker[scheduler].{path}"].why is Why.GONE, path
    assert isinstance(found.reading("worker[scheduler].env[PATH]"), Unavailable)


def test_spawned_children_from_the_shell_down() -> None:
    shell = 'export EXPORTED=yes; umask 027; cd /; ulimit -n 200; "$@"; :'
    argv = ["/bin/sh", "-c", shell, "sh", *python_program(sys.executable, "spawn", "set", "rank")]
    with running(argv) as process:
        reports = reported(process, 2)
        found = section(of(process.pid))
    values = found.values
    assert found.status == "ok"
    assert not found.errors
    assert {p.split("[")[1].split("]")[0] for p in values} == {"shell", "main", "resource_tracker", "rank0", "rank1"}
    for report in reports:
        role = f"worker[rank{report['tag']}]"
        live = {p.split("[")[2][:-1]: v for p, v in values.items() if p.startswith(f"{role}.env[")}
        assert live == report["environ"]
        assert values[f"{role}.env[EXPORTED]"] == "yes"
        assert values[f"{role}.env_added"] == ["BY_C", "BY_PUTENV", "BY_PYTHON", "RANK"]
        assert values[f"{role}.env_at_exec[CHANGED]"] == "before"
        assert values[f"{role}.env_at_exec[REMOVED]"] == "once"
        assert isinstance(found.reading(f"{role}.env[REMOVED]"), Unset)
        assert isinstance(found.reading(f"{role}.env_at_exec[EXPORTED]"), Unset)
        assert values[f"{role}.working_directory"] == "/"
        assert values[f"{role}.umask"] == "0027"
        assert values[f"{role}.nofile_soft_count"] == 200
        assert values[f"{role}.nofile_soft_unlimited"] is False
        assert values[f"{role}.parent"] == "main"
        assert values[f"{role}.executable"] == os.path.realpath(sys.executable)
        assert values[f"{role}.namespaces_apart"] == []
    assert values["worker[main].parent"] == "shell"
    assert values["worker[shell].argv"][:2] == ["/bin/sh", "-c"]


def test_binding_and_priority() -> None:
    cpu = min(os.sched_getaffinity(0))
    if not shutil.which("taskset"):
        pytest.skip("no taskset")
    with running(["nice", "-n", "7", "taskset", "-c", str(cpu), compiled(), "set"]) as process:
        said(process)
        values = section(of(process.pid)).values
    assert values["worker[main].cpus"] == str(cpu)
    assert values["worker[main].cpus_count"] == 1
    assert values["worker[main].nice"] == os.getpriority(os.PRIO_PROCESS, 0) + 7
    assert values["worker[main].scheduling_policy"] == "other"
    assert values["worker[main].user_id"] == os.geteuid()
    assert values["worker[main].threads_count"] == 1
    assert abs(values["worker[main].started_seconds"] - time.time()) < 60
    assert values["worker[main].memlock_soft_unlimited"] is (
        resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    )


def test_a_retitled_worker_is_clobbered_and_yet_read() -> None:
    pytest.importorskip("setproctitle")
    with running(python_program(sys.executable, "here", "set", "title:sglang::scheduler_TP3")) as process:
        reported(process)
        found = section(of(process.pid))
    role = "worker[scheduler_TP3]"
    assert found.values[f"{role}.title"] == "sglang::scheduler_TP3"
    assert found.values[f"{role}.env[BY_C]"] == "setenv"
    assert found.unavailable[f"{role}.argv"].why is Why.CLOBBERED
    assert found.unavailable[f"{role}.env_at_exec"].why is Why.CLOBBERED
    assert found.unavailable[f"{role}.env_added"].why is Why.CLOBBERED
    at_exec = found.reading(f"{role}.env_at_exec[CHANGED]")
    assert isinstance(at_exec, Unavailable)


def test_denied_memory_leaves_the_environment_at_exec_in_full() -> None:
    """Yama's scope 1 forbids the memory of a sibling, but not /proc/PID/environ."""

    class Denies(LiveHost):
        def ask(self, requests):  # type: ignore[no-untyped-def]
            answers = super().ask(requests)
            return [missing("denied") if r[0] == "memory" else a for r, a in zip(requests, answers)]

    with running([compiled(), "set"]) as process:
        said(process)
        found = section(of(process.pid), Denies())
    assert found.unavailable["worker[main].env"].why is Why.DENIED
    assert "envsnap run" in found.unavailable["worker[main].env"].detail
    assert {p: v for p, v in found.values.items() if p.startswith("worker[main].env_at_exec[")} == {
        f"worker[main].env_at_exec[{name}]": value for name, value in PLAIN.items()
    }
    assert found.unavailable["worker[main].env_added"].why is Why.DENIED


def test_a_torn_environment_is_not_complete() -> None:
    live = Environment({"STEADY": "1"}, torn=("MOVING",))
    found: dict[str, Found] = dict(worker._environment("w", live, {"STEADY": "1", "MOVING": "0"}))
    assert found["worker[w].env[STEADY]"] == Value("1")
    for branch in ("worker[w].env", "worker[w].env_added"):
        torn = found[branch]
        assert isinstance(torn, Unavailable)
        assert torn.why is Why.TORN
        assert "MOVING" in torn.detail
    assert found["worker[w].env_at_exec[MOVING]"] == Value("0")


def test_an_ended_worker_that_nobody_has_noticed() -> None:
    code = "import os, sys, time\nif not os.fork(): os._exit(0)\nprint(flush=True)\ntime.sleep(600)"
    with running([sys.executable, "-c", code]) as process:
        said(process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        while "Z" not in Path(f"/proc/{children[0]}/stat").read_text().rpartition(") ")[2][:1]:
            time.sleep(0.01)
        found = section(of(process.pid))
    assert found.values["worker[main].ended"] is False
    assert found.values["worker[child0].ended"] is True
    assert found.unavailable["worker[child0].env"].why is Why.GONE
    assert not found.errors


def test_inductors_pool_is_counted_and_not_listed() -> None:
    pool = "python3\0/v/torch/_inductor/compile_worker/__main__.py\0"
    host = machine((1, 0, "init\0"), (10, 1, SERVER), (11, 10, "sglang::scheduler\0\0"), (12, 11, pool), (13, 12, pool))
    values = section(Scope(match=("sglang",)), host).values
    assert values["worker[scheduler].compile_workers_count"] == 2
    assert values["worker[main].compile_workers_count"] == 0
    assert not any("compile_worker0" in path or "compile_worker1" in path for path in values)


def test_too_many_processes_are_left_out_and_said() -> None:
    rows = [(100 + i, 10, f"w{i}\0") for i in range(400)]
    found = section(Scope(match=("sglang",)), machine((1, 0, "init\0"), (10, 1, SERVER), *rows))
    assert found.status == "partial"
    assert "145 of 401 processes were left out" in found.reason
    assert not found.complete


STATUS = """Name:\tpython3
Umask:\t0022
Uid:\t1000\t1001\t1001\t1001
CapEff:\t0000000000800000
NoNewPrivs:\t1
Seccomp:\t2
Cpus_allowed_list:\t0-3,8
Mems_allowed_list:\t0-1
"""
LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max stack size            8388608              unlimited            bytes     \n"
    "Max processes             127                  127                  processes \n"
    "Max locked memory         unlimited            unlimited            bytes     \n"
)


def test_a_container_at_the_host_boundary() -> None:
    host = machine((1, 0, "init\0"), (10, 1, SERVER))
    host.files.update(
        {
            "/proc/10/status": STATUS,
            "/proc/10/limits": LIMITS,
            "/proc/10/cgroup": "3:cpu,cpuacct:/docker/abc\n0::/\n",
            "/proc/10/numa_maps": "00400000 bind:0-1 file=/usr/bin/python3 mapped=2 N0=2\n7f00 def",
            "/proc/10/oom_score_adj": "-500\n",
            "/proc/uptime": "1000.5 2000.1\n",
        }
    )
    host.links.update({"/proc/10/exe": "/usr/bin/python3.12 (deleted)", "/proc/10/cwd": "/sgl-workspace"})
    host.replies.update(
        {
            ("links", "/proc/self/ns"): {"mnt": "mnt:[1]", "pid": "pid:[2]", "net": "net:[3]", "pid_for_children": "x"},
            ("links", "/proc/10/ns"): {"mnt": "mnt:[9]", "pid": "pid:[8]", "net": "net:[3]", "pid_for_children": "y"},
            ("links", "/proc/10/fd"): {"12": "/dev/nvidia1", "13": "/dev/nvidia1", "14": "/dev/nvidia0"},
            ("self",): {"pid": 99, "time": 2000.0},
        }
    )
    found = section(of(10), host)
    expected = {
        "executable": "/usr/bin/python3.12",
        "executable_replaced": True,
        "working_directory": "/sgl-workspace",
        "cpus": "0-3,8",
        "cpus_count": 5,
        "memory_nodes": "0-1",
        "numa_policy": "bind:0-1",
        "user_id": 1001,
        "capabilities": ["sys_nice"],
        "no_new_privileges": True,
        "seccomp": "filter",
        "oom_score_adjustment": -500,
        "cgroup": "/docker/abc",
        "namespaces_apart": ["mnt", "pid"],
        "gpu_devices": ["nvidia0", "nvidia1"],
        "stack_soft_bytes": 8388608,
        "memlock_soft_unlimited": True,
        "nproc_soft_count": 127,
        "started_seconds": 2000.0 - 1000.5 + 1.1,
    }
    assert {name: found.values.get(f"worker[main].{name}") for name in expected} == expected
    assert "worker[main].memlock_soft_bytes" not in found.values
    assert found.unavailable["worker[main].nofile_soft_count"].why is Why.NOT_SUPPORTED
    assert not found.errors


@pytest.fixture
def libraries(tmp_path: Path) -> list[Path]:
    """Two NCCLs and a cuDNN whose version only the header beside it says."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    made = []
    for folder, name, text in (
        ("a/lib", "libnccl.so.2", "NCCL version 2.27.5+cuda12.9"),
        ("b/lib", "libnccl.so.2.28.3", "NCCL version 2.28.3+cuda13.0"),
        ("a/lib", "libcudnn.so.9", ""),
        ("a/lib", "libcudart.so.12", ""),
    ):
        target = tmp_path / folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        options = ["-shared", "-fPIC", "-Wl,--build-id=sha1", f'-DTEXT="{text}"', "-o", str(target)]
        subprocess.run(["gcc", *options, str(PROGRAMS / "library.c")], check=True)
        made.append(target)
    (tmp_path / "a/include").mkdir()
    (tmp_path / "a/include/cudnn_version.h").write_text(
        "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 10\n#define CUDNN_PATCHLEVEL 2\n"
    )
    return made


LOADER = "import ctypes, sys, time\nfor p in sys.argv[1:]: ctypes.CDLL(p)\nprint(flush=True)\ntime.sleep(600)"


def test_mapped_libraries(libraries: list[Path]) -> None:
    with running([sys.executable, "-c", LOADER, *map(str, libraries)]) as process:
        said(process)
        found = section(of(process.pid))
    library = "worker[main].library"
    assert found.values[f"{library}[nccl/0].path"] == str(libraries[0])
    assert found.values[f"{library}[nccl/0].version"] == "2.27.5"
    assert found.values[f"{library}[nccl/1].path"] == str(libraries[1])
    assert found.values[f"{library}[nccl/1].version"] == "2.28.3"
    assert found.values[f"{library}[cudnn/0].version"] == "9.10.2"
    assert found.values[f"{library}[nccl/0].replaced"] is False
    assert found.values[f"{library}[nccl/0].build_id"] == _build_id(libraries[0])
    assert found.unavailable[f"{library}[cuda_runtime/0].version"].why is Why.ABSENT
    assert f"{library}[libc/0].path" in found.values
    assert not found.errors


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to open what is mapped of a removed file")
def test_a_library_that_was_upgraded_under_a_live_server(libraries: list[Path]) -> None:
    """What counts is what is mapped, not what now has its name."""
    old = _build_id(libraries[0])
    with running([sys.executable, "-c", LOADER, str(libraries[0])]) as process:
        said(process)
        libraries[0].unlink()
        shutil.copy(libraries[1], libraries[0])
        found = section(of(process.pid))
    library = "worker[main].library[nccl/0]"
    assert found.values[f"{library}.path"] == str(libraries[0])
    assert found.values[f"{library}.replaced"] is True
    assert found.values[f"{library}.version"] == "2.27.5"
    assert found.values[f"{library}.build_id"] == old


def _build_id(path: Path) -> str:
    from elftools.elf.elffile import ELFFile

    with open(path, "rb") as file:
        section: Any = ELFFile(file).get_section_by_name(".note.gnu.build-id")
        return str(next(section.iter_notes())["n_desc"])


@pytest.fixture
def recorded() -> Iterator[tuple[Section, Host, Scope]]:
    """A real capture, and a machine that answers as this one did."""
    with running(python_program(sys.executable, "spawn", "set", "rank")) as process:
        reported(process, 2)
        host = RecordingHost(LiveHost())
        scope = of(process.pid)
        yield section(scope, host), RecordedHost({name: a for name, (_, a) in host.calls.items()}), scope


def test_a_recorded_machine_gives_the_same(recorded: tuple[Section, Host, Scope]) -> None:
    live, host, scope = recorded
    again = section(scope, host)
    assert again.values == live.values
    assert again.unavailable == live.unavailable


class Garbage(Host):
    """Answers everything with nonsense, though processes and their maps mostly look like some."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Sequence[Any]) -> Answer:
        dice = self._random.random()
        if request[0] == "processes" and dice < 0.9:
            return ["ok", [[stat(i, i - 1), self._random.choice(["x\0", "x::y\0\0", "", "x"])] for i in range(1, 9)]]
        if request[0] == "self" and dice < 0.9:
            return ["ok", {"pid": 99, "time": 1.0}]
        if str(request[1]).endswith("/maps") and dice < 0.8:
            return ["ok", "1000-9000 r--p 00000000 08:01 12 /x\n9000-a000 r--p 00000000 08:01 13 /libnccl.so.2\n"]
        if request[0] == "link" and dice < 0.8:
            return ["ok", "/x"]
        if request[0] == "memory" and dice < 0.9:
            parts = [b"\x7fELF\x02\x01" + self._random.randbytes(min(size, 4096)) for _, size in request[2]]
            return ["ok", [base64.b64encode(part[:size]).decode() for part, (_, size) in zip(parts, request[2])]]
        nonsense: list[Any] = [None, True, -5, 1 << 70, "x\0y", "\u1738 7 (a) S", [[None]], {"pid": {}}, ["x", 2]]
        return self._random.choice(
            [["ok", self._random.choice(nonsense)], ["missing", "denied", "x"], ["error", "boom"], ["ok"], []]
        )


def test_garbage_costs_readings_or_the_section_and_never_more() -> None:
    statuses = set()
    for seed in range(60):
        found = section(Scope(pids=(3,), match=("x",), cache=False), Garbage(seed))
        statuses.add(found.status)
    assert "ok" in statuses
    assert "timeout" not in statuses
