"""The verb as a process of its own: what it returns, prints, and becomes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from envsnap.check.rules import codes
from envsnap.snapshot import load, write
from tests.check.made import gpus, snapshot
from tests.processes import Spawn
from tests.test_cli import Done, envsnap
from tests.workers.running import running

PYTHON = sys.executable
WHO = [PYTHON, "-c", "import os, sys; print(os.getpid(), os.getppid(), *sys.argv[1:])"]


def started(
    spawn: Spawn, *arguments: str, cwd: Path, ignored: Sequence[signal.Signals] = (), **options: Any
) -> subprocess.Popen[str]:
    """A check that runs, with these signals ignored and no others, whatever the tests themselves were started with."""

    def dispose() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    return spawn(
        [PYTHON, "-m", "envsnap", "check", *arguments],
        cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=dispose, **options,
    )  # fmt: skip


def policy(folder: Path, text: str, name: str = "envsnap.toml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


PASSES = "[require]\n'os.architecture' = { present = true }\n"
FAILS = "[require]\n'os.architecture' = 'vax'\n"
BLIND = "[require]\n'server[0].version' = '1'\n"
WARNS = "[require]\n'os.architecture' = { equals = 'vax', severity = 'warning' }\n"
BROKEN = "[require]\n'os.architecure' = 'x'\n"


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (PASSES, [], 0),
        (FAILS, [], 1),
        (BROKEN, [], 2),
        (BLIND, [], 3),
        (BLIND, ["--allow-unknown"], 0),
        (WARNS, [], 0),
        (WARNS, ["--strict"], 4),
        (FAILS + BLIND.split("\n")[1], ["--strict"], 1),
    ],
)
def test_exit_codes_and_that_only_a_pass_starts_the_command(
    tmp_path: Path, text: str, options: list[str], code: int
) -> None:
    policy(tmp_path, text)
    assert envsnap("check", "--no-rules", *options, cwd=tmp_path).returncode == code
    done = envsnap("check", "--no-rules", *options, "--", "echo", "started", cwd=tmp_path)
    if code == 0:
        assert (done.returncode, done.stdout) == (0, "started\n")
        assert done.stderr.splitlines()[-1].startswith(("pass", "unknown"))
    else:
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.endswith("envsnap: echo was not started.\n")


def test_fail_open_is_for_trouble_alone(tmp_path: Path) -> None:
    policy(tmp_path, BROKEN)
    done = envsnap("check", "--fail-open", "--", "echo", "started", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert "os.architecure is no key that envsnap reads; did you mean os.architecture?" in done.stderr
    for text, code in ((FAILS, 1), (BLIND, 3)):
        policy(tmp_path, text)
        done = envsnap("check", "--no-rules", "--fail-open", "--", "echo", "started", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (code, "")


def test_the_command_takes_the_place_of_the_check(spawn: Spawn, tmp_path: Path) -> None:
    policy(tmp_path, PASSES)
    process = started(spawn, "--no-rules", "-q", "--", *WHO, "--tp", "2", "--", "x y", cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert out.split() == [str(process.pid), str(os.getpid()), "--tp", "2", "--", "x", "y"]
    assert (process.returncode, err) == (0, "")


def test_the_command_has_its_own_exit_code_input_and_signals(spawn: Spawn, tmp_path: Path) -> None:
    policy(tmp_path, PASSES)
    done = envsnap("check", "--no-rules", "-q", "--", "sh", "-c", "cat; exit 7", cwd=tmp_path, input="in\n")
    assert (done.returncode, done.stdout) == (7, "in\n")
    done = envsnap("check", "--no-rules", "-q", "--", "sh", "-c", "kill -PIPE $$; exit 7", cwd=tmp_path)
    assert done.returncode == -signal.SIGPIPE
    process = started(spawn, "--no-rules", "-q", "--", "sh", "-c", "echo up; exec sleep 60", cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.terminate()
    assert process.wait(timeout=10) == -signal.SIGTERM
    process.communicate()


@pytest.mark.parametrize("ignored", [[], [signal.SIGHUP, signal.SIGINT]])
def test_the_command_ignores_what_its_caller_ignored_and_nothing_else(
    spawn: Spawn, tmp_path: Path, ignored: list[signal.Signals]
) -> None:
    policy(tmp_path, PASSES)
    command = ["sh", "-c", "grep SigIgn /proc/self/status"]
    process = started(spawn, "--no-rules", "-q", "--", *command, cwd=tmp_path, ignored=ignored)
    out, _ = process.communicate(timeout=60)
    # Signal 32 is the C library's own.
    assert int(out.split()[1], 16) & 0x7FFFFFFF == sum(1 << (number - 1) for number in ignored)


@pytest.mark.parametrize(("command", "code"), [("no-such-program-here", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_run(tmp_path: Path, command: str, code: int) -> None:
    policy(tmp_path, PASSES)
    done = envsnap("check", "--no-rules", "-q", "--", command, cwd=tmp_path)
    assert done.returncode == code
    assert done.stderr.startswith(f"envsnap: {command}: ")


def test_switched_off_it_starts_the_command_and_looks_at_nothing(tmp_path: Path) -> None:
    policy(tmp_path, FAILS)
    done = envsnap("check", "--", "echo", "started", cwd=tmp_path, env={"ENVSNAP_DISABLE": "1"})
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert "disabled by ENVSNAP_DISABLE=1" in done.stderr
    assert envsnap("check", cwd=tmp_path, env={"ENVSNAP_DISABLE": "1"}).returncode == 0


def test_interrupted_it_starts_nothing(spawn: Spawn, tmp_path: Path) -> None:
    policy(tmp_path, PASSES)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        process = started(
            spawn, "--wait", "60", "--for", f"vllm serve m --port {port}", "--", "echo", "up", cwd=tmp_path
        )
        assert process.stderr is not None
        assert f"port {port} is taken" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (128 + signal.SIGINT, "")


def test_it_waits_until_the_port_is_free(spawn: Spawn, tmp_path: Path) -> None:
    policy(tmp_path, PASSES)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = f"vllm serve m --port {port} --device cpu"
        process = started(spawn, "--wait", "120", "--for", command, "--format", "json", cwd=tmp_path)
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("envsnap: waiting up to ")
        assert line.endswith(f"port {port} is taken\n")
    out, _ = process.communicate(timeout=60)
    assert next(f for f in json.loads(out)["findings"] if f["code"] == "port_taken")["status"] == "pass"


def test_what_is_still_so_after_the_wait_fails(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        begun = time.monotonic()
        done = envsnap("check", "--wait", "1", "--for", f"vllm serve m --port {port} --device cpu", cwd=tmp_path)
        assert time.monotonic() - begun >= 1
    assert done.returncode == 1
    assert f"FAIL     high    port {port} is taken" in done.stdout


def test_variables_of_the_command_count(tmp_path: Path) -> None:
    command = "env CUDA_LAUNCH_BLOCKING=1 -u NCCL_P2P_DISABLE python train.py"
    done = envsnap("check", "--for", command, cwd=tmp_path, env={"NCCL_P2P_DISABLE": "1"})
    assert (done.returncode, "CUDA_LAUNCH_BLOCKING=1: every launch waits" in done.stdout) == (1, True)
    assert "NCCL_P2P_DISABLE" not in done.stdout


def test_a_stored_snapshot_is_checked_too(tmp_path: Path) -> None:
    write(snapshot({**gpus(2, pcie_width_lanes=(4, 16), max_pcie_width_lanes=16)}), tmp_path / "s.json")
    done = envsnap("check", "s.json", "--for", "vllm serve m -tp 2", "--format", "json", cwd=tmp_path)
    found = {f["code"]: f for f in json.loads(done.stdout)["findings"]}
    assert (done.returncode, found["link_width"]["status"]) == (1, "fail")
    assert found["link_width"]["evidence"] == ["gpu[0].pcie_width_lanes"]


def test_formats_go_to_a_file(tmp_path: Path) -> None:
    policy(tmp_path, FAILS)
    done = envsnap("check", "--no-rules", "--format", "junit", "-o", "out.xml", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    assert '<failure message="os.architecture is ' in (tmp_path / "out.xml").read_text()
    done = envsnap("check", "--no-rules", "--format", "github", cwd=tmp_path)
    assert done.stdout.startswith("::error title=envsnap policy.broken::os.architecture is ")


def test_the_policy_of_the_directory_is_the_default_and_another_can_be_named(tmp_path: Path) -> None:
    policy(tmp_path, FAILS)
    other = policy(tmp_path, PASSES, "other.toml")
    assert envsnap("check", "--no-rules", cwd=tmp_path).returncode == 1
    assert envsnap("check", "--no-rules", "--policy", other, cwd=tmp_path).returncode == 0
    assert envsnap("check", "--no-rules", "--policy", "", cwd=tmp_path).returncode == 0
    assert envsnap("check", "--policy", "none.toml", cwd=tmp_path).stderr == (
        "envsnap: none.toml cannot be read: No such file or directory. Try: envsnap policy --help\n"
    )


def test_profiles_need_a_policy_and_a_name_that_it_has(tmp_path: Path) -> None:
    assert "--profile needs a policy." in envsnap("check", "--profile", "x", cwd=tmp_path).stderr
    policy(tmp_path, PASSES)
    assert "has no profile x; it has none." in envsnap("check", "--profile", "x", cwd=tmp_path).stderr


def test_a_policy_beside_a_baseline_says_what_of_it_is_required(tmp_path: Path) -> None:
    envsnap("capture", "-o", "good.json", "--only", "os,kernel", "-q", cwd=tmp_path)
    document = json.loads((tmp_path / "good.json").read_text())
    document["sections"]["kernel"]["values"]["kernel.release"] = "6.1-other"
    (tmp_path / "good.json").write_text(json.dumps(document))
    file = policy(tmp_path, "[require]\n'os.libc' = { same_as_baseline = true }")
    options = ["--no-rules", "--policy", file]
    assert envsnap("check", *options, "--baseline", "good.json", cwd=tmp_path).returncode == 0
    assert envsnap("check", *options, cwd=tmp_path).returncode == 3
    assert envsnap("check", "--baseline", "good.json", cwd=tmp_path).returncode == 1


def test_explain_shows_what_a_rule_means(tmp_path: Path) -> None:
    done = envsnap("check", "--explain", "link_width", cwd=tmp_path)
    assert done.stdout.startswith("A GPU's PCIe link uses fewer lanes than GPU and slot have in common.\n\n")
    assert "It looks at gpu[].pcie_width_lanes, gpu[].max_pcie_width_lanes.\n" in done.stdout
    listed = envsnap("check", "--explain", cwd=tmp_path).stdout.splitlines()
    assert [line.split()[0] for line in listed] == list(codes())
    assert "did you mean link_width?" in envsnap("check", "--explain", "link_widht", cwd=tmp_path).stderr


def test_after_has_to_know_what_runs(tmp_path: Path) -> None:
    done = envsnap("check", "--after", cwd=tmp_path)
    assert (done.returncode, "--match RE, --pid N or --server URL" in done.stderr) == (2, True)
    done = envsnap("check", "--after", "--match", "no-such-program-anywhere", cwd=tmp_path)
    assert (done.returncode, "no process matches" in done.stdout) == (1, True)


LAUNCHER = """
import multiprocessing, os, sys, time
import setproctitle

