from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envsnap import cli
from envsnap.cli import show as show_verb
from envsnap.collectors import key_for
from envsnap.keys import Kind
from envsnap.schema import violations
from envsnap.snapshot import load, write
from envsnap.store import new_file, newest
from envsnap.wording import plural
from tests.probe import denied, snapshot
from tests.processes import Spawn
from tests.test_snapshot import BAD

Done = subprocess.CompletedProcess[str]


def envsnap(*arguments: object, cwd: Path | None = None, **options: Any) -> Done:
    """The command as a process of its own."""
    env = {**os.environ, **options.pop("env", {})}
    command = [sys.executable, "-m", "envsnap", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, **options)


@pytest.fixture
def files(tmp_path: Path, probe_keys: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with snapshots: good, good again, bad, and one with something unreadable."""
    monkeypatch.chdir(tmp_path)
    write(snapshot({"probe.limit_watts": 700, "probe.model": "x"}), "good.json")
    write(snapshot({"probe.limit_watts": 700, "probe.model": "x"}), "same.json")
    write(snapshot({"probe.limit_watts": 600, "probe.model": "x"}), "bad.json")
    write(snapshot({"probe.limit_watts": 700}, unavailable={"probe.model": denied("no")}), "blind.json")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of the command in this process."""
    code = cli.main(list(arguments))
    return code, *capsys.readouterr()


# -- diff, check, show, key, validate: on snapshots of a made-up collector -----------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["good.json", "same.json"], 0),
        (["good.json", "bad.json"], 1),
        (["good.json", "blind.json"], 0),
        (["good.json", "blind.json", "--strict"], 3),
        (["good.json", "same.json", "--strict"], 0),
        (["bad.json", "blind.json", "--strict"], 1),
        (["good.json", "none.json"], 2),
        (["good.json", "bad.json", "same.json"], 2),
        (["-", "-"], 2),
        (["good.json"], 2),
        ([], 2),
    ],
)
def test_exit_codes_of_diff(files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int) -> None:
    assert said(capsys, "diff", *arguments)[0] == code


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["same.json"], 0),
        (["bad.json"], 1),
        (["bad.json", "--ignore", "probe.limit_watts"], 0),
        (["blind.json"], 3),
        (["blind.json", "--allow-unknown"], 0),
        (["bad.json", "--allow-unknown"], 1),
        (["none.json"], 2),
    ],
)
def test_exit_codes_of_check(files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int) -> None:
    assert said(capsys, "check", "--baseline", "good.json", *arguments)[0] == code


def test_quiet_says_it_by_the_exit_code_alone(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "diff", "good.json", "bad.json", "-q") == (1, "", "")
    assert said(capsys, "check", "--baseline", "good.json", "bad.json", "--quiet") == (1, "", "")


def test_only_unknowns_are_told_with_their_count(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "diff", "good.json", "blind.json")
    assert (code, "No change, 1 reading" in out, "1 unknown" in out) == (0, True, True)
    assert "probe.model  A: read; B: unavailable (denied: no)" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["diff", "good.json", "bad.json"],
        ["diff", "good.json", "blind.json"],
        ["check", "--baseline", "good.json", "bad.json"],
        ["show", "blind.json"],
        ["key"],
        ["key", "probe.model"],
        ["validate", "good.json", "bad.json"],
        ["diff", "none.json", "bad.json"],
        ["key", "probe.modle"],
        ["dif"],
        ["check", "good.json", "--policy", "none.toml"],
        ["show", "good.json", "--colour"],
    ],
)
def test_what_is_printed_as_json_validates(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    code, out, err = said(capsys, *arguments, "--format", "json")
    assert violations(json.loads(out)) == []
    assert err == ""
    assert (json.loads(out)["format"] == "envsnap.error") is (code == 2)


def test_a_bare_name_of_a_variable_is_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, "key", "NCCL_PROTO")
    assert (code, err) == (0, "")
    assert out.startswith("env[NCCL_PROTO]\n")
    assert out == said(capsys, "key", "env[NCCL_PROTO]")[1]


def test_an_error_is_one_sentence_with_the_next_step(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "key", "probe.modle") == (
        2, "", "envsnap: There is no key 'probe.modle'; did you mean probe.model? Try: envsnap key\n",
    )  # fmt: skip
    document = json.loads(said(capsys, "key", "probe.modle", "--format=json")[1])
    assert document["next"] == ["envsnap", "key"]
    assert said(capsys, "dif")[2] == "envsnap: There is no verb 'dif'; did you mean diff? Try: envsnap --help\n"
    assert said(capsys, "show", "good.json", "--colour")[2] == (
        "envsnap: Unrecognized arguments: --colour. Try: envsnap --help\n"
    )


