"""Libraries: what a process could load, judged by the loader's rules and checked against the loader itself."""

from __future__ import annotations

import base64
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envsnap import cache
from envsnap.collectors import libraries
from envsnap.collectors._loader import _in_cache, linked
from envsnap.host import LiveHost
from envsnap.reading import Missing, Value, Why
from envsnap.scope import Scope
from tests.collectors.environments import Venv, section_of
from tests.fakes import FakeHost

COMPILER = shutil.which("cc") or shutil.which("gcc")
LDCONFIG = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

VERSION_PY = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.9.1+cu128'
debug = False
cuda: Optional[str] = '12.8'
git_version = '5811a8d7da873dd699ff6687092c225caffcf1bb'
hip: Optional[str] = None
"""


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Venv:
    for variable in ("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "SGLANG_NCCL_SO_PATH", "PYTHONPATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    return Venv(tmp_path / "venv")


def values(venv: Venv) -> dict[str, Any]:
    return section_of("libraries", venv.scope).values


def by_path(found: dict[str, Any], path: Path, key: str) -> Any:
    base = next(p.removesuffix(".path") for p, v in found.items() if p.endswith(".path") and v == str(path))
    return found.get(f"{base}.{key}")


def nccl(path: Path, version: str = "2.27.5+cuda12.9", size: int = 0) -> Path:
    """No library, but a file that says what NCCL's says, at the place where it says it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF" + bytes(size) + b"NCCL version mismatch\0NCCL version " + version.encode() + b"\0" * 99)
    return path


# -- torch ----------------------------------------------------------------------------------------------------


def test_torch_is_read_as_text(venv: Venv) -> None:
    (venv.site / "torch").mkdir()
    (venv.site / "torch/version.py").write_text(VERSION_PY)
    pins = ["nvidia-nccl-cu12==2.27.5; platform_system == 'Linux'", "nvidia-cudnn-cu12==9.10.2.21"]
    venv.dist("torch", "2.9.1", requires=pins)
    found = values(venv)
    assert {k.removeprefix("library[torch]."): v for k, v in found.items() if "[torch]" in k} == {
        "path": str(venv.site / "torch"),
        "version": "2.9.1+cu128",
        "cuda_version": "12.8",
        "git_commit": "5811a8d7da873dd699ff6687092c225caffcf1bb",
        "debug": False,
        "nccl_version": "2.27.5",
    }


def test_torch_in_a_source_tree_is_found_by_its_editable_installation(venv: Venv, tmp_path: Path) -> None:
    tree = tmp_path / "pytorch"
    (tree / "torch").mkdir(parents=True)
    (tree / "torch/version.py").write_text("__version__ = '2.10.0a0'\ndebug = True\ncuda = None\n")
    venv.dist("torch", "2.10.0a0", direct_url={"url": f"file://{tree}", "dir_info": {"editable": True}})
    found = values(venv)
    assert found["library[torch].path"] == str(tree / "torch")
    assert found["library[torch].debug"] is True
    assert "library[torch].cuda_version" not in found


# -- NCCL and its kin -----------------------------------------------------------------------------------------


def test_every_nccl_is_listed_with_the_version_in_its_file(
    venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = nccl(venv.site / "nvidia/nccl/lib/libnccl.so.2", size=9 << 20)
    real = nccl(tmp_path / "own/libnccl.so.2.28.3", "2.28.3+cuda13.0")
    (tmp_path / "own/libnccl.so.2").symlink_to(real.name)
    (tmp_path / "own/libnccl.so").symlink_to("libnccl.so.2")
    nccl(tmp_path / "own/libnccl_static.a.so.bak")
    preloaded = nccl(tmp_path / "preload/libnccl.so.2", "2.19.3")
    named = nccl(tmp_path / "engine/custom.so", "2.26.2+cuda12.2")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}/own")
    monkeypatch.setenv("SGLANG_NCCL_SO_PATH", str(named))
    host = Preloading(str(preloaded))
    found = section_of("libraries", venv.scope, host).values
    paths = {v for k, v in found.items() if k.startswith("library[nccl/") and k.endswith(".path")}
    assert {str(packaged), str(real), str(preloaded), str(named)} <= paths
    assert by_path(found, packaged, "version") == "2.27.5"
    assert by_path(found, packaged, "cuda_version") == "12.9"
    assert by_path(found, packaged, "found_by") == ["site_packages"]
    assert by_path(found, real, "version") == "2.28.3"
    assert by_path(found, real, "found_by") == ["LD_LIBRARY_PATH"]
    assert by_path(found, preloaded, "version") == "2.19.3"
    assert by_path(found, preloaded, "cuda_version") is None
    assert by_path(found, preloaded, "taken_by") == ["loader"]
    assert by_path(found, named, "found_by") == ["SGLANG_NCCL_SO_PATH"]
    assert found["library[nccl/0].path"] == str(preloaded)