def rank(number, lost):
    setproctitle.setproctitle(f"sglang::scheduler_TP{number}")
    if number == lost:
        del os.environ["NCCL_PROTO"]
    os.write(1, b"ready\\n")
    time.sleep(600)

if __name__ == "__main__":
    lost = int(sys.argv[-1])
    ranks = [multiprocessing.get_context("spawn").Process(target=rank, args=(n, lost), daemon=True) for n in (0, 1)]
    for each in ranks:
        each.start()
    time.sleep(600)
"""


@pytest.mark.parametrize(("lost", "code"), [(1, 1), (9, 0)])
def test_after_a_start_a_variable_that_did_not_reach_rank_1_is_found(tmp_path: Path, lost: int, code: int) -> None:
    pytest.importorskip("setproctitle")
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "launch_server.py").write_text(LAUNCHER)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "NCCL_PROTO": "LL"}
    command = [PYTHON, "-m", "sglang.launch_server", "--tp", "2", "--lost", str(lost)]
    with running(command, env, cwd=tmp_path) as server:
        assert server.stdout is not None
        assert [server.stdout.readline() for _ in (0, 1)] == ["ready\n"] * 2
        done = envsnap("check", "--after", "--pid", server.pid, "--format", "json", cwd=tmp_path)
    found = {f["code"]: f for f in json.loads(done.stdout)["findings"] if f["status"] in ("fail", "unknown")}
    if any("denied" in f["title"] for f in found.values()):
        pytest.skip("other processes cannot be looked into here")
    assert done.returncode == code, found
    assert set(found) == ({"variables_arrived", "ranks_alike"} if code else set())
    if code:
        assert found["variables_arrived"]["title"].endswith("did not reach scheduler_TP1")
        assert found["ranks_alike"]["evidence"][0].endswith(".env[NCCL_PROTO]")


def hanging(folder: Path, call: str) -> dict[str, str]:
    """An environment in which the GPU driver answers by doing something else."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(
        f"import ctypes, time\nfrom envsnap import machine\nmachine.OPERATIONS['nvml'] = lambda *a: {call}\n"
    )
    return {"PYTHONPATH": f"{folder / 'site'}:{os.environ.get('PYTHONPATH', '')}"}


