"""What can be in the way of another machine: one clear sentence each, never a hang."""

from __future__ import annotations

import ast
import base64
import sys
import zlib
from pathlib import Path

import pytest

from envsnap import remote_program
from envsnap.capture import capture
from envsnap.reading import Unavailable, Value, Why
from envsnap.remote import RemoteError, connect
from envsnap.remote_program import Ready, Start, program, ready_of
from envsnap.remote_trouble import MACHINES, Silence, unfit, why_silent, with_input
from tests.remote.test_transports import find

FAR_SIDE = [sys.executable, str(Path(__file__).with_name("far_side.py"))]
SECRET = "ghp_" + "a1B2c3D4e5" * 4


def trouble(prefix: list[str], seconds: float = 20) -> str:
    with pytest.raises(RemoteError) as caught:
        connect(prefix, seconds=seconds)
    told = str(caught.value)
    assert told.endswith(".")
    assert "\n" not in told
    return told


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("exit 0", "ended before a Python had started: it passes no standard input on"),
        ("exit 3", "did not start a shell: it ended with code 3"),
        ("echo no such container >&2; exit 1", "code 1 (no such container)"),
        ("exec /nonexistent/program", "a command in it is not found there, or there is no `sh`"),
        ("echo 'root@x: Permission denied (publickey,password).' >&2; exit 255", "-o BatchMode=yes"),
        ("echo 'sudo: a password is required' >&2; exit 1", "let sudo do it without one"),
        ("echo 'Host key verification failed.' >&2; exit 255", "connect once by hand"),
        ("echo 'ssh: connect to host x port 22: Connection refused' >&2; exit 255", "cannot be reached"),
        ("echo 'exec /bin/sh: exec format error' >&2; exit 255", "built for another processor"),
        ('IFS= read -r line; echo "$line"', "ended before a Python had started"),
    ],
)
def test_a_prefix_that_ends(script: str, told: str) -> None:
    assert told in trouble(["sh", "-c", script])


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("printf 'Password: '; exec sleep 60", "asks for a password"),
        ("echo 'job 4711 queued and waiting for resources' >&2; exec sleep 60", "(job 4711 queued and waiting for res"),
        ("yes | tr -d '\\n'", "prints without an end"),
    ],
)
def test_a_prefix_that_does_not_come_to_an_end(script: str, told: str) -> None:
    assert told in trouble(["sh", "-c", script], seconds=5)


@pytest.mark.parametrize(
    ("noise", "complaint", "told"),
    [
        ("", "Enter passphrase for key /home/u/.ssh/id: ", "x asks for a password, which nobody can type here"),
        ("Verification code: ", "", "x asks for a password"),
        ("Welcome\ny\n", "", "x did not start a Python within 20 s (y)."),
        ("", "", "x did not start a Python within 20 s."),
        ("\x1b[31mred\n", "", "within 20 s (\\x1b[31mred)."),
    ],
)
def test_what_is_said_of_one_that_still_runs(noise: str, complaint: str, told: str) -> None:
    assert told in why_silent("x", Silence(None, noise, complaint, 20))


def test_a_prefix_that_is_no_program() -> None:
    assert trouble(["/nonexistent/ssh", "host"]) == "Cannot start /nonexistent/ssh: No such file or directory."
    assert trouble(["a\0b"]).startswith("Cannot start")


@pytest.mark.parametrize("noise", ["echo Welcome; echo", "printf 'no end of line'", "echo hi >&2", "seq 100000"])
def test_what_login_scripts_print_is_passed_over(noise: str) -> None:
    with connect(["sh", "-c", f'{noise}; exec "$@"', "sh"]) as host:
        assert host.one("uname")["system"] == "Linux"


def test_a_library_that_prints_there_does_not_garble_answers() -> None:
    with connect([]) as host:
        assert host.run(["sh", "-c", "echo out >/proc/$PPID/fd/1"])[0] == 0
        assert host.one("uname")["system"] == "Linux"


def place(folder: Path, shell: str = "sh") -> list[str]:
    """The prefix of a place whose programs are a shell and what stands in a folder."""
    (folder / "sh").symlink_to(f"/bin/{shell}")
    return ["env", f"PATH={folder}"]


@pytest.mark.parametrize("version", ["3.6", "3.7", "2.7"])
def test_a_python_that_is_too_old(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_program, "_PYTHONS", ("python3",))
    (tmp_path / "python3").symlink_to(find(version))
    assert f"has Python {version}." in trouble(place(tmp_path))


def test_a_newer_python_beside_one_that_is_too_old(tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to(find("3.7"))
    (tmp_path / "python3.9").symlink_to(find("3.9"))
    with connect(place(tmp_path)) as host:
        assert host.self()["version_info"][:2] == [3, 9]


def test_no_python_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_program, "_PYTHONS", ("python3",))
    assert "has no python3 on its PATH; name one with --python" in trouble(place(tmp_path))


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_python_for_another_processor(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_program, "_PYTHONS", ("python3",))
    # The beginning of a program for s390x.
    elf = b"\x7fELF\x02\x02\x01" + bytes(9) + b"\x00\x02\x00\x16\x00\x00\x00\x01" + bytes(200)
    (tmp_path / "python3").write_bytes(elf)
    (tmp_path / "python3").chmod(0o755)
    assert "it is built for another processor" in trouble(place(tmp_path, shell))


NO_SHELL = ["sh", "-c", 'test "$1" = sh && exit 127; exec "$@"', "run"]


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13"])
def test_a_place_without_a_shell(version: str) -> None:
    with connect(NO_SHELL, python=find(version)) as host:
        assert host.self()["version_info"][:2] == [int(part) for part in version.split(".")]
        assert len(capture(host=host, only=("kernel", "os"), deadline=30).values) > 20
        assert host.self()["flags"]["isolated"] == 0, "1 is how we started it"
        assert not host.failure


