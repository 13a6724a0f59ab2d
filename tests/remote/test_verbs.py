"""The verbs on other machines: `--via`."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envsnap import recording
from envsnap.schema import violations
from envsnap.share import share
from envsnap.snapshot import load
from tests.remote.test_transports import gone, marked
from tests.test_cli import envsnap

SECRET = "ghp_" + "a1B2c3D4e5" * 4
FAST = ("--only", "kernel,os,container,environ")


def test_a_capture_says_how_it_was_reached(tmp_path: Path) -> None:
    done = envsnap("capture", "-o", "x.json", "--via", "env A=1 bash -c", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "x.json\n")
    assert "via env A=1 bash -c" in done.stderr
    snapshot = load(tmp_path / "x.json")
    assert snapshot.values["env[A]"] == "1"
    assert snapshot.via["prefix"] == "env A=1 bash -c"
    assert snapshot.via["cost"]["cpu_seconds"] > 0
    assert violations(snapshot.as_json()) == []
    told = envsnap("diff", "x.json", "x.json", cwd=tmp_path)
    assert told.stdout.splitlines()[0].endswith("  via env A=1 bash -c")
    assert "prefix" not in share(snapshot).via
    assert share(snapshot).via["python"] == snapshot.via["python"]


def test_several_are_captured_side_by_side_and_one_that_fails_is_told(tmp_path: Path) -> None:
    ways = [part for way in ("env A=1", "sh -c 'exit 7'", "env A=3") for part in ("--via", way)]
    done = envsnap("capture", "-q", "-o", "x.json.gz", *FAST, *ways, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.split() == ["x-1.json.gz", "x-3.json.gz"]
    assert done.stderr == "envsnap: `sh -c exit 7` did not start a shell: it ended with code 7.\n"
    assert [load(tmp_path / f"x-{n}.json.gz").values["env[A]"] for n in (1, 3)] == ["1", "3"]


def test_several_without_a_name_and_as_json(tmp_path: Path) -> None:
    ways = [part for way in ("env A=1", "sh -c 'exit 7'", "env A=3") for part in ("--via", way)]
    done = envsnap("capture", "--format", "json", *FAST, *ways, cwd=tmp_path)
    document = json.loads(done.stdout)
    assert violations(document) == []
    assert done.returncode == 2
    assert len(document["troubles"]) == 1
    files = [summary["file"] for summary in document["summaries"]]
    assert [load(tmp_path / file).values["env[A]"] for file in files] == ["1", "3"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("capture", "--via", "'"), '--via "\'" is no list of words: no closing quotation.'),
        (("capture", "--via", "", "--via", "", "-o", "-"), "-o - has place for one snapshot"),
        (("capture", "--via", "sh -c 'exit 1'"), "did not start a shell: it ended with code 1."),
        (("record", "x", "--via", "", "--via", ""), "A folder holds one machine"),
        (("workers", "--format", "markdown", "--via", "", "--via", ""), "give one --via at a time"),
        (("diff", "--via", "", "--via", "", "--via", ""), "A diff takes two sides, not 3."),
        (("diff", "--via", ""), "There is no snapshot to compare with. Try: envsnap capture"),
        (("check", "x.json", "--via", ""), "it does not go with a snapshot"),
    ],
)
def test_what_is_in_the_way_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    done = envsnap(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.glob("*.json"))


def test_no_secret_of_the_prefix_is_written_or_told(tmp_path: Path) -> None:
    way = f"env GITHUB_TOKEN={SECRET}"
    done = envsnap("capture", "-o", "x.json", *FAST, "--via", way, "--via", f"{way} sh -c 'exit 1'", cwd=tmp_path)
    written = (tmp_path / "x-1.json").read_text()
    for text in (done.stdout, done.stderr, written):
        assert SECRET not in text
    assert "env[GITHUB_TOKEN]" in written
    checked = envsnap("check", "--format", "json", "--via", way, cwd=tmp_path)
    assert SECRET not in checked.stdout + checked.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("capture", "--via", f"sshpass -p '{SECRET[4:]} env"),
        ("capture", "--format", "json", "--via", f"sshpass -p '{SECRET[4:]} env"),
        ("doctor", "--via", f"sshpass -p {SECRET[4:]} env"),
        ("capture", "--via", f"sh -c 'echo {SECRET[4:]} >&2; exit 3' --password {SECRET[4:]}"),
    ],
)
def test_no_secret_of_a_prefix_that_is_refused_is_told(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = envsnap(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout + done.stderr
    assert SECRET[4:] not in done.stdout + done.stderr


def test_show_and_diff_read_a_machine_as_it_is_now(tmp_path: Path) -> None:
    shown = envsnap("show", "--via", "env A=1", "--via", "env A=2", "env[A]", cwd=tmp_path)
    assert shown.returncode == 0
    assert [line.split()[-1] for line in shown.stdout.splitlines() if "env[A]" in line] == ["1", "2"]
    differ = envsnap(
        "diff", "--via", "env NCCL_ALGO=Ring", "--via", "env NCCL_ALGO=Tree", "--format", "json", cwd=tmp_path
    )
    assert differ.returncode == 1
    changed = {c["path"]: (c["before"]["value"], c["after"]["value"]) for c in json.loads(differ.stdout)["changes"]}
    assert changed["env[NCCL_ALGO]"] == ("Ring", "Tree")


def test_check_judges_every_machine(tmp_path: Path) -> None:
    envsnap("capture", "-q", "-o", "good.json", *FAST, "--via", "env A=1 NCCL_ALGO=Ring", cwd=tmp_path)
    ways = ("--via", "env A=1 NCCL_ALGO=Ring", "--via", "env A=1 NCCL_ALGO=Tree")
    done = envsnap("check", "--baseline", "good.json", *ways, cwd=tmp_path)
    assert done.returncode == 1
    failing = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert len(failing) == 1
    assert "`env A=1 NCCL_ALGO=Tree`: env[NCCL_ALGO]" in failing[0]
    alone = envsnap("check", "--baseline", "good.json", *ways[:2], cwd=tmp_path)
    assert alone.returncode == 0, alone.stdout
    lost = envsnap(
        "check", "--baseline", "good.json", *ways[:2], "--via", "sh -c 'exit 7'", "--", "touch", "ran", cwd=tmp_path
    )
    assert lost.returncode == 2
    assert not (tmp_path / "ran").exists()


def test_a_recording_of_another_machine_replays(tmp_path: Path) -> None:
    done = envsnap("record", "there", "--via", "env A=1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert recording.replay(tmp_path / "there").values["env[A]"] == "1"


def test_processes_of_a_container_are_followed_from_outside(container: list[str], tmp_path: Path) -> None:
    way = shlex.join(container)
    sleeper = "import time; print('up', flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [*container, "env", "NCCL_ALGO=Ring", "python3", "-c", sleeper, "remote-worker"], stdout=subprocess.PIPE
    )
    assert process.stdout
    with process.stdout:
        try:
            assert process.stdout.readline() == b"up\n"
            done = envsnap("workers", "--via", way, "--match", "remote-worker", "NCCL_*", cwd=tmp_path)
            assert "NCCL_ALGO" in done.stdout, done.stderr
            assert "Ring" in done.stdout
        finally:
            process.kill()
            process.wait()


def test_a_container_is_filled_from_its_host(container: list[str], tmp_path: Path) -> None:
    way = shlex.join(container)
    only = ("--only", "container,kernel,kernel_log")
    alone = envsnap("capture", "-o", "alone.json", *only, "--via", way, cwd=tmp_path)
    assert "From inside a container" in alone.stderr
    assert "processes outside" in alone.stderr
    assert "The host's view too: add --via ''" in alone.stderr
    both = envsnap("capture", "-o", "x.json", *only, "--via", way, "--via", "env", cwd=tmp_path)
    assert both.returncode == 0, both.stderr
    inner, outer = (load(tmp_path / f"x-{n}.json") for n in (1, 2))
    assert inner.via["host_view"]["prefix"] == "env"
    assert "host_view" not in outer.via
    lone, log = load(tmp_path / "alone.json").sections["kernel_log"], outer.sections["kernel_log"]
    if lone.status == "unavailable" and log.status == "ok":  # who may read it is the kernel's setting
        assert inner.sections["kernel_log"].values.keys() == log.values.keys()
        assert "on the host" in inner.sections["kernel_log"].method


def test_an_interrupted_capture_leaves_nothing_on_its_way(tmp_path: Path) -> None:
    mark = f"ENVSNAP_TEST_MARK={tmp_path}"
    way = f"env {mark} sh -c 'touch begun; exec sleep 300'"
    process = subprocess.Popen(
        [sys.executable, "-m", "envsnap", "capture", "-o", "x.json", "--via", way], cwd=tmp_path, stderr=subprocess.PIPE
    )
    assert process.stderr
    with process.stderr:
        for _ in range(300):
            if (tmp_path / "begun").exists():
                break
            time.sleep(0.1)
        assert marked(mark)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert gone(mark), marked(mark)


def test_a_broken_far_side_is_trouble_and_no_snapshot(tmp_path: Path) -> None:
    far = Path(__file__).with_name("far_side.py")
    done = envsnap("capture", "-o", "x.json", "--via", f"{sys.executable} {far} dies", cwd=tmp_path)
    assert done.returncode == 2
    assert "the connection ended too early (Connection to gpu7 closed by remote host.)." in done.stderr
    mute = envsnap("capture", "--deadline", "1", "-o", "x.json", "--via", f"{sys.executable} {far} mute", cwd=tmp_path)
    assert mute.returncode == 2
    assert "no answer came within the deadline." in mute.stderr
    assert not list(tmp_path.glob("x*"))
