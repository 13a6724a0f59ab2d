from __future__ import annotations

import subprocess
import sys

import pytest

from envsnap.collectors.load import parse_pressure, parse_stat
from envsnap.host import LiveHost
from envsnap.reading import Unavailable, Unset, Why
from tests.collectors.hosts import on_the_empty_machine, section
from tests.fakes import FakeHost, missing

STAT = """cpu  1 2 3 4 5 6 7 250 9 10
cpu0 1 2 3 4 5 6 7 250 9 10
intr 33 0 1
ctxt 987654
btime 1700000000
processes 4321
procs_running 2
procs_blocked 1
"""
PRESSURE = "some avg10=12.50 avg60=3.00 avg300=1.00 total=4200000\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=99\n"


def machine() -> FakeHost:
    files = {
        "/proc/loadavg": "3.50 2.25 1.00 5/812 4711\n",
        "/proc/stat": STAT,
        "/proc/pressure/cpu": PRESSURE,
        "/proc/pressure/memory": PRESSURE,
        "/run/systemd/sessions/4": "",
        "/run/systemd/sessions/4.ref": "",
        "/run/systemd/sessions/c1": "",
    }
    busiest = {
        "processes": 300,
        "elapsed_ns": 50_000_000,
        "busiest": [
            ["python3", 100_000_000],
            ["kworker/1:1-events", 2_000_000],
            ["kworker/u8:0", 3_000_000],
            ["sh", 9],
        ],
    }
    return FakeHost(files, replies={("busiest",): busiest})


def test_averages_and_counts() -> None:
    read = section("load", machine())
    values = read.values
    assert read.errors == {}
    assert (values["load.average_1m"], values["load.average_5m"], values["load.average_15m"]) == (3.5, 2.25, 1.0)
    assert (values["load.runnable_threads_count"], values["load.threads_count"]) == (5, 812)
    assert (values["load.context_switches_count"], values["load.forks_count"]) == (987654, 4321)
    assert values["load.blocked_threads_count"] == 1
    assert values["load.cpu_steal_seconds"] == 2.5
    assert values["load.processes_count"] == 300
    assert values["load.login_sessions_count"] == 2


def test_pressure() -> None:
    read = section("load", machine())
    assert read.values["load.pressure[memory].some_percent"] == 12.5
    assert read.values["load.pressure[memory].full_microseconds"] == 99
    reading = read.reading("load.pressure[io].some_percent")
    assert isinstance(reading, Unavailable)
    assert reading.why is Why.ABSENT


def test_an_old_kernel_knows_no_full_pressure_of_cpus() -> None:
    assert parse_pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n") == {"some": (0.0, 7)}


def test_consumers_go_by_name_and_kernel_threads_by_kind() -> None:
    read = section("load", machine())
    shares = {p: v for p, v in read.values.items() if p.startswith("load.process_cpu_percent")}
    assert shares == {"load.process_cpu_percent[python3]": 200.0, "load.process_cpu_percent[kworker]": 10.0}
    assert isinstance(read.reading("load.process_cpu_percent[sh]"), Unset)


def test_consumers_that_cannot_be_sampled_are_unavailable() -> None:
    host = machine()
    host.replies[("busiest",)] = missing("denied", "no /proc")
    reading = section("load", host).reading("load.process_cpu_percent[python3]")
    assert isinstance(reading, Unavailable)
    assert reading.why is Why.DENIED


@pytest.mark.parametrize(("line", "steal"), [("cpu  1 2 3 4 5 6 7 8 9 10", "8"), ("cpu  1 2 3 4", None)])
def test_steal_time_is_the_eighth_column(line: str, steal: str | None) -> None:
    assert parse_stat(f"{line}\ncpu0 1 1 1 1 1 1 1 1\n").get("cpu_steal") == steal


def test_text_made_to_be_slow_to_match_is_not() -> None:
    host = machine()
    host.files |= {
        "/proc/stat": "cpu  " + "1" * 60000 + "x\n",
        "/proc/pressure/cpu": "some avg10=1 " + "total=1" * 9000 + "x",
    }
    read = section("load", host)
    assert read.unavailable["load.cpu_steal_seconds"].why is Why.NOT_SUPPORTED
    assert isinstance(read.reading("load.pressure[cpu].some_percent"), Unavailable)


def test_the_empty_machine() -> None:
    assert on_the_empty_machine("load").values == {}


def test_a_process_that_burns_cpu_is_found_and_envsnap_is_not() -> None:
    # The name of a process is what its main thread says: prctl(PR_SET_NAME), here by way of /proc.
    burn = "open('/proc/self/comm', 'w').write('burner-7')\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", burn], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            # It is a child of the tests, and children of what samples are left out: let another process sample.
            ask = "import json, sys; from envsnap import machine; print(json.dumps(machine.op_busiest(0.3, 50)))"
            sampled = subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True, timeout=60).stdout
        finally:
            child.kill()
    assert b"burner-7" in sampled


def test_sampling_leaves_itself_and_its_children_out() -> None:
    burn = "open('/proc/self/comm', 'w').write('burner-8')\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", burn], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            values = section("load", LiveHost()).values
        finally:
            child.kill()
    assert "load.process_cpu_percent[burner-8]" not in values
    assert values["load.processes_count"] >= 2