class Preloading(LiveHost):
    """This machine, but for LD_PRELOAD, which would change this process if it were real."""

    def __init__(self, preload: str) -> None:
        super().__init__()
        self._preload = preload
        self.asked: list[Any] = []

    def environ(self) -> dict[str, str]:
        return {**os.environ, "LD_PRELOAD": self._preload} if self._preload else dict(os.environ)

    def ask(self, requests: Any) -> Any:
        self.asked.extend(requests)
        return super().ask(requests)


def test_a_library_that_a_variable_names_and_that_is_not_there_is_said(
    venv: Venv, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VLLM_NCCL_SO_PATH", f"{tmp_path}/gone/libnccl.so.2")
    section = section_of("libraries", venv.scope)
    base = next(p for p, v in section.values.items() if v == f"{tmp_path}/gone/libnccl.so.2").removesuffix(".path")
    assert section.unavailable[f"{base}.version"].why is Why.ABSENT
    assert section.values[f"{base}.taken_by"] == []


def test_a_file_without_a_version_has_none(venv: Venv) -> None:
    path = venv.site / "nvidia/nccl/lib/libnccl.so.2"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"NCCL version %d\0" + bytes(5000))
    section = section_of("libraries", venv.scope)
    base = next(p for p, v in section.values.items() if v == str(path)).removesuffix(".path")
    assert section.unavailable[f"{base}.version"].why is Why.NOT_SUPPORTED
    assert section.unavailable[f"{base}.build_id"].why is Why.NOT_SUPPORTED