def test_no_argument_is_not_success(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys)
    assert (code, out.startswith("usage: envsnap")) == (2, True)


def test_markdown_is_markdown(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "diff", "good.json", "bad.json", "--format", "markdown")[1]
    assert "| `probe.limit_watts` | `700 W` | `600 W` |" in out
    out = said(capsys, "check", "--baseline", "good.json", "bad.json", "--format", "markdown")[1]
    assert "| fail | medium | `probe.limit_watts is 600 W, the baseline has 700 W` | Raise it. |" in out


def test_the_newest_snapshots_are_the_default(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for age, name in ((20, "bad.json"), (10, "good.json")):
        file = new_file()
        file.write_bytes((files / name).read_bytes())
        os.utime(file, (1_700_000_000 - age, 1_700_000_000 - age))
    assert [p.suffix for p in newest(2)] == [".json", ".json"]
    assert "  probe.limit_watts  600 W → 700 W" in said(capsys, "diff")[1]
    assert "  probe.limit_watts  600 W → 700 W" in said(capsys, "diff", "bad.json")[1]
    assert "  probe.limit_watts  700 W" in said(capsys, "show")[1]


def test_show_tells_when_nothing_matches(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "show", "good.json", "card") == (1, "", "envsnap: nothing in good.json matches card.\n")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("card[3].driver", "card[3].driver\n  Driver of a card."),
        ("card[].driver", "card[].driver\n"),
        ("card[0-7].driver", "card[0-7].driver\n"),
        ("driver", "card[].driver\n"),
        ("role[TP0].env[NCCL_PROTO]", "Set it alike everywhere."),
        (
            "limit_watts",
            "  card[].limit_watts  Power a card may draw.\n  probe.limit_watts   Power the probe may draw.\n",
        ),
        ("probe", "  probe.arguments            Arguments of the server.\n"),
    ],
)
def test_key_finds_what_a_user_types(files: Path, capsys: pytest.CaptureFixture[str], name: str, shown: str) -> None:
    code, out, _ = said(capsys, "key", name)
    assert code == 0
    assert shown in out


def test_validate_says_what_is_wrong(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads((files / "good.json").read_text())
    document["sections"]["probe"]["values"] |= {"probe.limit_watts": "lots", "probe.nonsense": 1}
    (files / "odd.json").write_text(json.dumps(document))
    code, out, _ = said(capsys, "validate", "good.json", "odd.json")
    assert code == 1
    assert out.splitlines()[0] == "good.json  valid"
    assert "  /sections/probe/values/probe.limit_watts: 'lots' is not of type 'integer'" in out
    assert "  /sections/probe/values: nothing is declared for probe.nonsense" in out


def test_validate_is_bounded(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads((files / "good.json").read_text())
    document["sections"]["probe"]["values"] = {f"card[{i}].limit_watts": "x" * 10_000 for i in range(100)}
    (files / "odd.json").write_text(json.dumps(document))
    out = said(capsys, "validate", "odd.json")[1]
    assert len(out) < 5_000
    assert said(capsys, "validate", "none.json")[0] == 2


# -- what every verb has in common ------------------------------------------------------------------------------------


def test_disabled_does_nothing_and_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVSNAP_DISABLE", "1")
    code, out, err = said(capsys, "diff", "no", "such")
    assert (code, out, err) == (0, "", "envsnap: disabled by ENVSNAP_DISABLE=1, nothing was done.\n")


def failing(error: BaseException) -> Any:
    def run(args: Any) -> int:
        raise error

    return run


def test_an_unforeseen_error_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(show_verb, "run", failing(ZeroDivisionError("by\x1b[31m zero")))
    code, out, err = said(capsys, "show", "x")
    assert (code, out) == (2, "")
    assert err == "envsnap: Unforeseen error, ZeroDivisionError: by\\x1b[31m zero. Try: envsnap show x --debug\n"
    with pytest.raises(ZeroDivisionError):
        cli.main(["show", "x", "--debug"])


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (KeyboardInterrupt(15), 143), (SystemExit(0), 0)]
)
def test_interruptions(monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int) -> None:
    monkeypatch.setattr(show_verb, "run", failing(error))
    assert cli.main(["show", "x"]) == code


