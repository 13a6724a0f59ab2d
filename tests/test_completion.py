"""Completion: what stands for each argument, and what real shells make of it when Tab is pressed."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envsnap import cli
from envsnap.cli import _completion as completion
from envsnap.collectors import names
from envsnap.store import Store
from tests.processes import Spawn, Terminal
from tests.test_store import make_run

LABELS = ("fast-monday", "slow-tuesday", "odd $(touch owned) `x`")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store and some files, and `envsnap` as a program."""
    folder = tmp_path_factory.mktemp("completion")
    for number, label in enumerate(LABELS):
        Store(folder).save(make_run(f"{number}feed-000", f"{number}feed", label, f"2026-01-0{number + 1}T00:00:00"))
    (folder / "before.json").touch()
    (folder / "bin").mkdir()
    program = folder / "bin" / "envsnap"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m envsnap "$@"\n')
    program.chmod(0o755)
    return folder


def environment(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k in ("PYTHONPATH", "LANG", "LC_ALL")}
    home = str(folder)
    return {
        **kept,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "HOME": home,
        "ZDOTDIR": home,
        "XDG_CONFIG_HOME": home,
        "XDG_DATA_HOME": home,
        "TERM": "dumb",
        "PS1": "> ",
    }


def candidates(folder: Path, line: str) -> list[str]:
    """What is answered to a shell that asks, as a process of its own."""
    program = "import os; os.dup2(1, 8); from envsnap.cli import main; main([])"
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_SHELL": "fish"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder, env={**environment(folder), **asked, "_ARGCOMPLETE_IFS": "\n"}, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    return [line.rstrip() for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("envsnap ", set(cli.verbs())),
        ("envsnap comp", {"completion"}),
        ("envsnap completion ", {"bash", "zsh", "fish"}),
        ("envsnap run --lab", {"--label"}),
        ("envsnap run --label ", set(LABELS)),
        ("envsnap diff --format ", {"text", "json", "markdown"}),
        ("envsnap diff --format=js", {"--format=json"}),
        ("envsnap diff fast", {"fast-monday"}),
        ("envsnap diff bef", {"before.json"}),
        ("envsnap diff las", {"last"}),
        ("envsnap rm 1fe", {"1feed", "1feed-000"}),
        ("envsnap explain --control fast", {"fast-monday"}),
        ("envsnap policy ", {"from", "check"}),
        ("envsnap policy from --pri", {"--prior"}),
        ("envsnap key gpu[].power_limit", {"gpu[].power_limit_watts"}),
        ("envsnap check --explain gpu_bu", {"gpu_busy"}),
        ("envsnap schema --write b", {"bin/"}),
        ("envsnap probe --only cpu,mem", {"cpu,memory"}),
        ("envsnap run --label x -n 3 -- bin/en", {"bin/envsnap"}),
        ("envsnap prove fast-monday slow-tuesday -- bin/envsnap --fo", set()),
        ("envsnap capture --note ", set()),
        ("envsnap nonsense --for", set()),
    ],
)
def test_what_can_stand_at_the_cursor(folder: Path, line: str, expected: set[str]) -> None:
    assert set(candidates(folder, line)) == expected


def test_several_sections_none_of_them_twice(folder: Path) -> None:
    found = candidates(folder, "envsnap capture --only git,")
    assert set(found) == {f"git,{name}" for name in names() if name != "git"}


def test_the_store_that_is_named_is_the_one_that_is_asked(folder: Path, tmp_path: Path) -> None:
    assert candidates(tmp_path, "envsnap log --label ") == []
    assert "fast-monday" in candidates(tmp_path, f"envsnap log --store {folder} --label ")
    assert list(tmp_path.iterdir()) == []


def every_action() -> list[argparse.Action]:
    return list(completion.actions(cli.parser()))


def test_law_every_argument_says_what_it_stands_for() -> None:
    open_ended = [a for a in every_action() if a.choices is None and a.nargs != 0]
    used = {completion.meaning(a) for a in open_ended}
    assert used - completion.VALUES.keys() - completion.FREE == set(), "say in _completion.py what can stand for it"
    assert completion.VALUES.keys() - used == set(), "nothing has that metavar"