def test_a_driver_that_hangs_is_unknown_and_starts_nothing(tmp_path: Path) -> None:
    env = hanging(tmp_path, "time.sleep(1000)")
    done = envsnap("check", "--deadline", "1", "--", "echo", "started", cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (3, "")
    assert "gpu: timeout: did not finish within 1.0 s" in done.stderr


def test_a_driver_that_freezes_the_check_is_trouble(tmp_path: Path) -> None:
    env = hanging(tmp_path, "ctypes.PyDLL(None).sleep(1000)")  # keeps the interpreter's lock
    options = ["check", "--deadline", "0.2"]
    done = envsnap(*options, "--", "echo", "started", cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (2, "")
    assert "a driver or a file system hangs" in done.stderr
    done = envsnap(*options, "--fail-open", "--", "echo", "started", cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (0, "started\n")


@pytest.mark.parametrize("unclosed", ["python 'x", 'a "b'])
def test_a_command_that_cannot_be_taken_apart(tmp_path: Path, unclosed: str) -> None:
    done = envsnap("check", "--for", unclosed, cwd=tmp_path)
    assert (done.returncode, "cannot be taken apart: No closing quotation." in done.stderr) == (2, True)


# -- envsnap policy --------------------------------------------------------------------------------------------------


def test_a_policy_from_this_machine_passes_here(tmp_path: Path) -> None:
    envsnap("capture", "-o", "a.json", "-q", "--only", "cpu,os,numa,inherited,memory", cwd=tmp_path)
    envsnap("capture", "-o", "b.json", "-q", "--only", "cpu,os,numa,inherited,memory", cwd=tmp_path)
    done = envsnap("policy", "from", "a.json", "b.json", "-o", "envsnap.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout, "requirements  →  envsnap.toml" in done.stderr) == (0, "", True)
    checked: Done = envsnap("check", "--no-rules", cwd=tmp_path)
    assert (checked.returncode, checked.stdout.splitlines()[-1]) == (0, "pass")
    assert envsnap("check", "a.json", "--no-rules", cwd=tmp_path).returncode == 0


def test_a_policy_overwrites_nothing(tmp_path: Path) -> None:
    write(snapshot({"cpu.model": "x"}), tmp_path / "a.json")
    policy(tmp_path, "mine")
    done = envsnap("policy", "from", "a.json", "-o", "envsnap.toml", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "envsnap.toml").read_text()) == (2, "mine")
    assert load(tmp_path / "a.json").values == {"cpu.model": "x"}


def test_a_policy_is_looked_over_without_a_machine(tmp_path: Path) -> None:
    good, bad = policy(tmp_path, PASSES, "good.toml"), policy(tmp_path, BROKEN, "bad.toml")
    assert envsnap("policy", "check", good, cwd=tmp_path).stdout == f"{good}: 1 requirement\n"
    done = envsnap("policy", "check", good, bad, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "envsnap: 1 policy cannot be used.\n")
    assert "os.architecure is no key that envsnap reads; did you mean os.architecture?" in done.stdout
