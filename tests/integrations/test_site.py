from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

import envsnap
from envsnap.integrations import site_directory
from tests.integrations.recording import environment, run

PACKAGE = Path(envsnap.__file__).parent
SHOW = "import json, sys; print(json.dumps([getattr(sys, 'turns', None), sys.modules.get('sitecustomize').__file__]))"
TURN = "import sys\nsys.turns = [*getattr(sys, 'turns', []), %r]\n"


def custom(folder: Path, name: str, module: str = "sitecustomize") -> str:
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(TURN % name)
    return str(folder)


@pytest.fixture(params=["", "records"])
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The variable of the record, unset and set: both must pass on."""
    return {"ENVSNAP_RECORD": str(tmp_path / request.param)} if request.param else {}


def test_the_shadowed_one_runs_exactly_once_and_takes_its_name(tmp_path: Path, asked: dict[str, str]) -> None:
    theirs = custom(tmp_path / "theirs", "theirs")
    done = run(SHOW, environment(theirs, **asked))
    assert json.loads(done.stdout) == [["theirs"], f"{theirs}/sitecustomize.py"]
    assert done.stderr == ""


def test_several_copies_of_ours_and_several_of_others(tmp_path: Path, asked: dict[str, str]) -> None:
    copy = shutil.copytree(PACKAGE, tmp_path / "copy" / "envsnap") / "integrations" / "site"
    link = tmp_path / "link"
    link.symlink_to(site_directory())
    first, second = custom(tmp_path / "first", "first"), custom(tmp_path / "second", "second")
    path = os.pathsep.join([site_directory(), str(link), str(copy), site_directory(), first, second])
    done = run(SHOW, environment(path, **asked))
    # Without any of ours, Python would import the first one alone.
    assert json.loads(done.stdout) == [["first"], f"{first}/sitecustomize.py"]


def test_one_that_stands_before_and_passes_on_is_not_run_again(tmp_path: Path, asked: dict[str, str]) -> None:
    tracer = tmp_path / "tracer"
    tracer.mkdir()
    (tracer / "sitecustomize.py").write_text(
        TURN % "tracer" + f"import runpy; runpy.run_path({site_directory() + '/sitecustomize.py'!r})\n"
    )
    theirs = custom(tmp_path / "theirs", "theirs")
    env = environment(**asked) | {"PYTHONPATH": os.pathsep.join([str(tracer), site_directory(), theirs])}
    assert json.loads(run(SHOW, env).stdout)[0] == ["tracer", "theirs"]


def test_without_another_ours_remains(asked: dict[str, str]) -> None:
    done = run(SHOW, environment(**asked))
    turns, file = json.loads(done.stdout)
    assert turns is None
    assert file in (f"{site_directory()}/sitecustomize.py", "/etc/python3/sitecustomize.py") or "/usr/lib" in file


def test_what_the_shadowed_one_raises_is_reported_as_if_it_were_alone(tmp_path: Path, asked: dict[str, str]) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "sitecustomize.py").write_text("raise RuntimeError('theirs is broken')\n")
    alone = environment(**asked) | {"PYTHONPATH": str(tmp_path / "theirs")}
    shadowed = environment(str(tmp_path / "theirs"), **asked)
    for env in (alone, shadowed):
        done = run("print('goes on')", env)
        assert done.stdout == "goes on\n"
        assert "RuntimeError: theirs is broken" in done.stderr


def test_usercustomize_is_left_alone(tmp_path: Path, asked: dict[str, str]) -> None:
    theirs = custom(tmp_path / "user", "user", "usercustomize")
    # A virtual environment has no user site; the interpreter that it was made of has.
    base = os.path.realpath(sys.executable)
    assert json.loads(run(SHOW, environment(theirs, **asked), python=base).stdout)[0] == ["user"]


def test_nothing_is_loaded_unless_asked_for() -> None:
    code = "import sys, threading; print([m for m in sys.modules if m.startswith('envsnap')], threading.active_count())"
    assert run(code, environment()).stdout == "[] 1\n"
    assert run(code, environment(ENVSNAP_RECORD="/x", ENVSNAP_DISABLE="1")).stdout == "[] 1\n"


def test_only_the_recorder_becomes_importable(tmp_path: Path) -> None:
    beside = str(PACKAGE.parent)
    code = f"import sys, envsnap.integrations as ours; print(ours.__file__, {beside!r} in sys.path)"
    done = run(code, environment(ENVSNAP_RECORD=str(tmp_path / "records")))
    assert done.stdout.split() == [str(PACKAGE / "integrations" / "__init__.py"), "False"]


def test_a_recorder_that_cannot_be_loaded_is_not_noticed(tmp_path: Path) -> None:
    copy = shutil.copytree(PACKAGE, tmp_path / "envsnap") / "integrations"
    (copy / "recorder.py").write_text("raise RuntimeError('broken')")
    env = environment(ENVSNAP_RECORD=str(tmp_path / "records")) | {"PYTHONPATH": str(copy / "site")}
    done = run("print('goes on')", env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "goes on\n", "")
