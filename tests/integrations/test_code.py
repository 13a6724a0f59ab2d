from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envsnap.integrations.code import Code
from envsnap.integrations.trees import Trees


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with a package, imported from where it lies, and a link to it."""
    package = tmp_path / "work" / "thing"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("A = 1\n")
    (package / "deep" / "__init__.py").write_text("")
    (package / "deep" / "a.py").write_text("B = 2\n")
    (tmp_path / "link").symlink_to(tmp_path / "work")
    old = time.time() - 86400
    for file in package.rglob("*.py"):
        os.utime(file, (old, old))
    monkeypatch.syspath_prepend(str(tmp_path / "link"))
    importlib.import_module("thing.deep.a")
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] in ("thing", "lazy", "odd")]:
        del sys.modules[name]


def loaded(given: str = "", at_start: frozenset[str] | None = None) -> dict[str, Any]:
    return Code(Trees(given)).loaded(frozenset(sys.modules) if at_start is None else at_start)


def test_a_packages_place_files_and_contents(tree: Path) -> None:
    found = loaded()
    thing = found["packages"]["thing"]
    assert thing["origin"] == str(tree)
    assert thing["files"] == ["__init__.py", "deep/__init__.py", "deep/a.py"]
    assert "elsewhere" not in thing
    git = subprocess.run(
        ["git", "hash-object", str(tree / "deep" / "a.py")], capture_output=True, text=True, check=True
    )
    assert found["files"][str(tree / "deep" / "a.py")] == git.stdout.strip()
    assert str(tree / "deep" / "a.py") not in found["newer"]


def test_the_hash_tells_contents_apart_and_not_places_nor_what_came_later(tree: Path, tmp_path: Path) -> None:
    before = loaded()["packages"]["thing"]["hash"]
    early = loaded(at_start=frozenset({"thing", "thing.deep"}))["packages"]["thing"]["hash"]
    assert early != before
    (tree / "deep" / "late.py").write_text("C = 3\n")
    importlib.import_module("thing.deep.late")
    assert loaded(at_start=frozenset({"thing", "thing.deep"}))["packages"]["thing"]["hash"] == early
    (tree / "deep" / "a.py").write_text("B = 3\n")
    assert loaded(at_start=frozenset({"thing", "thing.deep", "thing.deep.a"}))["packages"]["thing"]["hash"] != before
    assert "hash" not in loaded(at_start=frozenset())["packages"]["thing"]


def test_a_file_that_changed_after_the_start_is_named(tree: Path) -> None:
    (tree / "deep" / "a.py").write_text("B = 22\n")
    future = time.time() + 5
    os.utime(tree / "deep" / "a.py", (future, future))
    assert str(tree / "deep" / "a.py") in loaded()["newer"]


def test_each_file_is_read_once(tree: Path) -> None:
    code = Code(Trees(""))
    first = code.loaded(frozenset())["files"][str(tree / "deep" / "a.py")]
    (tree / "deep" / "a.py").write_text("B = 4\n")
    assert code.loaded(frozenset())["files"][str(tree / "deep" / "a.py")] == first


def test_lazy_modules_are_not_woken(tree: Path) -> None:
    class Lazy(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} was asked for")

    module = Lazy("lazy")
    module.__dict__["__file__"] = str(tree / "lazy.py")
    sys.modules["lazy"] = module
    assert loaded()["packages"]["lazy"]["origin"] == str(tree / "lazy.py")


def test_modules_that_are_none_and_files_that_are_gone(tree: Path) -> None:
    sys.modules["odd"] = None  # type: ignore[assignment]
    sys.modules["odd.text"] = "text"  # type: ignore[assignment]
    gone = types.ModuleType("thing.gone")
    gone.__file__ = str(tree / "gone.py")
    sys.modules["thing.gone"] = gone
    found = loaded()
    assert found["files"][str(tree / "gone.py")] == ""
    assert "odd" not in found["packages"]


def test_a_module_from_another_place_is_told_apart(tree: Path, tmp_path: Path) -> None:
    shim = types.ModuleType("thing.shim")
    shim.__file__ = str(tmp_path / "patch" / "shim.py")
    sys.modules["thing.shim"] = shim
    assert loaded()["packages"]["thing"]["elsewhere"] == {"thing.shim": str(tmp_path / "patch" / "shim.py")}


def test_installed_packages_are_listed_and_not_read_and_the_standard_library_is_neither(tree: Path) -> None:
    found = loaded()
    assert "_pytest/config/__init__.py" in [f"_pytest/{f}" for f in found["packages"]["_pytest"]["files"]]
    assert "hash" not in found["packages"]["_pytest"]
    assert not any("site-packages" in file for file in found["files"])
    assert not {"json", "os", "envsnap"} & set(found["packages"])


@pytest.mark.parametrize(
    ("file", "held"),
    [
        ("/srv/repo/python/sglang/srt/a.py", True),
        ("/usr/lib/python3/dist-packages/apt/a.py", False),
        ("/srv/repo/.venv/lib/python3.12/site-packages/torch/a.py", False),
        (os.__file__, False),
        ("<string>", False),
        ("/tmp/torchinductor_root/d3/c.py", False),
        ("/home/x/.cache/torch_extensions/a.py", False),
        ("/data/inductor/d3/c.py", False),
    ],
)
def test_whose_code_it_is(file: str, held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/data/inductor")
    assert Trees("").holds(file) is held
    assert Trees("off").holds(file) is False


def test_given_directories_stand_in_for_the_rule(tmp_path: Path) -> None:
    trees = Trees(f"{tmp_path}/site-packages/sglang:{tmp_path}/mine")
    assert trees.holds(f"{tmp_path}/site-packages/sglang/srt/a.py")
    assert trees.holds(f"{tmp_path}/mine/a.py")
    assert not trees.holds(f"{tmp_path}/site-packages/sglang_extra/a.py")
    assert not trees.holds("/srv/repo/a.py")
