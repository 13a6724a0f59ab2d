"""Installed distributions: as installers, build tools and accidents leave them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from envsnap import collectors
from envsnap.collectors import _pins, packages
from envsnap.collectors._dists import installed, normalised
from envsnap.host import LiveHost
from envsnap.keys import Effect
from envsnap.reading import Missing, Value, Why
from envsnap.scope import Scope
from tests.collectors.environments import MINOR, Venv, section_of
from tests.fakes import FakeHost


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Venv:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return Venv(tmp_path / "venv")


def values(venv: Venv) -> dict[str, Any]:
    section = section_of("packages", venv.scope)
    assert section.complete, section.reason
    return section.values


# -- what is installed ----------------------------------------------------------------------------------------


def test_it_agrees_with_importlib_about_this_environment() -> None:
    theirs = {normalised(d.metadata["Name"]): d for d in reversed(list(importlib.metadata.distributions()))}
    first = installed(LiveHost(), Scope()).first
    mine = {name: dist for name, dist in first.items() if name in theirs}
    assert len(mine) > 15
    for name, dist in mine.items():
        assert dist.version == Value(theirs[name].version)
        required = theirs[name].requires or []
        if dist.metadata.endswith(".dist-info"):
            assert [r.replace(" ", "") for r in dist.requires] == [r.replace(" ", "") for r in required]


def test_a_distribution_by_name_version_and_record(venv: Venv) -> None:
    venv.dist("Foo.Bar_baz", "2.9.1+cu128", record="foo.py,sha256=abc,10\n")
    found = values(venv)
    assert found["package[foo-bar-baz].version"] == "2.9.1+cu128"
    assert found["package[foo-bar-baz].local_tag"] == "cu128"
    assert found["package[foo-bar-baz].origin"] == "index"
    assert found["package[foo-bar-baz].record_sha256"] == hashlib.sha256(b"foo.py,sha256=abc,10\n").hexdigest()
    assert "package[foo-bar-baz].copies_count" not in found


def test_another_build_of_one_version_shows_in_its_record(tmp_path: Path) -> None:
    hashes = set()
    for name in ("a", "b"):
        venv = Venv(tmp_path / name)
        venv.dist("kernel", "1.0", record=f"kernel.so,sha256={name},10\n")
        hashes.add(values(venv)["package[kernel].record_sha256"])
    assert len(hashes) == 2


URL = {"url": "https://host/x.whl"}


@pytest.mark.parametrize(
    ("direct_url", "expected"),
    [
        (None, {"origin": "index"}),
        (
            {"url": "file:///src/a%20b", "dir_info": {"editable": True}},
            {"origin": "editable", "editable_path": "/src/a b"},
        ),
        ({"url": "file:///src", "dir_info": {}}, {"origin": "directory"}),
        (
            {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "0be30d4"}},
            {"origin": "vcs", "vcs_commit": "0be30d4"},
        ),
        ({**URL, "archive_info": {"hash": "sha256=abc"}}, {"origin": "url"}),
        (URL, {"origin": "url"}),
        ("{", {"origin": "url"}),
        ("[" * 50_000, {"origin": "url"}),
        ("[1]", {"origin": "url"}),
        ({"url": 7, "dir_info": {"editable": True}}, {"origin": "editable"}),
        ({"url": "ssh://host/x", "dir_info": {"editable": True}}, {"origin": "editable"}),
        ({"url": "https://host", "vcs_info": "git"}, {"origin": "vcs"}),
    ],
)  # fmt: skip
def test_where_a_distribution_came_from(venv: Venv, direct_url: Any, expected: dict[str, str]) -> None:
    venv.dist("foo", "1.0", direct_url=direct_url)
    found = values(venv)
    assert {k: found[f"package[foo].{k}"] for k in expected} == expected
    keys = {"origin", "editable_path", "vcs_commit"} - set(expected)
    assert [k for k in keys if f"package[foo].{k}" in found] == []


def test_a_real_editable_installation_and_its_build_leftovers_are_one(venv: Venv, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "src").mkdir(parents=True)
    venv.dist("engine", "1.0", direct_url={"url": f"file://{tree}", "dir_info": {"editable": True}})
    (venv.site / "__editable__.engine-1.0.pth").write_text(f"{tree}/src\n")
    leftover = tree / "src/engine.egg-info"
    leftover.mkdir()
    (leftover / "PKG-INFO").write_text("Name: engine\nVersion: 0.9\n")
    found = values(venv)
    assert found["package[engine].version"] == "1.0"
    assert found["package[engine].editable_path"] == str(tree)
    assert "package[engine].copies_count" not in found


def test_a_tree_that_an_egg_link_leads_to_is_editable(venv: Venv, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "old_style.egg-info").mkdir(parents=True)
    (tree / "old_style.egg-info/PKG-INFO").write_text("Name: old-style\nVersion: 3\n")
    (venv.site / "old-style.egg-link").write_text(f"{tree}\n.")
    (venv.site / "easy-install.pth").write_text(f"{tree}\n")
    found = values(venv)
    assert found["package[old-style].version"] == "3"
    assert found["package[old-style].origin"] == "editable"
    assert found["package[old-style].editable_path"] == str(tree)


BACKEND = """
import zipfile