def test_only_the_verb_that_is_typed_is_imported_and_nothing_that_captures(folder: Path) -> None:
    program = (
        "import sys; from envsnap.cli import _completion as c; c.parser_for(['diff', '--store', 'x'])\n"
        "import argparse; c._runs('f', argparse.Namespace(store=sys.argv[1]))\n"
        "print(*(m for m in sys.modules if m.startswith('envsnap')))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"envsnap.cli.diff", "envsnap.store"} <= loaded
    assert not {m for m in loaded if m.startswith(("envsnap.collectors", "envsnap.capture", "envsnap.host"))}
    assert not {f"envsnap.cli.{v}" for v in cli.verbs()} & loaded - {"envsnap.cli.diff"}


# -- real shells ---------------------------------------------------------------------------------------------------

SET_UP = {
    "bash": ("bash --norc --noprofile -i", 'set -o emacs; eval "$(envsnap completion bash)"'),
    "zsh": ("zsh -f -i", 'bindkey -e; autoload -Uz compinit; compinit -u -D; eval "$(envsnap completion zsh)"'),
}


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


def opened(spawn: Spawn, folder: Path, shell: str) -> Terminal:
    """An interactive shell that completes envsnap."""
    needs(shell)
    command, set_up = SET_UP[shell]
    terminal = spawn.terminal(command.split(), cwd=folder, env=environment(folder))
    terminal.press(f"{set_up}; echo rea''dy\r")
    terminal.wait_for("ready")
    return terminal


@pytest.mark.parametrize("shell", SET_UP)
def test_tab_in_a_real_shell(spawn: Spawn, folder: Path, shell: str) -> None:
    terminal = opened(spawn, folder, shell)
    for typed, whole in (
        ("envsnap compl", "envsnap completion"),
        ("envsnap run --lab", "envsnap run --label"),
        ("envsnap show fast-", "envsnap show fast-monday"),
        ("envsnap diff before.json slow", "envsnap diff before.json slow-tuesday"),
        ("envsnap diff bef", "envsnap diff before.json"),
        ("envsnap capture --moment stand", "envsnap capture --moment standalone"),
        ("envsnap run -- bin/en", "envsnap run -- bin/envsnap"),
    ):
        # After Tab to the line's start (^A), and what is typed there shows the line instead of running it.
        terminal.shown = ""
        terminal.press(f"{typed}\t\x01echo 'got': \x05 'end'\r")
        assert terminal.wait_for(r"\ngot: (.*?) end")[1].split() == whole.split()


def test_a_hostile_label_runs_nothing(spawn: Spawn, folder: Path) -> None:
    terminal = opened(spawn, folder, "bash")
    terminal.press("envsnap show odd\t\x01printf '<%s>' \x05; echo\r")
    assert terminal.wait_for(r"<envsnap><show>(.*)\n")[1].strip() == f"<{LABELS[2]}>"
    assert not (folder / "owned").exists()


def test_fish_completes_and_shows_what_things_are(folder: Path) -> None:
    needs("fish")

    def complete(line: str) -> dict[str, str]:
        script = f"envsnap completion fish | source; complete --do-complete '{line}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", script],
            cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=100, check=True,
        )  # fmt: skip
        rows = (row.partition("\t") for row in done.stdout.splitlines())
        return {name.strip(): meaning for name, _, meaning in rows}

    assert complete("envsnap pro") == {
        "probe": complete("envsnap prob")["probe"],
        "prove": "Run the experiment that settles which change made it slow",
    }
    assert complete("envsnap show slow") == {"slow-tuesday": "1 run"}
    assert complete("envsnap diff --strict bef").keys() == {"before.json"}


def test_the_script_is_one_that_its_shell_can_read() -> None:
    for shell in ("bash", "zsh", "fish"):
        if shutil.which(shell) is None:
            continue
        made = subprocess.run([sys.executable, "-m", "envsnap", "completion", shell], capture_output=True, check=True)
        subprocess.run([shell, "-n"], input=made.stdout, check=True)