def test_a_reader_that_goes_away_is_no_trouble(files: Path, spawn: Spawn) -> None:
    write(snapshot({f"role[TP0].env[V{i}]": f"{i}" * 20 for i in range(5000)}), files / "big.json")
    command = [sys.executable, "-m", "envsnap", "show", str(files / "big.json")]
    # NOTE: unbuffered, Python takes a write that was cut short for a whole one.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    process = spawn(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 141


def test_a_full_disk_behind_standard_output_is_told(files: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "envsnap", "key"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert (done.returncode, done.stderr) == (2, "envsnap: No space left on device.\n")


def test_closed_streams_are_survived(files: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m envsnap diff good.json bad.json >&- 2>&-"], cwd=files, timeout=60
    )
    assert done.returncode == 1


def test_a_locale_without_arrows_is_survived(files: Path) -> None:
    done = envsnap("diff", "good.json", "bad.json", cwd=files, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 1
    assert "700 \\u2192 600" in done.stdout


def on_terminal(*arguments: str, cwd: Path, **env: str) -> str:
    """What the command writes to a terminal."""
    leader, follower = pty.openpty()
    try:
        command = [sys.executable, "-m", "envsnap", *arguments]
        full = {**os.environ, "TERM": "xterm", **env}
        subprocess.run(command, cwd=cwd, stdout=follower, stderr=follower, env=full, timeout=60)
        os.close(follower)
        shown = b""
        while True:
            try:
                shown += os.read(leader, 65536)
            except OSError:  # the other end is closed and everything was read
                return shown.decode()
    finally:
        os.close(leader)


COLOUR = re.compile(r"\x1b\[\d+m")


@pytest.mark.parametrize(
    ("env", "terminal", "pipe"),
    [
        ({}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"CLICOLOR": "0"}, False, False),
        ({"CLICOLOR": "1"}, True, False),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"CLICOLOR_FORCE": "0"}, True, False),
        ({"CLICOLOR_FORCE": "1", "CLICOLOR": "0"}, True, True),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"FORCE_COLOR": "3", "TERM": "dumb"}, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
    ids=str,
)
def test_colour_is_for_who_wants_it(files: Path, env: dict[str, str], terminal: bool, pipe: bool) -> None:
    command = ("diff", "good.json", "bad.json")
    assert bool(COLOUR.search(on_terminal(*command, cwd=files, **env))) is terminal
    assert bool(COLOUR.search(envsnap(*command, cwd=files, env=env).stdout)) is pipe


@pytest.mark.parametrize("form", ["json", "markdown"])
def test_what_is_read_by_programs_is_never_coloured(files: Path, form: str) -> None:
    shown = envsnap("diff", "good.json", "bad.json", "--format", form, cwd=files, env={"FORCE_COLOR": "1"})
    assert "probe.limit_watts" in shown.stdout
    assert "\x1b" not in shown.stdout + shown.stderr


def test_no_escape_reaches_the_terminal_by_whatever_way(files: Path) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b31m"
    write(snapshot({"probe.model": hostile}), files / "h.json")
    (files / f"{hostile}.json").write_text("{}")
    for arguments in (
        ["diff", "good.json", "h.json"], ["show", "h.json"], ["check", "--baseline", "good.json", "h.json"],
        ["show", f"{hostile}.json"], ["show", f"{hostile}"], ["validate", f"{hostile}.json"], [hostile],
        ["key", hostile], ["diff", f"--{hostile}"], ["capture", "--only", hostile], ["capture", "-o", f"/no/{hostile}"],
    ):  # fmt: skip
        shown = COLOUR.sub("", on_terminal(*arguments, cwd=files))
        assert shown
        assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", shown), arguments


# -- capture: on this machine ------------------------------------------------------------------------------------------


def test_capture_writes_prints_the_file_and_tells_what_it_got(tmp_path: Path) -> None:
    done = envsnap(
        "capture", "-o", "a.json.gz", "--only", "kernel,os", "--note", "tok/s 94", "--moment", "during", cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "a.json.gz\n")
    taken = load(tmp_path / "a.json.gz")
    assert (set(taken.sections), taken.note, taken.moment) == ({"kernel", "os"}, "tok/s 94", "during")
    assert f"{len(taken.values)} readings in " in done.stderr
    assert taken.values["kernel.release"] == os.uname().release
    assert len(done.stderr.splitlines()) < 24
    assert os.listdir(tmp_path) == ["a.json.gz"]