def build_wheel(directory, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(f"{directory}/NAME-1.5-py3-none-any.whl", "w") as wheel:
        wheel.writestr("NAME.py", "")
        wheel.writestr("NAME-1.5.dist-info/METADATA", "Metadata-Version: 2.1\\nName: NAME\\nVersion: 1.5\\n")
        wheel.writestr("NAME-1.5.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr("NAME-1.5.dist-info/RECORD", "")
    return "NAME-1.5-py3-none-any.whl"

build_editable = build_wheel
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_what_a_real_pip_leaves_behind(venv: Venv, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        tree = tmp_path / name
        tree.mkdir()
        (tree / "backend.py").write_text(BACKEND.replace("NAME", name))
        (tree / "pyproject.toml").write_text(PROJECT)
    git = ["git", "-C", str(tmp_path / "three"), "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "message"]):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    pip = [sys.executable, "-m", "pip", "--python", str(venv.python), "install", "-q", "--no-deps", "--no-index"]
    given = ["-e", "./one", "./two", f"git+file://{tmp_path}/three"]
    subprocess.run([*pip, "--no-build-isolation", *given], check=True, cwd=tmp_path, capture_output=True)
    found = values(venv)
    assert {found[f"package[{name}].version"] for name in ("one", "two", "three")} == {"1.5"}
    assert [found[f"package[{name}].origin"] for name in ("one", "two", "three")] == ["editable", "directory", "vcs"]
    assert found["package[one].editable_path"] == str(tmp_path / "one")
    assert found["package[three].vcs_commit"] == commit
    assert found["package[one].record_sha256"] != found["package[two].record_sha256"]


def test_two_copies_of_one_name_are_listed(venv: Venv) -> None:
    venv.dist("torch", "2.8.0")
    venv.dist("torch", "2.9.1")
    found = values(venv)
    assert found["package[torch].copies_count"] == 2
    assert found["package[torch].copy_versions"] == ["2.8.0", "2.9.1"]


def test_a_copy_earlier_on_the_path_is_the_one_that_counts(
    venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "given"))
    venv.dist("triton", "3.5.0")
    venv.dist("triton", "3.6.0", site=tmp_path / "given")
    found = values(venv)
    assert found["package[triton].version"] == "3.6.0"
    assert found["package[triton].copy_versions"] == ["3.5.0", "3.6.0"]


def test_a_directory_that_two_entries_of_the_path_lead_to_counts_once(
    venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(venv.site)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "link"))
    venv.dist("foo", "1.0")
    assert "package[foo].copies_count" not in values(venv)


# -- accidents ------------------------------------------------------------------------------------------------


def test_leftovers_and_broken_metadata_are_named(venv: Venv) -> None:
    (venv.site / "~orch").mkdir()
    (venv.site / "~orch-2.8.0.dist-info").mkdir()
    (venv.site / "-riton").mkdir()
    (venv.site / ".dist-info").mkdir()
    (venv.site / "bytes\udcff-1.0.dist-info").mkdir()
    (venv.site / "empty-1.0.dist-info").mkdir()
    (venv.site / "nameless-1.0.dist-info").mkdir()
    (venv.site / "nameless-1.0.dist-info/METADATA").write_text("Summary: no version either\n")
    section = section_of("packages", venv.scope)
    assert section.values["packages.broken"] == [
        "-riton", ".dist-info", "bytes\udcff-1.0.dist-info", "empty-1.0.dist-info", "nameless-1.0.dist-info",
        "~orch", "~orch-2.8.0.dist-info",
    ]  # fmt: skip
    assert section.unavailable["package[empty].version"].why is Why.ABSENT
    assert section.unavailable["package[nameless].version"].why is Why.NOT_SUPPORTED
    assert "package[empty].version" not in section.values


def test_a_broken_copy_does_not_hide_a_good_one(venv: Venv) -> None:
    (venv.site / "foo-0.9.dist-info").mkdir()
    venv.dist("foo", "1.0")
    found = values(venv)
    assert found["package[foo].version"] == "1.0"
    assert found["package[foo].copies_count"] == 2
    assert found["package[foo].copy_versions"] == ["1.0"]


def test_metadata_of_ten_megabytes_is_read_at_its_head_alone(venv: Venv) -> None:
    class Counting(LiveHost):
        most = 0

        def ask(self, requests: Any) -> Any:
            answers = super().ask(requests)
            self.most = max(self.most, *(len(a[1]) for a in answers if isinstance(a[1], str)), 0)
            return answers

    venv.dist("huge", "1.0", requires=["absent<1"], description="x" * (10 << 20))
    host = Counting()
    first = installed(host, venv.scope).first
    assert first["huge"].version == Value("1.0")
    assert first["huge"].requires == ("absent<1",)
    assert host.most < 1 << 20


def test_what_the_description_says_is_no_field(venv: Venv) -> None:
    venv.dist("foo", "1.0", description="Version: 9\nRequires-Dist: bar<1\nName: other\n")
    dist = installed(LiveHost(), venv.scope).first["foo"]
    assert (dist.version, dist.requires) == (Value("1.0"), ())


def test_line_ends_and_encodings_of_any_kind(venv: Venv) -> None:
    folder = venv.dist("foo", "1.0")
    (folder / "METADATA").write_bytes(
        b"Name: foo\r\nVersion: 1.5\r\nAuthor: caf\xe9\r\nRequires-Dist: bar (<1)\r\n\r\nVersion: 9\r\n"
    )
    dist = installed(LiveHost(), venv.scope).first["foo"]
    assert (dist.version, dist.requires) == (Value("1.5"), ("bar (<1)",))


def test_a_directory_that_may_not_be_listed_makes_the_section_incomplete() -> None:
    site = f"/venv/lib/python{MINOR}/site-packages"
    files = {
        "/venv/bin/python": "\x7fELF", "/venv/pyvenv.cfg": f"home = /base/bin\nversion = {MINOR}.1\n",
        f"/base/lib/python{MINOR}/os.py": "", f"{site}/foo-1.0.dist-info/METADATA": "Name: foo\nVersion: 1.0\n",
        "/given/bar-1.0.dist-info/METADATA": "Name: bar\nVersion: 1.0\n",
    }  # fmt: skip
    environ = {"HOME": "/root", "PYTHONPATH": "/given"}
    replies = {("self",): {**LiveHost().self(), "executable": "/p"}, ("environ",): environ, ("find",): None}
    host = FakeHost(files, replies=replies, denied=["/given"])
    section = section_of("packages", Scope(python="/venv/bin/python"), host)
    assert section.values["package[foo].version"] == "1.0"
    assert section.status == "partial"
    assert "/given cannot be listed" in section.reason


# -- other systems --------------------------------------------------------------------------------------------


def _fake(files: dict[str, str], prefix: str, chosen: str) -> FakeHost:
    replies: dict[tuple[Any, ...], Any] = {
        ("self",): {**LiveHost().self(), "executable": "/p"}, ("environ",): {"HOME": "/root"}, ("find",): "3.11.2",
    }  # fmt: skip
    lib = f"{prefix}/lib/python3.11"
    return FakeHost({chosen: "\x7fELF", f"{lib}/os.py": "", **files}, replies=replies)


def test_debians_packages_come_from_the_distribution() -> None:
    system, local = "/usr/lib/python3/dist-packages", "/usr/local/lib/python3.11/dist-packages"
    files = {
        f"{system}/PyYAML-6.0.egg-info/PKG-INFO": "Name: PyYAML\nVersion: 6.0\n",
        f"{system}/six-1.16.0.egg-info": "Metadata-Version: 1.2\nName: six\nVersion: 1.16.0\n",
        f"{system}/cryptography.egg-info/PKG-INFO": "Name: cryptography\nVersion: 38.0.4\n",
        f"{system}/cryptography-38.0.4.dist-info/METADATA": "Name: cryptography\nVersion: 38.0.4\n",
        f"{local}/torch-2.9.1.dist-info/METADATA": "Name: torch\nVersion: 2.9.1\n",
    }
    found = section_of(
        "packages", Scope(python="/usr/bin/python3.11"), _fake(files, "/usr", "/usr/bin/python3.11")
    ).values
    assert (found["package[pyyaml].version"], found["package[pyyaml].origin"]) == ("6.0", "distro")
    assert found["package[six].version"] == "1.16.0"
    assert found["package[torch].origin"] == "index"
    assert "package[cryptography].copies_count" not in found
    assert "package[six].record_sha256" not in found


def test_condas_own_record_holds_builds() -> None:
    site = "/conda/lib/python3.11/site-packages"
    files = {
        "/conda/conda-meta/nccl-2.27.5.1-h6fe8a4d_0.json": "{}",
        "/conda/conda-meta/python-3.11.2-h2755cc3_0_cpython.json": "{}",
        "/conda/conda-meta/history": "",
        f"{site}/numpy-2.0.dist-info/METADATA": "Name: numpy\nVersion: 2.0\n",
        f"{site}/numpy-2.0.dist-info/INSTALLER": "conda",
        f"{site}/torch-2.9.1.dist-info/METADATA": "Name: torch\nVersion: 2.9.1\n",
        f"{site}/torch-2.9.1.dist-info/INSTALLER": "pip\n",
    }
    found = section_of(
        "packages", Scope(python="/conda/bin/python"), _fake(files, "/conda", "/conda/bin/python")
    ).values
    assert (found["conda[nccl].version"], found["conda[nccl].build"]) == ("2.27.5.1", "h6fe8a4d_0")
    assert found["conda[python].build"] == "h2755cc3_0_cpython"
    assert "conda[history].version" not in found
    assert found["package[numpy].origin"] == "conda"
    assert found["package[torch].origin"] == "index"


def test_the_empty_machine_has_no_packages() -> None:
    with pytest.raises(Missing):
        list(packages.collect(FakeHost(), Scope()))


# -- pins -----------------------------------------------------------------------------------------------------


def test_violated_pins_are_what_pip_check_would_say(venv: Venv) -> None:
    venv.dist("numpy", "2.4.6")
    venv.dist("torch", "2.9.1+cu128")
    venv.dist("triton", "3.6.0.post1")
    venv.dist(
        "engine", "1.0",
        requires=[
            "numpy<2", "torch==2.9.1", "Triton (==3.5.1)", "absent==1", 'numpy==1; python_version < "3"',
            'torch<2; extra == "old"',
            'numpy<2.5,>=2; sys_platform == "linux"', 'numpy!=2.4.6; sys_platform == "linux"',
            "torch @ https://host/torch.whl", "numpy", "torch[cuda]>=2.9",
        ],
    )  # fmt: skip
    venv.dist("calm", "1.0", requires=["numpy>=2", "torch~=2.9.0", "triton>=3.6"])
    found = values(venv)
    assert found["package[engine].violated_pins"] == [
        "requires numpy!=2.4.6 (has 2.4.6)", "requires numpy<2 (has 2.4.6)", "requires triton==3.5.1 (has 3.6.0.post1)",
    ]  # fmt: skip
    assert "package[calm].violated_pins" not in found


def test_a_requirement_that_cannot_be_understood_is_unknown(venv: Venv) -> None:
    venv.dist("numpy", "2.4.6")
    venv.dist("odd", "1.0", requires=["numpy<1 ; nonsense"])
    section = section_of("packages", venv.scope)
    assert section.unavailable["package[odd].violated_pins"].why is Why.NOT_SUPPORTED
    assert "package[odd].violated_pins" not in section.values


def test_markers_are_those_of_the_described_interpreter() -> None:
    site = "/other/lib/python3.11/site-packages"
    files = {
        f"{site}/numpy-1.0.dist-info/METADATA": "Name: numpy\nVersion: 1.0\n",
        f"{site}/a-1.0.dist-info/METADATA": "Name: a\nVersion: 1\n"
        'Requires-Dist: numpy>2; python_version == "3.11"\nRequires-Dist: numpy>3; python_version != "3.11"\n'
        'Requires-Dist: numpy>4; python_full_version == "3.11.2"\n',
    }
    found = section_of(
        "packages", Scope(python="/other/bin/python"), _fake(files, "/other", "/other/bin/python")
    ).values
    assert found["package[a].violated_pins"] == ["requires numpy>2 (has 1.0)", "requires numpy>4 (has 1.0)"]


def test_packaging_is_asked_once(venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    venv.dist("numpy", "2.4.6")
    venv.dist("engine", "1.0", requires=["numpy<2", "numpy>=2"])
    scope = Scope(python=str(venv.python))
    first = section_of("packages", scope).values["package[engine].violated_pins"]

    def refuse(*_: object) -> str:
        raise AssertionError("asked again")

    monkeypatch.setattr(_pins, "_judged", refuse)
    assert (
        section_of("packages", scope).values["package[engine].violated_pins"]
        == first
        == ["requires numpy<2 (has 2.4.6)"]
    )
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.rmtree(venv.site / "numpy-2.4.6.dist-info")
    venv.dist("numpy", "1.26")  # another version is another question
    assert section_of("packages", scope).values["package[engine].violated_pins"] == ["requires numpy>=2 (has 1.26)"]


NUMBERS = st.lists(st.integers(0, 12), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
VERSIONS = st.builds(lambda v, tail: v + tail, NUMBERS, st.sampled_from(["", "", "+cu128", "rc1", ".post1", ".dev2"]))
CLAUSES = st.builds(lambda op, v: op + v, st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "~=", "=="]), NUMBERS)
CLAUSES = CLAUSES.filter(lambda clause: not clause.startswith("~=") or "." in clause)


@given(VERSIONS, st.lists(CLAUSES, min_size=1, max_size=3).map(",".join))
def test_what_numbers_show_to_be_met_is_met(version: str, specifier: str) -> None:
    if _pins._plainly_met(specifier, _pins._release(version)):
        assert SpecifierSet(specifier).contains(version, prereleases=True)


@pytest.mark.parametrize(
    ("specifier", "version"), [(">=2,<3", "2.9.1"), ("==2.9.1", "2.9.1+cu128"), ("==2.0", "2"), ("!=2.0", "2.1")]
)
def test_plain_requirements_need_no_packaging(specifier: str, version: str) -> None:
    assert _pins._plainly_met(specifier, _pins._release(version))


def test_digits_without_end_cost_nothing(venv: Venv) -> None:
    folder = venv.dist("numpy", "2")
    (folder / "METADATA").write_text(f"Name: numpy\nVersion: {'2' * 6000}\n\n")
    venv.dist("odd", "1.0", requires=["numpy>=" + "1" * 6000])
    section = section_of("packages", venv.scope)
    assert section.values["package[odd].version"] == "1.0"


# -- what matters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "prior", "effect"),
    [
        ("nvidia-nccl-cu13", 0.7, Effect.COMMUNICATION),
        ("sglang-kernel", 0.6, Effect.VERIFY),
        ("flashinfer-cubin", 0.6, Effect.COMPUTE),
        ("nvidia-ml-py", 0.02, Effect.HOST_LAUNCH),
        ("requests", 0.05, Effect.HOST_LAUNCH),
    ],
)
def test_packages_weigh_by_name(name: str, prior: float, effect: Effect) -> None:
    key = collectors.key_for(f"package[{name}].version")
    assert key.prior == prior
    assert effect in key.effects
