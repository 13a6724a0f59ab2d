"""The interpreter: the running one, one that is named, one that a process runs; what runs at its start."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import envsnap
from envsnap.capture import capture
from envsnap.collectors import Partial, python
from envsnap.collectors._interpreter import described, interpreter
from envsnap.collectors._process_python import of_processes
from envsnap.host import LiveHost
from envsnap.reading import Found, Missing, Unavailable, Value, Why
from envsnap.scope import Scope
from tests.collectors.environments import BASE, MINOR, Venv, section_of
from tests.fakes import FakeHost
from tests.processes import Spawn
from tests.workers.test_tree import machine

ROOT = str(Path(envsnap.__file__).parents[1])
HAS_HEADERS = (Path(sysconfig.get_paths()["include"]) / "patchlevel.h").exists()
OWN_WORDS = (
    "import json, site, sys; print(json.dumps([sys.path[1:], sys.prefix, sys.base_prefix, "
    "bool(site.ENABLE_USER_SITE), site.getusersitepackages(), sys.version.split()[0]]))"
)


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Venv:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return Venv(tmp_path / "venv")


class EnvironHost(LiveHost):
    """This machine with another environment of the calling process."""

    def __init__(self, **environ: str) -> None:
        super().__init__()
        self._environ = {**os.environ, **environ}

    def environ(self) -> dict[str, str]:
        return self._environ


# -- the running one ------------------------------------------------------------------------------------------


def test_the_running_interpreter_speaks_for_itself() -> None:
    section = section_of("python", Scope())
    values = section.values
    assert section.complete
    assert values["python.chosen_by"] == "running"
    assert values["python.executable"] == sys.executable
    assert values["python.real_executable"] == os.path.realpath(sys.executable)
    assert values["python.version"] == sys.version.split()[0]
    assert values["python.build"] == " ".join(sys.version.split()[1:])
    assert values["python.prefix"] == sys.prefix
    assert values["python.venv"] is (sys.prefix != sys.base_prefix)
    assert values["python.flag[optimize]"] == sys.flags.optimize
    assert not [path for path in values if path.startswith("python.flag[n_")]


def test_the_place_of_the_program_that_was_started_is_no_part_of_the_path(tmp_path: Path) -> None:
    code = (
        "from envsnap.host import LiveHost; from envsnap.scope import Scope;"
        "from envsnap.collectors._interpreter import interpreter;"
        "import json; print(json.dumps(interpreter(LiveHost(), Scope()).path))"
    )
    (tmp_path / "program.py").write_text(code)
    environ = {**os.environ, "PYTHONPATH": ROOT}
    for arguments in (["-c", code], ["program.py"], [str(tmp_path / "program.py")], ["-m", "program"]):
        done = subprocess.run(
            [sys.executable, *arguments], env=environ, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        path = json.loads(done.stdout)
        assert path[0] == ROOT
        assert sysconfig.get_paths()["stdlib"] in path


def test_a_script_folder_is_dropped_and_a_given_path_is_kept(tmp_path: Path) -> None:
    own = {**LiveHost().self(), "cwd": "/job", "argv": ["/opt/bench/run.py"], "prefix": "/venv"}
    for first in ("", "/job", "/opt/bench", "/venv/bin"):
        host = FakeHost(replies={("self",): {**own, "path": [first, "/given"]}, ("environ",): {"HOME": "/home/me"}})
        assert interpreter(host, Scope()).path == ("/given",)
    host = FakeHost(replies={("self",): {**own, "path": ["/first", "/given"]}, ("environ",): {"HOME": "/home/me"}})
    assert interpreter(host, Scope()).path == ("/first", "/given")


@pytest.mark.parametrize(("given", "said"), [(None, "random"), ("", "random"), ("0", "0"), ("random", "random")])
def test_the_hash_seed_is_random_unless_it_is_set(given: str | None, said: str) -> None:
    host = EnvironHost()
    host.environ().pop("PYTHONHASHSEED", None)
    if given is not None:
        host.environ()["PYTHONHASHSEED"] = given
    assert dict(python.collect(host, Scope()))["python.hash_seed"] == Value(said)


# -- another one ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system_site", [False, True])
@pytest.mark.parametrize("environ", [{}, {"PYTHONPATH": "/nowhere:relative"}, {"PYTHONNOUSERSITE": "1"}])
def test_a_description_equals_what_the_interpreter_says_itself(
    venv: Venv, tmp_path: Path, system_site: bool, environ: dict[str, str]
) -> None:
    if system_site:
        venv = Venv(tmp_path / "other", system_site=True)
    home = {"HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    (tmp_path / f".local/lib/python{MINOR}/site-packages").mkdir(parents=True)
    (tmp_path / "more").mkdir()
    (venv.site / "a.pth").write_text(
        f"# comment\n{tmp_path}/more\n{tmp_path}/absent\n../../..\nimport importlib.util\n"
    )
    (venv.site / ".hidden.pth").write_text(f"{tmp_path}\n")
    done = subprocess.run(
        [venv.python, "-c", OWN_WORDS],
        env={**home, **environ},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    path, prefix, base_prefix, enabled, user_site, version = json.loads(done.stdout)
    host = LiveHost()
    host.self()["cwd"] = str(tmp_path)
    found = described(host, str(venv.python), {**home, **environ}, "argument")
    if system_site:  # the base's own .pth files may run code, which is what doubts are for
        path = [p for p in path if p in found.path]
    if sys.version_info < (3, 12, 4) and f"{tmp_path}" in path:
        path.remove(f"{tmp_path}")  # hidden .pth files were obeyed then
    assert list(found.path) == path
    assert (found.prefix, found.base_prefix) == (prefix, base_prefix)
    assert (found.user_site_enabled, found.user_site) == (enabled, user_site)
    if HAS_HEADERS:
        assert found.version == Value(version)
    assert found.minor == MINOR


def test_a_named_interpreter_is_described_and_not_run(venv: Venv, tmp_path: Path) -> None:
    canary = tmp_path / "was-run"
    (venv.site / "canary.pth").write_text(f"import sys; open({str(canary)!r}, 'w')\n")
    section = section_of("python", venv.scope)
    assert section.values["python.chosen_by"] == "argument"
    assert section.values["python.prefix"] == str(venv.root)
    assert section.values["python.venv"] is True
    assert section.unavailable["python.build"].why is Why.OFF
    assert section.unavailable["python.flag"].why is Why.OFF
    assert not canary.exists()
    assert section.status == "partial"
    assert "canary.pth runs code at start" in section.reason
    assert not section.complete


@pytest.mark.parametrize(
    "name", ["venv", "venv/", "venv/bin/python", "./venv/bin/python"], ids=["folder", "slash", "file", "dot"]
)
def test_a_virtual_environment_can_be_named_in_several_ways(
    venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = interpreter(LiveHost(), Scope(python=name))
    assert (found.executable, found.prefix) == (str(venv.python), str(venv.root))


def test_a_bare_name_is_looked_up_on_the_path(venv: Venv) -> None:
    host = EnvironHost(PATH=f"/nowhere:{venv.python.parent}:/usr/bin")
    assert interpreter(host, Scope(python="python")).executable == str(venv.python)


def test_the_running_one_by_name_keeps_its_own_word() -> None:
    found = interpreter(LiveHost(), Scope(python=sys.executable))
    assert found.running
    assert found.chosen_by == "argument"


@pytest.mark.parametrize(
    ("content", "why", "word"),
    [("#!/bin/sh\nexec python\n", Why.NOT_SUPPORTED, "script"), ("\x7fELF", Why.ABSENT, "no standard library")],
)
def test_what_is_no_interpreter_is_said(tmp_path: Path, content: str, why: Why, word: str) -> None:
    fake = tmp_path / "bin/python"
    fake.parent.mkdir()
    fake.write_text(content)
    with pytest.raises(Missing, match=word) as caught:
        interpreter(LiveHost(), Scope(python=str(fake)))
    assert caught.value.why is why
    with pytest.raises(Missing, match="no interpreter"):
        interpreter(LiveHost(), Scope(python=str(tmp_path / "absent")))


def test_debians_own_interpreter_has_places_of_its_own() -> None:
    files = {
        "/usr/bin/python3.12": "\x7fELF", "/usr/lib/python3.12/os.py": "", "/usr/lib/python3/dist-packages/apt.py": "",
        "/usr/local/lib/python3.12/dist-packages/x.py": "", "/etc/python3.12/sitecustomize.py": "apport",
        "/usr/lib/python3/dist-packages/sitecustomize.py": "mine",
    }  # fmt: skip
    links = {
        "/usr/bin/python3": "python3.12",
        "/usr/lib/python3.12/sitecustomize.py": "/etc/python3.12/sitecustomize.py",
    }
    own = {**LiveHost().self(), "executable": "/opt/python"}
    host = FakeHost(files, links, {("self",): own, ("environ",): {"HOME": "/root"}, ("find",): "3.12.3"})
    found = dict(python.collect(host, Scope(python="/usr/bin/python3")))
    assert found["python.version"] == Value("3.12.3")
    assert found["python.path"] == Value([
        "/usr/lib/python312.zip", "/usr/lib/python3.12", "/usr/lib/python3.12/lib-dynload",
        "/usr/local/lib/python3.12/dist-packages", "/usr/lib/python3/dist-packages",
    ])  # fmt: skip
    assert found["python.sitecustomize[0].path"] == Value("/usr/lib/python3.12/sitecustomize.py")
    assert found["python.sitecustomize[0].sha256"] == Value(hashlib.sha256(b"apport").hexdigest())
    assert found["python.sitecustomize[1].path"] == Value("/usr/lib/python3/dist-packages/sitecustomize.py")


def test_fedoras_interpreter_keeps_compiled_packages_apart() -> None:
    files = {
        "/usr/bin/python3.12": "\x7fELF", "/usr/lib64/python3.12/os.py": "",
        "/usr/lib64/python3.12/site-packages/x.py": "", "/usr/lib/python3.12/site-packages/x.py": "",
    }  # fmt: skip
    own = {**LiveHost().self(), "executable": "/opt/python"}
    host = FakeHost(files, replies={("self",): own, ("environ",): {"HOME": "/root"}, ("find",): None})
    found = interpreter(host, Scope(python="/usr/bin/python3.12"))
    assert found.path[0] == "/usr/lib64/python312.zip"
    assert found.site_dirs == ("/usr/lib64/python3.12/site-packages", "/usr/lib/python3.12/site-packages")
    assert isinstance(found.version, Unavailable)


# -- of a process ---------------------------------------------------------------------------------------------


@pytest.fixture
def sleeper(spawn: Spawn, venv: Venv, tmp_path: Path) -> subprocess.Popen[str]:
    """A process of the environment, started by a bare name on a PATH that envsnap does not have."""
    environ = {"PATH": f"{venv.python.parent}:/usr/bin", "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "given")}
    code = "print('up', flush=True); import time; time.sleep(60)"
    child: subprocess.Popen[str] = spawn(
        ["python", "-c", code], executable=str(venv.python), env=environ, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    assert child.stdout.readline() == "up\n"
    return child


def test_the_interpreter_of_a_process_of_interest_is_taken(
    venv: Venv, tmp_path: Path, sleeper: subprocess.Popen[str]
) -> None:
    section = section_of("python", Scope(pids=(sleeper.pid,)))
    assert section.values["python.chosen_by"] == "process"
    assert section.values["python.executable"] == str(venv.python)
    assert section.values["python.prefix"] == str(venv.root)
    assert section.values["python.path"][0] == str(tmp_path / "given")
    assert interpreter(LiveHost(), Scope(pids=(sleeper.pid,))).environ["HOME"] == str(tmp_path)


def test_an_argument_goes_before_a_process(sleeper: subprocess.Popen[str]) -> None:
    found = interpreter(LiveHost(), Scope(pids=(sleeper.pid,), python=sys.executable))
    assert (found.executable, found.chosen_by) == (sys.executable, "argument")


@pytest.mark.skipif("PYTEST_XDIST_WORKER" in os.environ, reason="a Python started this one then")
def test_a_process_that_is_no_python_leaves_the_running_one() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert interpreter(LiveHost(), Scope(pids=(child.pid,))).chosen_by == "running"
    finally:
        child.kill()
        child.wait()


def test_processes_that_have_all_written_titles_are_not_described_by_the_running_python() -> None:
    ranks = (10, 1, "sglang::scheduler_TP0\0\0\0"), (11, 10, "sglang::scheduler_TP1\0\0\0")
    host = machine((1, 0, "init\0"), *ranks)
    host.links |= {"/proc/10/exe": "/usr/bin/python3.11", "/proc/11/exe": "/usr/bin/python3.11"}
    scope = Scope(match=("sglang",))
    with pytest.raises(Missing, match="--python") as caught:
        interpreter(host, scope)
    assert caught.value.why is Why.CLOBBERED
    for name in ("python", "packages", "libraries"):
        section = capture(scope, host, only=[name]).sections[name]
        assert (section.status, section.values) == ("unavailable", {})
    # What says of itself that it is none of Python's programs hides none.
    host.links = {"/proc/10/exe": "/usr/bin/nginx", "/proc/11/exe": "/usr/bin/nginx"}
    assert of_processes(host, scope) is None


def test_a_process_that_hides_its_path_is_a_doubt(venv: Venv) -> None:
    code = "print('up', flush=True); import time; time.sleep(60)"
    with subprocess.Popen(
        ["/elsewhere/python", "-c", code], executable=str(venv.python), stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout
            child.stdout.readline()
            found = interpreter(LiveHost(), Scope(pids=(child.pid,)))
        finally:
            child.kill()
    assert found.executable == str(BASE)
    assert any("does not tell" in doubt for doubt in found.doubts)


def _can_unshare() -> bool:
    return (
        bool(shutil.which("unshare")) and not subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode
    )


@pytest.mark.skipif(not _can_unshare(), reason="needs unshare and the right to use it")
def test_a_process_that_sees_other_files_is_not_described_by_ours(venv: Venv) -> None:
    code = "print('up', flush=True); import time; time.sleep(60)"
    with subprocess.Popen(
        ["unshare", "-m", str(venv.python), "-c", code], stdout=subprocess.PIPE, text=True
    ) as child:  # unshare executes it in its own place
        try:
            assert child.stdout
            child.stdout.readline()
            models = capture(Scope(pids=(child.pid,), models=("/",)), only=["models"]).sections["models"]
            assert "mount namespace" in models.unavailable["model[/]"].detail
            assert not models.values
            for name in ("python", "packages", "libraries", "caches"):
                section = capture(Scope(pids=(child.pid,), models=("a",)), only=[name]).sections[name]
                assert (section.status, section.values) == ("unavailable", {})
                assert "mount namespace" in section.reason
        finally:
            child.kill()


# -- what runs at its start -----------------------------------------------------------------------------------


def test_customize_modules_stand_in_the_order_in_which_python_finds_them(venv: Venv, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "sitecustomize").mkdir(parents=True)  # no module: it has no __init__.py
    (second / "usercustomize").mkdir(parents=True)
    (second / "usercustomize/__init__.py").write_text("package = 1\n")
    (second / "sitecustomize.py").write_text("second = 1\n")
    (venv.site / "sitecustomize.py").write_text("third = 1\n")
    host = EnvironHost(PYTHONPATH=f"{first}:{second}")
    section = section_of("python", venv.scope, host)
    values = section.values
    assert values["python.sitecustomize[0].path"] == str(second / "sitecustomize.py")
    assert values["python.sitecustomize[0].sha256"] == hashlib.sha256(b"second = 1\n").hexdigest()
    paths = [values[path] for path in sorted(values) if path.startswith("python.sitecustomize") and "path" in path]
    assert str(venv.site / "sitecustomize.py") in paths
    assert values["python.usercustomize[0].path"] == str(second / "usercustomize/__init__.py")
    assert "python.sitecustomize[0].loaded" not in values


def test_the_running_one_says_whether_it_loaded_a_module(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("loaded = 1\n")
    code = (
        "from envsnap.host import LiveHost; from envsnap.scope import Scope; from envsnap.collectors import python;"
        "import json; print(json.dumps({p: f.value for p, f in python.collect(LiveHost(), Scope())"
        "if p.startswith('python.sitecustomize[0]')}))"
    )
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["python.sitecustomize[0].path"] == str(tmp_path / "sitecustomize.py")
    assert found["python.sitecustomize[0].loaded"] is True


def test_pth_files_are_hashed_and_their_code_is_seen(venv: Venv, tmp_path: Path) -> None:
    user = tmp_path / f".local/lib/python{MINOR}/site-packages"
    user.mkdir(parents=True)
    venv = Venv(tmp_path / "with-user-site", system_site=True)
    (venv.site / "paths.pth").write_bytes(b"/tmp\n")
    (venv.site / "code.pth").write_bytes(b"# import nothing\nimport os; os.environ['NCCL_PROTO'] = 'LL'\n")
    (venv.site / "bytes\udcff.pth").write_bytes(b"caf\xe9\n")
    (user / "paths.pth").write_bytes(b"/usr\n")
    section = section_of("python", venv.scope, EnvironHost(HOME=str(tmp_path)))
    values = section.values
    assert values["python.pth[paths.pth].sha256"] == hashlib.sha256(b"/tmp\n").hexdigest()
    assert values["python.pth[paths.pth].imports"] is False
    assert values["python.pth[code.pth].imports"] is True
    assert values["python.pth[paths.pth/1].sha256"] == hashlib.sha256(b"/usr\n").hexdigest()
    assert values['python.pth["bytes\\udcff.pth"].sha256'] == hashlib.sha256(b"caf\xe9\n").hexdigest()
    assert values["python.user_site.enabled"] is True
    assert values["python.user_site.present"] is True
    assert str(user) in values["python.path"]


def test_a_pth_file_that_cannot_be_read_is_a_doubt() -> None:
    site = f"/venv/lib/python{MINOR}/site-packages"
    files = {
        "/venv/bin/python": "\x7fELF", "/venv/pyvenv.cfg": f"home = /base/bin\nversion = {MINOR}.1\n",
        f"/base/lib/python{MINOR}/os.py": "", f"{site}/secret.pth": "import os\n", f"{site}/big.pth": "x" * (2 << 20),
    }  # fmt: skip
    own = {**LiveHost().self(), "executable": "/opt/python"}
    replies = {("self",): own, ("environ",): {"HOME": "/root"}, ("find",): None}
    host = FakeHost(files, replies=replies, denied=[f"{site}/secret.pth"])
    found: dict[str, Found] = {}
    with pytest.raises(Partial, match=r"big.pth cannot be read.*secret.pth cannot be read"):
        found.update(python.collect(host, Scope(python="/venv/bin/python")))
    assert isinstance(found["python.pth[secret.pth]"], Unavailable)
    assert found["python.pth[secret.pth]"].why is Why.DENIED
    assert isinstance(found["python.pth[big.pth]"], Unavailable)
    assert found["python.pth[big.pth]"].why is Why.TOO_LARGE


@pytest.mark.parametrize(("names", "conflict"), [(("envsnap",), False), (("envsnap", "envsnap-audit"), True)])
def test_the_unrelated_distribution_of_this_name_is_seen(venv: Venv, names: tuple[str, ...], conflict: bool) -> None:
    for name in names:
        venv.dist(name, "1.0")
    venv.dist("envsnap-else", "1.0")
    assert section_of("python", venv.scope).values["python.envsnap_conflict"] is conflict


def test_the_empty_machine_has_no_interpreter() -> None:
    with pytest.raises(Missing):
        list(python.collect(FakeHost(), Scope()))