def test_capture_without_a_name_goes_to_a_folder_that_git_ignores(tmp_path: Path) -> None:
    files = {envsnap("capture", "--only", "kernel", "-q", cwd=tmp_path).stdout.strip() for _ in range(2)}
    assert len(files) == 2
    assert all(re.fullmatch(r"\.envsnap/\d{8}T\d{6}Z(-2)?\.json", name) for name in files)
    assert {str(p.relative_to(tmp_path)) for p in newest(9, tmp_path)} == files
    assert (tmp_path / ".envsnap" / ".gitignore").read_text() == "*\n"


def test_capture_to_standard_output_can_be_read_from_standard_input(tmp_path: Path) -> None:
    taken = envsnap("capture", "-o", "-", "--only", "kernel", cwd=tmp_path)
    shown = envsnap("show", "-", "kernel.release", input=taken.stdout)
    assert os.uname().release in shown.stdout
    assert os.listdir(tmp_path) == []


def test_the_summary_as_json(tmp_path: Path) -> None:
    done = envsnap("capture", "-o", "a.json", "--only", "kernel", "--format", "json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert violations(document) == []
    assert (document["file"], document["next"], done.stderr) == ("a.json", [["envsnap", "show", "a.json"]], "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-o", "."], "Cannot write .: it is a directory."),
        (["-o", "no/such/a.json"], "Cannot write no/such/a.json: there is no directory no/such."),
        (["-o", "/dev/null"], "Cannot write /dev/null: it is not a regular file."),
        (["-o", "old.json", "--only", "kernle"], "There is no section 'kernle'; did you mean kernel?"),
        (["-o", "old.json", "--match", "("], "--match '(' is no regular expression"),
        (["-o", "old.json", "--deadline", "0"], "--deadline takes a number of seconds above zero."),
        (["-o", "-", "--format", "json"], "would both write to standard output"),
    ],
)
def test_what_cannot_be_captured_is_refused_before_anything_is_written(
    tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    (tmp_path / "old.json").write_text("old")
    done = envsnap("capture", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stdout + done.stderr
    assert len((done.stdout + done.stderr).splitlines()) == 1
    assert os.listdir(tmp_path) == ["old.json"]
    assert (tmp_path / "old.json").read_text() == "old"


def hanging(folder: Path, call: str) -> dict[str, str]:
    """An environment in which asking for the kernel's name does something else."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(
        f"import ctypes, time\nfrom envsnap import machine\nmachine.OPERATIONS['uname'] = lambda: {call}\n"
    )
    return {"PYTHONPATH": f"{folder / 'site'}:{os.environ.get('PYTHONPATH', '')}"}


def test_a_driver_that_hangs_costs_its_section_not_the_capture(tmp_path: Path) -> None:
    env = hanging(tmp_path, "time.sleep(1000)")
    done = envsnap("capture", "-o", "a.json", "--only", "kernel,cgroup", "--deadline", "1", cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (0, "a.json\n")
    taken = load(tmp_path / "a.json")
    assert (taken.sections["kernel"].status, taken.sections["cgroup"].status) == ("timeout", "ok")
    assert "kernel  timeout: did not finish within 1.0 s" in done.stderr


def test_a_driver_that_freezes_the_interpreter_does_not_hold_the_command(tmp_path: Path) -> None:
    env = hanging(tmp_path, "ctypes.PyDLL(None).sleep(1000)")  # keeps the interpreter's lock
    done = envsnap("capture", "-o", "a.json", "--only", "kernel", "--deadline", "0.2", cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "envsnap: Nothing came back within 5 s: a driver or a file system hangs.\n"
    assert not (tmp_path / "a.json").exists()


def test_a_machine_passes_against_its_own_baseline_and_fails_against_another(tmp_path: Path) -> None:
    envsnap("capture", "-o", "good.json", "--only", "kernel,os", "-q", cwd=tmp_path)
    done = envsnap("check", "--baseline", "good.json", cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "pass")
    document = json.loads((tmp_path / "good.json").read_text())
    document["sections"]["kernel"]["values"]["kernel.release"] = "6.1.0-other"
    (tmp_path / "good.json").write_text(json.dumps(document))
    done = envsnap("check", "--baseline", "good.json", cwd=tmp_path)
    assert done.returncode == 1
    assert f"kernel.release is {os.uname().release}, the baseline has 6.1.0-other" in done.stdout
    assert os.listdir(tmp_path) == ["good.json"]


def test_a_capture_of_this_machine_holds_no_secret_and_validates(tmp_path: Path) -> None:
    secret = "hf_" + "q7Rk2mXvTz" * 3 + "abcd"
    env = {"HF_TOKEN": secret, "OPENAI_API_KEY": f"sk-{secret}"}
    done = envsnap("capture", "-o", "a.json", "--note", f"with {secret}", cwd=tmp_path, env=env)
    assert done.returncode == 0
    for path in tmp_path.rglob("*"):
        assert secret not in (path.read_text() if path.is_file() else "")
    assert secret not in done.stderr
    assert violations(json.loads((tmp_path / "a.json").read_text())) == []


def test_a_check_captures_in_the_scope_of_its_baseline(tmp_path: Path) -> None:
    envsnap("capture", "-o", "good.json", "--only", "kernel", "--match", "no-such-program", "-q", cwd=tmp_path)
    document = json.loads((tmp_path / "good.json").read_text())
    assert document["scope"] == {"match": ["no-such-program"]}
    assert envsnap("check", "--baseline", "good.json", cwd=tmp_path).stdout.splitlines() == [
        f"PASS             {plural(len(_required(document)), 'reading')} as in the baseline",
        "pass",
    ]
    document["sections"] = {"made_up": document["sections"]["kernel"]}
    (tmp_path / "good.json").write_text(json.dumps(document))
    done = envsnap("check", "--baseline", "good.json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "envsnap: The baseline holds no section that this envsnap knows.\n")


def _required(document: Any) -> list[str]:
    values = document["sections"]["kernel"]["values"]
    return [path for path in values if key_for(path).kind in (Kind.IDENTITY, Kind.TUNABLE)]


def test_a_long_capture_shows_on_a_terminal_what_it_waits_for(tmp_path: Path) -> None:
    env = hanging(tmp_path, "time.sleep(1000)")
    shown = on_terminal("capture", "-o", "a.json", "--only", "kernel", "--deadline", "1.5", cwd=tmp_path, **env)
    progress, summary = shown.rsplit("\r\x1b[K", 1)
    assert "1 s, still reading: kernel" in progress
    assert "still reading" not in summary
    assert "\x1b" not in on_terminal("capture", "-o", "b.json", "--only", "kernel", cwd=tmp_path, **env, TERM="dumb")


@pytest.mark.parametrize("data", [data for data, _ in BAD.values()], ids=BAD)
def test_a_bad_snapshot_is_one_sentence_and_trouble(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(data)
    for arguments in (["show", str(bad)], ["diff", str(bad), str(bad)], ["check", "--baseline", str(bad), str(bad)]):
        code, out, err = said(capsys, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"envsnap: {bad}")
    assert bad.read_bytes() == data


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("old")
    capture = f"{sys.executable} -m envsnap capture -q --no-cache -o a.json --only kernel,os,python"
    done = subprocess.run(
        ["sh", "-c", f"ulimit -f 1; exec {capture}"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (2, "envsnap: Cannot write a.json: File too large.\n")
    assert (tmp_path / "a.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_verbs_that_read_snapshots_take_processes_as_they_are_now(tmp_path: Path, spawn: Spawn) -> None:
    """Did it reach the workers, in one command, for what was started without envsnap."""
    title = f"live-worker-{os.getpid()}"
    code = "import os, time; os.environ['NCCL_ALGO'] = 'Ring'; print('up', flush=True); time.sleep(120)"
    process = spawn([sys.executable, "-c", code, title], stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"up\n"
    followed = envsnap("workers", "--match", title, "NCCL_*", cwd=tmp_path)
    assert re.search(r"Ring +main  the process itself, after its start", followed.stdout), followed.stderr
    shown = envsnap("show", "--pid", process.pid, "worker[*].env[NCCL_ALGO]", cwd=tmp_path)
    assert "Ring" in shown.stdout, shown.stderr
    envsnap("capture", "-q", "-o", "before.json", "--pid", os.getpid(), cwd=tmp_path)
    compared = envsnap("diff", "before.json", "--match", title, "--format", "json", cwd=tmp_path)
    assert json.loads(compared.stdout)["b"]["name"] == "now"
    none = envsnap("workers", "--match", "no-such-program-anywhere", "NCCL_*", cwd=tmp_path)
    assert none.returncode == 3
    assert os.listdir(tmp_path) == ["before.json"], "nothing is stored of what is only looked at"
