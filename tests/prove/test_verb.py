"""`envsnap prove` on real processes: a server that obeys variables and arguments, a repository, accidents."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envsnap.schema import violations
from tests.processes import Spawn

PROGRAMS = Path(__file__).parent / "programs"
METRIC = r"speed[tok/s]=speed: (\S+)"
FAST = {f"KNOB_{i}": "1" for i in range(9)}
SLOW = {f"KNOB_{i}": "2" for i in range(8)}  # KNOB_8 is gone


class Place:
    """A folder with a store, a repository that the engine imports from, and two recorded sides of 12 changed states."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.engine = f"{sys.executable} {PROGRAMS / 'engine.py'} --port {port}"
        self.bench = [sys.executable, str(PROGRAMS / "bench.py"), str(port)]
        paths = [str(folder / "repo"), *filter(None, [os.environ.get("PYTHONPATH")])]
        # NOTE: the machine's lock lies in the folder for temporary files, and tests may run side by side.
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(folder)}

    def git(self, *arguments: str) -> str:
        command = [
            "git",
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@localhost",
            "-C",
            str(self.folder / "repo"),
            *arguments,
        ]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def rules(self, **rules: object) -> None:
        (self.folder / "rules.json").write_text(json.dumps({k.replace("__", "--"): v for k, v in rules.items()}))

    def record(self, label: str, variables: dict[str, str], options: str) -> None:
        command = ["run", "--label", label, "-n", "2", "--metric", METRIC, "--server", f"{self.engine} {options}"]
        ready = ["--ready", f"http://127.0.0.1:{self.port}/health"]
        self.call(*command, *ready, "--", *self.bench, environment=variables)

    def call(self, *arguments: str, code: int = 0, environment: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "envsnap", *arguments], cwd=self.folder, capture_output=True, text=True, timeout=300,
            env={**self.environment, **(environment or {})},
        )  # fmt: skip
        assert done.returncode == code, done.stderr[-3000:] + done.stdout
        return done.stdout

    def told(self, *arguments: str) -> str:
        """What a call that ends in trouble says."""
        done = subprocess.run(
            [sys.executable, "-m", "envsnap", *arguments], cwd=self.folder, capture_output=True, text=True, timeout=300,
            env=self.environment,
        )  # fmt: skip
        assert done.returncode == 2, done.stdout
        return done.stderr

    def answers(self) -> bool:
        """Whether an engine is up."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def command(self, *options: str) -> list[str]:
        server = ["--server", f"{self.engine} --graphs off --threads 8", "--metric", METRIC]
        return ["prove", "fast", "slow", *options, *server, "--", *self.bench]

    def prove(self, *options: str, code: int = 0) -> Any:
        return json.loads(self.call(*self.command(*options, "--format", "json"), code=code))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Place:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    place = Place(tmp_path_factory.mktemp("prove"), port)
    repo = place.folder / "repo"
    repo.mkdir()
    place.git("init", "-q")
    space = "\n" * 8
    (repo / "delay.py").write_text(f"A = 1\n{space}FACTOR = 1.0\n{space}B = 1\n")
    (repo / "other.py").write_text("OTHER = 1\n")
    place.commit("An engine's part")
    place.rules(KNOB_3=["2", 1.5])
    place.record("fast", FAST, "--graphs on --threads 4")
    (repo / "other.py").write_text("OTHER = 2\n")
    place.commit("Another number")
    read = "import json\n\nFACTOR = json.load(open('rules.json')).get('commit', 1.0)\n"
    (repo / "delay.py").write_text(f"A = 2\n{space}{read}{space}B = 2\n")
    place.commit("Read the factor")
    (repo / "new.py").write_text("NEW = 1\n")
    place.commit("Something new")
    late = "FACTOR *= json.load(open('rules.json')).get('dirty', 1.0)\n"
    (repo / "delay.py").write_text(f"A = 2\n{space}{read}{late}{space}B = 2\n")
    place.record("slow", SLOW, "--graphs off --threads 8")
    return place


@pytest.fixture
def place(recorded: Place) -> Iterator[Place]:
    """The recorded sides, and no search of them yet; afterwards no engine is left running."""
    shutil.rmtree(recorded.folder / ".envsnap" / "prove", ignore_errors=True)
    yield recorded
    left = subprocess.run(["pgrep", "-f", f"engine.py --port {recorded.port}"], capture_output=True, text=True)
    assert left.stdout == ""


def found(proof: Any) -> set[str]:
    return {c["suspect"] for c in proof["culprits"]}


def test_one_variable_of_twelve_states_is_found_and_the_tree_is_left_as_it_is(place: Place) -> None:
    place.rules(KNOB_3=["2", 1.5])
    before = place.git("status", "--porcelain"), place.git("rev-parse", "HEAD"), place.git("stash", "list")
    proof = place.prove()
    assert proof["outcome"] == "confirmed"
    assert found(proof) == {"env:KNOB_3"}
    assert len(proof["suspects"]) == 12
    assert violations(proof) == []
    assert {s["status"] for s in proof["suspects"]} == {"culprit", "ruled_out"}
    assert 1.4 < proof["culprits"][0]["ratio"] < 1.6
    assert len(proof["trials"]) <= 16
    assert (place.git("status", "--porcelain"), place.git("rev-parse", "HEAD"), place.git("stash", "list")) == before
    count = len(proof["trials"])
    assert len(place.prove()["trials"]) == count, "a search that is over is told again, not run again"


def test_an_argument_and_a_variable_are_both_found(place: Place) -> None:
    place.rules(__graphs=["off", 1.5], KNOB_5=["2", 1.35])
    proof = place.prove()
    assert found(proof) == {"argument:cuda_graph", "env:KNOB_5"} or found(proof) == {"argument:graphs", "env:KNOB_5"}


def test_a_commit_is_found_with_the_hunk_of_it_that_matters(place: Place) -> None:
    place.rules(commit=1.5)
    before = place.git("status", "--porcelain"), place.git("rev-parse", "HEAD"), place.git("worktree", "list")
    proof = place.prove()
    assert found(proof) == {"git:repo"}
    commits, hunks = proof["parts"]
    assert [c["title"].partition(" (")[2] for c in commits["culprits"]] == ["Read the factor)"]
    assert {s["title"].partition(" (")[2] or s["title"] for s in commits["suspects"]} == {
        "Another number)", "Read the factor)", "Something new)", "uncommitted changes",
    }  # fmt: skip
    (hunk,) = hunks["culprits"]
    assert hunk["title"] == "delay.py:10"
    assert 1.4 < hunk["ratio"] < 1.6
    assert len(hunks["suspects"]) == 3
    assert violations(proof) == []
    assert len(proof["trials"]) <= 24
    assert (place.git("status", "--porcelain"), place.git("rev-parse", "HEAD"), place.git("worktree", "list")) == before
    assert not list((place.folder / ".envsnap" / "prove").glob("*/code")), "no tree of a trial is left"
    text = place.call(*place.command())
    assert text.startswith("Confirmed by experiment: code of repo: commit ")
    assert "delay.py:10" in text.splitlines()[0]


def test_what_was_not_committed_is_found(place: Place) -> None:
    place.rules(dirty=1.5)
    proof = place.prove()
    assert found(proof) == {"git:repo"}
    assert [c["title"] for c in proof["parts"][0]["culprits"]] == ["uncommitted changes"]
    assert [c["title"] for c in proof["parts"][1]["culprits"]] == ["delay.py:13"]


def test_a_gap_that_does_not_come_back(place: Place) -> None:
    place.rules()
    proof = place.prove(code=1)
    assert proof["outcome"] == "not_reproducible"
    assert len(proof["trials"]) == 4


def test_a_state_in_which_the_server_does_not_start_is_worked_around(place: Place) -> None:
    place.rules(KNOB_3=["2", 1.5], broken="KNOB_8=")
    assert found(place.prove()) == {"env:KNOB_3"}


def test_a_lever_without_effect_is_reported_and_left_out(place: Place) -> None:
    place.rules(KNOB_3=["2", 1.5], pinned="KNOB_6=2")
    proof = place.prove()
    assert found(proof) == {"env:KNOB_3"}
    (lost,) = [s for s in proof["suspects"] if s["status"] == "without_effect"]
    assert lost["suspect"] == "env:KNOB_6"
    assert "has KNOB_6=2 instead of 1" in lost["reason"]
    assert proof["trials"][0]["status"] == "without_effect" or proof["trials"][1]["status"] == "without_effect"


def test_a_benchmark_that_always_fails_is_trouble(place: Place) -> None:
    place.rules(KNOB_3=["2", 1.5])
    before = place.command()[: place.command().index("--")]
    proof = json.loads(place.call(*before, "--format", "json", "--", "false", code=2))
    assert proof["outcome"] == "failing"
    assert len(proof["trials"]) <= 6
    text = place.call(*before, "--", "false", code=2)
    assert "No measurement: it fails when everything is as on the" in text
    assert "ended with exit code 1" in text


def test_one_suspect_alone_as_explain_spells_it(place: Place) -> None:
    place.rules(KNOB_3=["2", 1.5])
    told = json.loads(place.call("explain", "fast", "slow", "--all", "--format", "json", code=1))
    nexts = [s["next"][0] for s in told["suspects"] if s["next"] and "--only" in s["next"][0]]
    spelled = next(n for n in nexts if n[n.index("--only") + 1] == "env:KNOB_2")
    at = spelled.index("--")
    proof = json.loads(place.call(*spelled[1:at], "--metric", METRIC, "--format", "json", *spelled[at:], code=1))
    assert proof["outcome"] == "none"


def done(place: Place) -> list[str]:
    """The runs that the journal holds."""
    found_ = (place.folder / ".envsnap" / "prove").glob("*.json")
    return [r["run"] for p in found_ for r in json.loads(p.read_text())["records"]]


def at_work(spawn: Spawn, place: Place, count: int, **streams: Any) -> subprocess.Popen[bytes]:
    """A search that has done so many runs, and whose next one has its server up."""
    process = spawn(
        [sys.executable, "-m", "envsnap", *place.command()], cwd=place.folder, env=place.environment, **streams
    )
    for _ in range(6000):
        if len(done(place)) >= count and place.answers():
            break
        assert process.poll() is None
        time.sleep(0.02)
    return process


def test_a_killed_search_is_cleaned_up_after_and_goes_on_where_it_stopped(spawn: Spawn, place: Place) -> None:
    place.rules(KNOB_3=["2", 1.5])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = at_work(spawn, place, 3, **quiet)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = done(place)
    # What the dead one leaves besides its server: folders for the trial, and what its engine put into shared memory.
    (folder,) = [p for p in (place.folder / ".envsnap" / "prove").iterdir() if p.is_dir()]
    (folder / "code" / "tree").mkdir(parents=True)
    shm = Path("/dev/shm")
    left = shm / f"sglang_loads_{os.getpid()}_test.shm"
    if os.access(shm, os.W_OK):
        left.write_text("left")
    try:
        proof = json.loads(place.call("prove", "--continue", "last", "--format", "json"))
        assert not left.exists()
    finally:
        left.unlink(missing_ok=True)
    assert found(proof) == {"env:KNOB_3"}
    assert [t["run"] for t in proof["trials"]][: len(before)] == before
    assert not (folder / "code").exists()
    place.record("fast", FAST, "--graphs on --threads 4")  # a label that has grown since is still the same search
    assert json.loads(place.call("prove", "--continue", proof["id"], "--format", "json")) == proof


def test_ctrl_c_leaves_nothing_behind_and_says_how_to_go_on(spawn: Spawn, place: Place) -> None:
    place.rules(KNOB_3=["2", 1.5])
    process = at_work(spawn, place, 1, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    (folder,) = [p for p in (place.folder / ".envsnap" / "prove").iterdir() if p.is_dir()]
    assert f"prove --continue {folder.name}".encode() in err
    assert not place.answers()


def test_a_search_that_is_not_there_cannot_be_continued(place: Place) -> None:
    assert "no search to continue" in place.told("prove", "--continue", "last")
    assert "takes FAST, SLOW and the benchmark from the search" in place.told("prove", "fast", "--continue", "last")
    assert "two sides" in place.told("prove", "fast")
    place.call(*place.command("--budget", "1"), code=3)
    assert "There is no search 'nonsense'" in place.told("prove", "--continue", "nonsense")
    secret = [*place.command("--again", "--budget", "1"), "--api-key", "hunter2hunter2"]
    place.call(*secret, code=3)
    assert "held a secret" in place.told("prove", "--continue", "last")


def test_a_journal_that_does_not_say_what_was_asked_is_refused(place: Place) -> None:
    place.call(*place.command("--budget", "1"), code=3)
    (path,) = (place.folder / ".envsnap" / "prove").glob("*.json")
    document = json.loads(path.read_text())
    about = document["about"]
    for broken in (
        {**about, "asked": {"fast": "fast"}},
        {**about, "asked": {**about["asked"], "folder": 3}},
        {**about, "fast": None},
    ):
        path.write_text(json.dumps({**document, "about": broken}))
        assert "does not say what it was asked for" in place.told("prove", "--continue", "last")


def test_the_budget_and_the_plans(place: Place) -> None:
    place.rules(KNOB_3=["2", 1.5])
    plan = place.call(*place.command("--dry-run"))
    assert "About" in plan
    assert "KNOB_8=1" in plan
    script = place.folder / "plan.sh"
    place.call(*place.command("--script", str(script)))
    assert subprocess.run(["sh", "-n", str(script)]).returncode == 0
    told = place.call(*place.command("--dry-run"), "--api-key", "hunter2hunter2")
    assert "--api-key" in told
    assert "hunter2hunter2" not in told
    assert "only env:KNOB_3 as fast" in script.read_text()
    proof = place.prove("--budget", "5", code=3)
    assert (proof["outcome"], len(proof["trials"])) == ("budget", 5)
    proof = place.prove("--budget", "30")
    assert found(proof) == {"env:KNOB_3"}
