"""Every file in examples/ is run, or checked as far as it can be here; one without a test fails, by its name.

What a test finds for a script is made as the script would find it: `envsnap` and `python3` on PATH, a folder of its
own, a policy that holds or does not.
"""

from __future__ import annotations

import configparser
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from envsnap.snapshot import load
from tests.processes import Spawn

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted(path for path in EXAMPLES.iterdir() if path.is_file())
SCRIPTS = [path for path in FILES if path.suffix == ".sh"]

VIOLATED = 'version = 1\n[require]\n"kernel.release" = "none"\n'
UNREADABLE = "version = 1\n[require\n"
TOY_SERVER = """
import os, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments):
        pass

port = int(sys.argv[sys.argv.index("--port") + 1])
with open("started", "w") as file:
    file.write(os.environ.get("ENVSNAP_RECORD", "none"))
HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""

Done = subprocess.CompletedProcess[str]


class Place:
    """A folder to run examples in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.program("envsnap", f'exec {shlex.quote(sys.executable)} -m envsnap "$@"')
        self.program("python3", f'exec {shlex.quote(sys.executable)} "$@"')
        (folder / "server.py").write_text(TOY_SERVER)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ENVSNAP_")}
        self.environment = {**kept, "PATH": f"{self.bin}:/usr/bin:/bin", "ENVSNAP_BIN": str(self.bin)}

    def program(self, name: str, line: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{line}\n")
        (self.bin / name).chmod(0o755)

    def policy(self, text: str) -> Path:
        (self.folder / "envsnap.toml").write_text(text)
        return self.folder / "envsnap.toml"

    def run(self, name: str, *arguments: object, **variables: object) -> Done:
        return subprocess.run(
            [str(EXAMPLES / name), *map(str, arguments)],
            cwd=self.folder,
            env={**self.environment, **{k: str(v) for k, v in variables.items()}},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def there(self, name: str) -> bool:
        return (self.folder / name).exists()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
    return number


# -- all of them ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_law_an_example_has_a_test_and_says_what_it_tests(path: Path) -> None:
    name = path.stem.replace("-", "_")
    assert [test for test in globals() if test.startswith(f"test_{name}_")], f"no test of {path.name} here"
    head = path.read_text()[:1200]
    assert "Tested: " in head, f"{path.name} does not say what was tested"
    assert "ENVSNAP_DISABLE" in head, f"{path.name} does not say how it is switched off"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_law_a_script_can_be_run_and_has_no_errors_of_syntax(path: Path) -> None:
    assert os.access(path, os.X_OK)
    shell = "bash" if "bash" in path.read_text().split("\n")[0] else "sh"
    subprocess.run([shell, "-n", str(path)], check=True)
    if checker := shutil.which("shellcheck"):
        done = subprocess.run([checker, str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


# -- launch.sh -----------------------------------------------------------------------------------------------------


def _launch(place: Place, port: int, server: str = "server.py", **variables: object) -> Done:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    settings: dict[str, Any] = {"READY_URL": f"http://127.0.0.1:{port}/health", "WAIT_SECONDS": 0, "POLL_SECONDS": 0.2}
    settings |= {"BENCHMARK": "echo measured", **variables}
    return place.run("launch.sh", "python3", server, "--port", port, **settings)


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) != 0


def test_launch_checks_records_starts_and_measures(place: Place, port: int) -> None:
    done = _launch(place, port)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.endswith("measured\n")
    before = load(place.folder / ".envsnap" / "before.json.gz")
    assert before.moment == "before"
    assert (place.folder / "started").read_text() == str(place.folder / ".envsnap" / "records")
    assert _is_free(port), "the server was left behind"


def test_launch_stops_where_the_port_is_taken(place: Place) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        done = _launch(place, holder.getsockname()[1])
    assert done.returncode == 1
    assert "[port_taken]" in done.stdout
    assert not place.there("started")


def test_launch_tells_of_a_server_that_died(place: Place, port: int) -> None:
    (place.folder / "dies.py").write_text("raise SystemExit(3)\n")
    done = _launch(place, port, server="dies.py")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1, "launch.sh: the server ended before it was ready",
    )  # fmt: skip
    assert "measured" not in done.stdout


def test_launch_gives_up_on_a_server_that_is_never_ready(place: Place, port: int) -> None:
    done = _launch(place, port, READY_URL="http://127.0.0.1:9/", READY_SECONDS=1)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "launch.sh: the server was not ready in time")
    assert _is_free(port), "the server was left behind"


def test_launch_disabled_only_launches(place: Place, port: int) -> None:
    place.policy(VIOLATED)
    done = _launch(place, port, ENVSNAP_DISABLE=1)
    assert (done.returncode, done.stdout) == (0, "measured\n")
    assert (place.folder / "started").read_text() == "none"
    assert not place.there(".envsnap/before.json.gz")


def test_launch_ends_the_server_when_it_is_interrupted(spawn: Spawn, place: Place, port: int) -> None:
    environment = {**place.environment, "READY_URL": f"http://127.0.0.1:{port}/", "WAIT_SECONDS": "0"}
    environment |= {"POLL_SECONDS": "0.2", "ENVSNAP_DISABLE": "1"}
    command = [str(EXAMPLES / "launch.sh"), "python3", "server.py", "--port", str(port)]
    process = spawn(command, cwd=place.folder, env=environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while _is_free(port) and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    until = time.monotonic() + 10
    while not _is_free(port) and time.monotonic() < until:
        time.sleep(0.1)
    assert _is_free(port)


# -- Slurm ---------------------------------------------------------------------------------------------------------


def _slurm(place: Place, name: str, **variables: object) -> Done:
    paths = {"ENVSNAP_SPOOL": place.folder / "spool", "ENVSNAP_POLICY": place.folder / "envsnap.toml"}
    return place.run(name, **{"SLURM_JOB_ID": 7, **paths, **variables})


def test_slurm_prolog_records_a_clean_node(place: Place) -> None:
    done = _slurm(place, "slurm-prolog.sh")
    assert done.returncode == 0, done.stderr
    assert load(place.folder / "spool/7/before.json.gz").moment == "before"
    assert (place.folder / "spool/7/check.txt").read_text().splitlines()[-1].startswith("pass")


def test_slurm_prolog_drains_a_node_that_fails(place: Place) -> None:
    place.policy(VIOLATED)
    done = _slurm(place, "slurm-prolog.sh")
    assert done.returncode == 1
    assert done.stderr.startswith("FAIL")
    assert "kernel.release" in done.stderr


@pytest.mark.parametrize("trouble", ["a policy that cannot be read", "no envsnap"])
def test_slurm_prolog_keeps_the_node_where_envsnap_has_trouble(place: Place, trouble: str) -> None:
    if trouble == "no envsnap":
        (place.bin / "envsnap").unlink()
    else:
        place.policy(UNREADABLE)
    assert _slurm(place, "slurm-prolog.sh").returncode == 0


def test_slurm_prolog_and_epilog_disabled_do_nothing(place: Place) -> None:
    place.policy(VIOLATED)
    for name in ("slurm-prolog.sh", "slurm-epilog.sh"):
        done = _slurm(place, name, ENVSNAP_DISABLE=1)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not place.there("spool")


def test_slurm_epilog_says_what_the_job_changed(place: Place) -> None:
    _slurm(place, "slurm-prolog.sh", NCCL_PROTO="LL")
    done = _slurm(place, "slurm-epilog.sh", NCCL_PROTO="Simple")
    assert done.returncode == 0, done.stderr
    assert "env[NCCL_PROTO]" in (place.folder / "spool/7/changed.txt").read_text()
    assert load(place.folder / "spool/7/after.json.gz").moment == "after"


def test_slurm_epilog_drains_a_node_that_fails_also_without_a_record_of_the_start(place: Place) -> None:
    place.policy(VIOLATED)
    done = _slurm(place, "slurm-epilog.sh")
    assert done.returncode == 1
    assert "kernel.release" in done.stderr
    assert not place.there("spool/7/changed.txt")


# -- Docker ---------------------------------------------------------------------------------------------------------

TELL = ("python3", "-c", "import os; print(os.getpid(), os.environ.get('ENVSNAP_RECORD'))")


def test_docker_entrypoint_becomes_the_server(spawn: Spawn, place: Place) -> None:
    command = [str(EXAMPLES / "docker-entrypoint.sh"), *TELL]
    environment = {**place.environment, "ENVSNAP_WAIT": "0", "ENVSNAP_RECORDS": str(place.folder / "records")}
    process = spawn(command, cwd=place.folder, env=environment, stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=120)
    assert out == f"{process.pid} {place.folder / 'records'}\n"
    assert place.there("records")


def test_docker_entrypoint_stops_a_container_that_is_not_fit(place: Place) -> None:
    policy = place.policy(VIOLATED)
    done = place.run("docker-entrypoint.sh", *TELL, ENVSNAP_WAIT=0, ENVSNAP_POLICY=policy)
    assert (done.returncode, done.stdout) == (1, "")
    assert "kernel.release" in done.stderr


def test_docker_entrypoint_starts_in_spite_of_trouble(place: Place) -> None:
    done = place.run("docker-entrypoint.sh", "echo", "up", ENVSNAP_WAIT=0, ENVSNAP_POLICY=place.policy(UNREADABLE))
    assert (done.returncode, done.stdout) == (0, "up\n")


def test_docker_entrypoint_disabled_only_starts(place: Place) -> None:
    policy = place.policy(VIOLATED)
    records = place.folder / "records"
    done = place.run("docker-entrypoint.sh", *TELL, ENVSNAP_DISABLE=1, ENVSNAP_POLICY=policy, ENVSNAP_RECORDS=records)
    assert done.returncode == 0
    assert done.stdout.endswith(" None\n")
    assert not records.exists()


def test_docker_entrypoint_wants_a_command(place: Place) -> None:
    assert place.run("docker-entrypoint.sh").returncode == 64


# -- ci-gate.sh ----------------------------------------------------------------------------------------------------


def _as_if_it_had_taken(place: Place, times: float) -> None:
    """Have the stored probe of the CPU be so many times slower: more than whatever else is at work here can make."""
    file = place.folder / "good/probe.json"
    stored = json.loads(file.read_text())
    for figure in stored["figures"]:
        figure["values"] = [value * times for value in figure["values"]]
    file.write_text(json.dumps(stored))


def test_ci_gate_fills_the_folder_then_lets_the_same_machine_pass(place: Place) -> None:
    for _ in range(2):
        done = place.run("ci-gate.sh", "good", "sh", "-c", "echo measured; exit 5", PROBES="cpu", SECTIONS="kernel")
        assert done.returncode == 5, done.stdout + done.stderr
        assert done.stdout.endswith("measured\n")
        _as_if_it_had_taken(place, 100)
    assert "BETTER   cpu.single_thread_milliseconds" in done.stdout
    assert set(load(place.folder / "good/state.json").sections) == {"kernel"}


def test_ci_gate_refuses_another_state(place: Place) -> None:
    place.run("ci-gate.sh", "good", "true", PROBES="cpu", SECTIONS="environ", NCCL_PROTO="LL")
    done = place.run("ci-gate.sh", "good", "echo", "measured", PROBES="cpu", SECTIONS="environ", NCCL_PROTO="Simple")
    assert done.returncode == 1
    assert "env[NCCL_PROTO]" in done.stdout
    assert "measured" not in done.stdout


def test_ci_gate_refuses_a_slower_machine(place: Place) -> None:
    place.run("ci-gate.sh", "good", "true", PROBES="cpu", SECTIONS="kernel")
    _as_if_it_had_taken(place, 0.01)
    done = place.run("ci-gate.sh", "good", "echo", "measured", PROBES="cpu", SECTIONS="kernel")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "WORSE    cpu.single_thread_milliseconds" in done.stdout
    assert "measured" not in done.stdout


def test_ci_gate_disabled_only_runs_the_benchmark(place: Place) -> None:
    done = place.run("ci-gate.sh", "good", "echo", "measured", ENVSNAP_DISABLE=1)
    assert (done.returncode, done.stdout) == (0, "measured\n")
    assert not place.there("good")


# -- systemd --------------------------------------------------------------------------------------------------------


def _unit() -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(strict=True, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read(EXAMPLES / "envsnap-check.service")
    return parsed


def test_envsnap_check_unit_holds_the_server_back() -> None:
    unit = _unit()
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    assert unit["Unit"]["Before"] == unit["Install"]["RequiredBy"] == "sglang.service"
    assert (unit["Service"]["Type"], unit["Service"]["RemainAfterExit"]) == ("oneshot", "yes")
    assert unit["Service"]["SuccessExitStatus"] == "2"


def test_envsnap_check_unit_is_understood_by_systemd() -> None:
    if not (verifier := shutil.which("systemd-analyze")):
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(
        [verifier, "verify", str(EXAMPLES / "envsnap-check.service")], capture_output=True, text=True, check=False
    )
    ours = [line for line in done.stderr.splitlines() if "envsnap-check.service" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


@pytest.mark.parametrize(("policy", "disable", "code"), [("", "0", 0), (VIOLATED, "0", 1), (VIOLATED, "1", 0)])
def test_envsnap_check_unit_s_command(place: Place, policy: str, disable: str, code: int) -> None:
    if policy:
        place.policy(policy)
    command = shlex.split(_unit()["Service"]["ExecStart"])
    environment = {**place.environment, "ENVSNAP_DISABLE": disable}
    done = subprocess.run(command, cwd=place.folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr


# -- Kubernetes, GitHub ------------------------------------------------------------------------------------------------


def _pod() -> Any:
    return yaml.safe_load((EXAMPLES / "kubernetes-init-container.yaml").read_text())


def test_kubernetes_init_container_sees_what_the_server_gets() -> None:
    pod = _pod()
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    (check,), (server,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
    for shared in ("image", "env", "resources", "volumeMounts"):
        assert check[shared] == server[shared], shared
    assert check["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert {m["name"] for m in check["volumeMounts"]} == {v["name"] for v in pod["spec"]["volumes"]}
    variables = {variable["name"]: variable["value"] for variable in check["env"]}
    assert all(isinstance(value, str) for value in variables.values()), "Kubernetes takes strings alone"
    assert variables["ENVSNAP_RECORD"] in {m["mountPath"] for m in check["volumeMounts"]}
    policy = check["command"][check["command"].index("--policy") + 1]
    assert os.path.dirname(policy) in {m["mountPath"] for m in check["volumeMounts"]}


@pytest.mark.parametrize(("disable", "code"), [("0", 1), ("1", 0)])
def test_kubernetes_init_container_s_command(place: Place, disable: str, code: int) -> None:
    (container,) = _pod()["spec"]["initContainers"]
    variables = {v["name"]: v["value"] for v in container["env"]} | {"ENVSNAP_DISABLE": disable}
    here = {"$(SERVER_COMMAND)": variables["SERVER_COMMAND"]}
    here["/etc/envsnap/envsnap.toml"] = str(place.policy(VIOLATED))
    command = [here.get(word, word) for word in container["command"]]
    environment = {**place.environment, **variables}
    done = subprocess.run(command, cwd=place.folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("kernel.release" in done.stdout) is (code == 1)


def _job() -> Any:
    workflow = yaml.safe_load((EXAMPLES / "github-actions.yml").read_text())
    assert workflow[True] == ["pull_request"]  # YAML 1.1 reads `on` as a truth value, GitHub does not
    (job,) = workflow["jobs"].values()
    return job


def _steps(place: Place, **variables: str) -> tuple[list[int], str]:
    """The codes of the steps that call envsnap, as far as one that fails lets them run, and what they print."""
    codes: list[int] = []
    printed = ""
    environment = {**place.environment, "BENCHMARK": "python3 decode.py", "GITHUB_SHA": "abc", **variables}
    for step in _job()["steps"]:
        if "envsnap " in step.get("run", "") and not any(codes):
            line = step["run"].replace("--wait 120", "--wait 0")
            done = subprocess.run(
                ["bash", "-e", "-c", line],
                cwd=place.folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            codes.append(done.returncode)
            printed += done.stdout
    return codes, printed


BENCHMARK = f"""
import shutil
shutil.copy({str(Path(__file__).parent / "data/benchmarks/sglang_serving.jsonl")!r}, "figures.jsonl")
print("measured")
"""


def test_github_actions_has_what_github_needs() -> None:
    job = _job()
    assert "gpu" in job["runs-on"]
    assert job["timeout-minutes"] <= 60
    assert all(("uses" in step) is not ("run" in step) for step in job["steps"])
    upload = job["steps"][-1]
    assert (upload["if"], upload["with"]["path"]) == ("always()", ".envsnap")


def test_github_actions_steps_measure_on_a_fit_machine(place: Place) -> None:
    (place.folder / "decode.py").write_text(BENCHMARK)
    codes, printed = _steps(place)
    assert codes == [0, 0], printed
    assert printed.count("measured") == 3
    assert place.there(".envsnap")


def test_github_actions_steps_annotate_and_stop(place: Place) -> None:
    place.policy(VIOLATED)
    codes, printed = _steps(place)
    assert codes == [1]
    assert "::error" in printed


def test_github_actions_steps_disabled_only_measure(place: Place) -> None:
    (place.folder / "decode.py").write_text(BENCHMARK)
    place.policy(VIOLATED)
    assert _steps(place, ENVSNAP_DISABLE="1") == ([0, 0], "measured\n")
    assert not place.there(".envsnap")


# -- Python -----------------------------------------------------------------------------------------------------------


def _pytest(place: Place, **variables: str) -> Done:
    shutil.copy(EXAMPLES / "pytest_fixture.py", place.folder)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "pytest_fixture.py"]
    environment = {**place.environment, **variables}
    return subprocess.run(command, cwd=place.folder, env=environment, capture_output=True, text=True, check=False)


def test_pytest_fixture_lets_benchmarks_run(place: Place) -> None:
    done = _pytest(place)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_pytest_fixture_refuses_with_the_reasons(place: Place) -> None:
    place.policy(VIOLATED)
    done = _pytest(place)
    assert done.returncode == 1
    assert "1 error" in done.stdout
    assert "kernel.release" in done.stdout


def test_pytest_fixture_does_not_guess(place: Place) -> None:
    place.policy(UNREADABLE)
    done = _pytest(place)
    assert "1 error" in done.stdout
    assert "Whether this machine is fit is not known" in done.stdout


def test_pytest_fixture_disabled_lets_everything_run(place: Place) -> None:
    place.policy(VIOLATED)
    assert "1 passed" in _pytest(place, ENVSNAP_DISABLE="1").stdout


def _library(place: Place, *arguments: str, **variables: str) -> Done:
    command = [sys.executable, str(EXAMPLES / "library.py"), *arguments]
    environment = {**place.environment, **variables}
    return subprocess.run(command, cwd=place.folder, env=environment, capture_output=True, text=True, check=False)


def test_library_records_compares_and_checks(place: Place) -> None:
    alone = _library(place)
    assert (alone.returncode, alone.stderr) == (0, "")
    first, second = alone.stdout.splitlines()
    assert first.startswith("env[NCCL_PROTO]: ")
    assert second.startswith("Linux ")
    again = _library(place, "before.json")
    assert again.returncode == 0, again.stdout
    other = _library(place, "before.json", NCCL_ALGO="Tree")
    assert other.returncode == 1
    assert "not as it was: env[NCCL_ALGO]" in other.stdout


def test_library_disabled_reads_nothing(place: Place) -> None:
    done = _library(place, ENVSNAP_DISABLE="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not place.there("before.json")