def test_a_large_file_is_searched_once(venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SETTLED_SECONDS", -1.0)
    path = nccl(venv.site / "nvidia/nccl/lib/libnccl.so.2")
    scope = Scope(python=str(venv.python))

    def searches() -> tuple[Any, int]:
        host = Preloading("")
        found = section_of("libraries", scope, host).values
        return by_path(found, path, "version"), sum(r[:2] == ["find", str(path)] for r in host.asked)

    assert searches() == ("2.27.5", 1)
    assert searches() == ("2.27.5", 0)
    nccl(path, "2.28.3")
    assert searches() == ("2.28.3", 1)


def test_network_plug_ins_are_listed(venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    for name in ("libnccl-net.so", "libnccl-net-ofi.so.1", "libnccl-tuner-ofi.so", "libnccl-networking.txt"):
        (folder / name).write_bytes(b"x")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    found = values(venv)
    assert by_path(found, folder / "libnccl-net.so", "taken_by") == ["loader"]
    plugins = [v for k, v in found.items() if k.startswith("library[nccl_net/") and k.endswith(".path")]
    assert {str(folder / "libnccl-net.so"), str(folder / "libnccl-net-ofi.so.1")} <= set(plugins)
    assert by_path(found, folder / "libnccl-tuner-ofi.so", "found_by") == ["LD_LIBRARY_PATH"]
    assert str(folder / "libnccl-networking.txt") not in found.values()


def test_versions_by_name_and_by_header(venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cudnn = venv.site / "nvidia/cudnn"
    (cudnn / "lib").mkdir(parents=True)
    (cudnn / "include").mkdir()
    (cudnn / "lib/libcudnn.so.9").write_bytes(b"x")
    (cudnn / "include/cudnn_version.h").write_text(
        "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 10\n#define CUDNN_PATCHLEVEL 2\n#define CUDNN_VERSION (CUDNN_M)\n"
    )
    toolkit = tmp_path / "toolkit"
    toolkit.mkdir()
    (toolkit / "libcublas.so.12.8.4.1").write_bytes(b"x")
    (toolkit / "libcublas.so.12").symlink_to("libcublas.so.12.8.4.1")
    (toolkit / "libcublasLt.so.12").write_bytes(b"x")
    (toolkit / "libcuda.so.1").write_bytes(b"x")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(toolkit))
    section = section_of("libraries", venv.scope)
    assert by_path(section.values, cudnn / "lib/libcudnn.so.9", "version") == "9.10.2"
    assert by_path(section.values, toolkit / "libcublas.so.12.8.4.1", "version") == "12.8.4.1"
    assert by_path(section.values, toolkit / "libcuda.so.1", "version") is None
    assert section.values["library[cuda_driver/0].path"] == str(toolkit / "libcuda.so.1")
    assert section.unavailable["library[cuda_driver/0].version"].why is Why.ABSENT


# -- against the loader itself --------------------------------------------------------------------------------


def compile_library(path: Path, *options: str, source: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    assert COMPILER
    command = [COMPILER, "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", str(path), *options]
    subprocess.run(command, input=source, text=True, check=True, env={"PATH": "/usr/local/bin:/usr/bin:/bin"})
    return path


@needs_compiler
@pytest.mark.parametrize("tags", ["--disable-new-dtags", "--enable-new-dtags"], ids=["rpath", "runpath"])
@pytest.mark.parametrize("variable", ["none", "LD_LIBRARY_PATH", "LD_PRELOAD"])
def test_what_torch_takes_is_what_the_loader_maps(
    venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tags: str, variable: str
) -> None:
    source = 'const char *version(void) { return "NCCL version 2.27.5"; }'
    packaged = compile_library(
        venv.site / "nvidia/nccl/lib/libnccl.so.2", "-Wl,-soname,libnccl.so.2", "-Wl,--build-id=sha1", source=source
    )
    other = compile_library(tmp_path / "other/libnccl.so.2", "-Wl,-soname,libnccl.so.2", source=source + "int more;")
    torch = compile_library(
        venv.site / "torch/lib/libtorch_cuda.so", str(packaged), "-Wl,--no-as-needed", f"-Wl,{tags}",
        "-Wl,-rpath,/nowhere:$ORIGIN/../../nvidia/nccl/lib",
        source="const char *version(void); const char *used(void) { return version(); }",
    )  # fmt: skip
    (venv.site / "torch/version.py").write_text(VERSION_PY)
    environ = {"PATH": os.environ["PATH"]}
    if variable == "LD_LIBRARY_PATH":
        environ[variable] = str(other.parent)
    elif variable == "LD_PRELOAD":
        environ[variable] = str(other)
    code = f"import ctypes; ctypes.CDLL({str(torch)!r}); print(open('/proc/self/maps').read())"
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    mapped = set(re.findall(r"(/\S*libnccl\S*)", done.stdout))

    monkeypatch.setenv("LD_LIBRARY_PATH", environ.get("LD_LIBRARY_PATH", ""))
    found = section_of("libraries", venv.scope, Preloading(environ.get("LD_PRELOAD", ""))).values
    assert found["library[nccl/0].path"] in mapped
    assert len(mapped) == 1
    assert "torch" in found["library[nccl/0].taken_by"]
    assert re.fullmatch("[0-9a-f]{40}", str(by_path(found, packaged, "build_id")))
    expected = {"none": packaged, "LD_PRELOAD": other, "LD_LIBRARY_PATH": other if "enable" in tags else packaged}
    assert mapped == {str(expected[variable])}


@needs_compiler
def test_a_search_path_of_torchs_own_beyond_the_packages_is_followed(venv: Venv, tmp_path: Path) -> None:
    own = compile_library(tmp_path / "built/libnccl.so.2", "-Wl,-soname,libnccl.so.2", source="int version;")
    compile_library(
        venv.site / "torch/lib/libtorch_cuda.so", str(own), "-Wl,--no-as-needed", f"-Wl,-rpath,{own.parent}",
        source="extern int version; int used(void) { return version; }",
    )  # fmt: skip
    (venv.site / "torch/version.py").write_text(VERSION_PY)
    found = values(venv)
    assert by_path(found, own, "found_by") == ["torch_rpath"]
    assert by_path(found, own, "taken_by") == ["torch"]


@needs_compiler
def test_a_dynamic_section_is_read_as_readelf_shows_it(tmp_path: Path) -> None:
    needed = compile_library(tmp_path / "libneeded.so.7", "-Wl,-soname,libneeded.so.7", source="int a;")
    path = compile_library(
        tmp_path / "libasker.so", str(needed), "-Wl,--no-as-needed", "-Wl,--enable-new-dtags",
        "-Wl,-rpath,/abs:${ORIGIN}/../up:relative", source="extern int a; int b(void) { return a; }",
    )  # fmt: skip
    found = linked(LiveHost(), str(path))
    assert "libneeded.so.7" in found.needed
    assert (found.rpath, found.runpath) == ((), ("/abs", str(tmp_path.parent / "up")))


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(70), b"\x7fELF\x02\x01" + b"\xff" * 5000]
)
def test_a_torch_library_of_garbage_costs_nothing_else(venv: Venv, content: bytes) -> None:
    (venv.site / "torch/lib").mkdir(parents=True)
    (venv.site / "torch/lib/libtorch_cuda.so").write_bytes(content)
    (venv.site / "torch/version.py").write_text(VERSION_PY)
    nccl(venv.site / "nvidia/nccl/lib/libnccl.so.2")
    found = values(venv)
    assert found["library[torch].version"] == "2.9.1+cu128"
    assert by_path(found, venv.site / "nvidia/nccl/lib/libnccl.so.2", "version") == "2.27.5"


def cache_file(path: Path) -> Value:
    return Value(base64.b64encode(path.read_bytes()).decode())


@pytest.mark.skipif(LDCONFIG is None, reason="needs ldconfig")
def test_the_loaders_cache_is_read_as_ldconfig_prints_it() -> None:
    assert LDCONFIG
    printed = subprocess.run([LDCONFIG, "-p"], capture_output=True, text=True, check=True).stdout
    word = {"x86_64": "x86-64", "aarch64": "AArch64"}[platform.machine()]
    theirs = [line.split(" => ")[1] for line in printed.splitlines() if word in line and " => " in line]
    assert theirs
    assert _in_cache(cache_file(Path("/etc/ld.so.cache")), platform.machine()) == theirs


@needs_compiler
@pytest.mark.skipif(LDCONFIG is None, reason="needs ldconfig")
def test_a_cache_of_ones_own(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        compile_library(tmp_path / folder / "libnccl.so.2", "-Wl,-soname,libnccl.so.2", source="int a;")
    (tmp_path / "conf").write_text(f"{tmp_path}/one\n{tmp_path}/two\n")
    assert LDCONFIG
    subprocess.run([LDCONFIG, "-C", str(tmp_path / "c"), "-f", str(tmp_path / "conf"), "-X"], check=True)
    paths = _in_cache(cache_file(tmp_path / "c"), platform.machine())
    assert {p for p in paths if "libnccl" in p} == {f"{tmp_path}/one/libnccl.so.2", f"{tmp_path}/two/libnccl.so.2"}
    assert _in_cache(cache_file(tmp_path / "c"), "riscv64") == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"glibc-ld.so.cache1.1",
        b"glibc-ld.so.cache1.1" + struct.pack("<I", 0xFFFFFFFF) + bytes(40),
        b"glibc-ld.so.cache1.1" + struct.pack("<I", 0xFFFFFFFF) + b"\xff" * 4000,
        b"glibc-ld.so.cache1.1" + struct.pack("<I", 3) + bytes(24) + struct.pack("<iIIIQ", 0x303, 9, 1 << 31, 0, 0) * 3,
    ],
)
def test_a_cache_of_garbage_holds_nothing(data: bytes) -> None:
    assert [p for p in _in_cache(Value(base64.b64encode(data).decode()), "x86_64") if p] == []