def test_a_place_without_a_shell_and_with_an_old_python() -> None:
    with pytest.raises(RemoteError, match=r"has Python 3\.7\."):
        connect(NO_SHELL, python=find("3.7"))


def test_machines_that_cannot_be_read() -> None:
    assert "runs darwin, and only Linux" in unfit("x", Ready("pipe", "darwin", "arm64", "3.9.6"), "")
    assert "riscv64 machine" in unfit("x", Ready("pipe", "linux", "riscv64", "3.11.2"), "")
    assert "leave out -t" in unfit("x", Ready("terminal", "linux", "x86_64", "3.11.2"), "")
    assert [unfit("x", Ready("pipe", "linux", name, "3.8.0"), "") for name in MACHINES] == ["", ""]


def test_only_the_whole_mark_is_an_answer() -> None:
    start = Start.by_shell()
    assert start.mark.encode() not in start.line, "an echo of the line would be taken for the answer"
    assert ready_of(f"{start.mark} pipe linux x86_64 3.8.18\n", start.mark) == Ready(
        "pipe", "linux", "x86_64", "3.8.18"
    )
    assert ready_of(f"x{start.mark} pipe linux x86_64 3.8.18\n", start.mark) is None
    assert ready_of(f"{start.mark} \x1b[31m\n", start.mark) == Ready()
    assert Start.by_shell().mark != start.mark
    bare = Start.without_shell()
    assert bare.mark.encode() not in bare.line


def test_an_interpreter_with_an_odd_name_is_data(tmp_path: Path) -> None:
    odd = tmp_path / "a b'; touch pwned; '$(touch pwned)"
    odd.mkdir()
    (odd / "python3").symlink_to(sys.executable)
    with connect(["env", f"--chdir={tmp_path}"], python=str(odd / "python3")) as host:
        assert host.self()["cwd"] == str(tmp_path)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("garbage", "what came back is no answer"),
        ("prompt", "what came back is no answer"),
        ("no list", "what came back is no answer: not a list"),
        ("too few", "what came back is no answer: 0 to 1 requests"),
        ("cut", "what came back is no answer"),
        ("deep", "what came back is no answer"),
        ("bomb", "what came back is no answer: too large, or cut short"),
        ("dies", "the connection ended too early (Connection to gpu7 closed by remote host.)"),
    ],
)
def test_answers_that_are_none(how: str, told: str) -> None:
    with connect([*FAR_SIDE, how]) as host:
        answer = host.found([["uname"]])[0]
        assert isinstance(answer, Unavailable)
        assert answer.why is Why.GONE
        assert told in host.failure
        assert host.found([["uname"]])[0] == answer, "what is asked later is missing at once"


def test_a_far_side_that_says_nothing_costs_the_deadline_alone() -> None:
    with connect([*FAR_SIDE, "mute"]) as host:
        snapshot = capture(host=host, deadline=1.5)
        assert host.answered == 0
    assert {s.status for s in snapshot.sections.values()} <= {"timeout", "unavailable", "ok", "partial"}
    # NOTE: where shared memory would be is known of every Linux, and told if there is still time for it.
    assert not snapshot.values.keys() - {"storage[shm].path"}


@pytest.mark.parametrize("how", ["odd", "hostile"])
def test_answers_of_other_types_never_end_a_capture(how: str) -> None:
    with connect([*FAR_SIDE, how]) as host:
        snapshot = capture(host=host, deadline=20)
    assert len(snapshot.sections) > 25
    assert all(isinstance(path, str) for path in snapshot.values)


def test_nothing_is_asked_without_a_round_trip() -> None:
    with connect([*FAR_SIDE, "mute"]) as host:
        assert host.ask([]) == []
        assert host.answered == 0


def test_no_secret_of_a_prefix_is_told() -> None:
    told = trouble(["env", f"GITHUB_TOKEN={SECRET}", "sh", "-c", f"echo bad {SECRET} >&2; exit 1"])
    assert SECRET not in told
    assert "<redacted" in told
    with connect(["env", f"GITHUB_TOKEN={SECRET}"]) as host:
        about = host.about()
        assert SECRET not in str(about)
        assert about["prefix"].startswith("env")


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("docker exec c", "docker exec -i c"),
        ("docker exec -i c", None),
        ("docker exec -it c", None),
        ("podman exec --interactive c", None),
        ("ssh h docker exec -u 0 c", "ssh h docker exec -i -u 0 c"),
        ("kubectl -n x exec pod --", "kubectl -n x exec -i pod --"),
        ("lxc exec c --", None),
        ("ssh h pct exec 129 --", None),
        ("docker-compose run x", None),
    ],
)
def test_container_programs_are_asked_for_standard_input(given: str, used: str | None) -> None:
    assert with_input(given.split()) == (used or given).split()


def test_what_is_sent_is_python_3_8() -> None:
    ast.parse(zlib.decompress(base64.b64decode(program(60))), feature_version=(3, 8))


def test_what_is_sent_is_small() -> None:
    assert b"\n" not in program(60)[:-1]
    assert len(program(60)) < 200_000


def test_nvml_comes_along_and_is_preferred_there(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").symlink_to("/lib/x86_64-linux-gnu/libc.so.6")
    (tmp_path / "pynvml.py").write_text("raise SystemExit('the wrong one')")
    with connect(["env", f"LD_LIBRARY_PATH={tmp_path}", f"PYTHONPATH={tmp_path}"]) as host:
        found = host.found([["nvml", "nvmlDeviceGetCount"]])[0]
    assert not isinstance(found, Value)
    assert "NVML" in str(found)
    assert "SystemExit" not in str(found)