def test_a_library_of_another_architecture_is_not_taken() -> None:
    entries = [(0x0303, b"/lib/x86_64-linux-gnu/libnccl.so.2"), (0x0003, b"/lib/i386-linux-gnu/libnccl.so.2")]
    start = 48 + 24 * len(entries)
    strings = b"".join(path + b"\0" for _, path in entries)
    data = b"glibc-ld.so.cache1.1" + struct.pack("<II", len(entries), len(strings)) + bytes(20)
    for flags, path in entries:
        data += struct.pack("<iIIIQ", flags, 0, start + strings.index(path), 0, 0)
    found = _in_cache(Value(base64.b64encode(data + strings).decode()), "x86_64")
    assert found == ["/lib/x86_64-linux-gnu/libnccl.so.2"]


# -- the toolkit ----------------------------------------------------------------------------------------------


def toolkit(root: Path, **files: str) -> Path:
    for name, text in {"bin/nvcc": "\x7fELF", **{k.replace("__", "/"): v for k, v in files.items()}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_toolkit_by_its_manifest(venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = {"cuda": {"name": "CUDA SDK", "version": "12.8.1"}, "cuda_nvcc": {"version": "12.8.93"}}
    root = toolkit(tmp_path / "cuda-12.8")
    (root / "version.json").write_text(json.dumps(manifest))
    (tmp_path / "cuda").symlink_to("cuda-12.8")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setenv("PATH", f"{root}/bin")
    found = values(venv)
    assert found["library[cuda_toolkit/0].version"] == "12.8.1"
    assert found["library[cuda_toolkit/0].nvcc_version"] == "12.8.93"
    assert found["library[cuda_toolkit/0].found_by"] == ["CUDA_HOME", "PATH"]


def test_a_toolkit_by_header_and_by_the_text_in_its_compiler(venv: Venv, monkeypatch: pytest.MonkeyPatch) -> None:
    root = venv.site / "nvidia/cu13"
    toolkit(root, include__x="")
    (root / "include/cuda.h").write_text("/* */\n#define CUDA_VERSION 13000\n")
    (root / "bin/nvcc").write_bytes(b"\x7fELF" + bytes(9000) + b"Cuda compilation tools, release 13.0, V13.0.88\0")
    found = values(venv)
    base = next(p for p, v in found.items() if v == str(root)).removesuffix(".path")
    assert found[f"{base}.version"] == "13.0"
    assert found[f"{base}.nvcc_version"] == "13.0.88"
    assert found[f"{base}.found_by"] == ["site_packages"]


def test_an_old_toolkit_by_its_text(venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = toolkit(tmp_path / "old")
    (root / "version.txt").write_text("CUDA Version 10.2.89\n")
    monkeypatch.setenv("CUDA_PATH", str(root))
    assert values(venv)["library[cuda_toolkit/0].version"] == "10.2.89"


@pytest.mark.parametrize("manifest", ["", "{", "[]", '{"cuda": 7}', '{"cuda": {"version": 12.8}}', "[" * 50_000])
def test_a_variable_that_leads_nowhere_is_said(
    venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manifest: str
) -> None:
    root = tmp_path / "cuda"
    if manifest:
        root.mkdir()
        (root / "version.json").write_text(manifest)
    monkeypatch.setenv("CUDA_HOME", str(root))
    section = section_of("libraries", venv.scope)
    assert section.values["library[cuda_toolkit/0].path"] == str(root)
    assert section.unavailable["library[cuda_toolkit/0].version"].why is Why.ABSENT
    assert section.unavailable["library[cuda_toolkit/0].nvcc_version"].why is Why.ABSENT


def test_the_empty_machine_has_no_libraries() -> None:
    with pytest.raises(Missing):
        list(libraries.collect(FakeHost(), Scope()))


def test_a_machine_with_an_interpreter_and_nothing_else() -> None:
    own = {**LiveHost().self(), "path": ["/lib/python"]}
    host = FakeHost(replies={("self",): own, ("environ",): {"HOME": "/root"}})
    assert list(libraries.collect(host, Scope())) == []
