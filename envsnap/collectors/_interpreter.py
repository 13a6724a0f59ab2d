"""Which Python interpreter a snapshot is about, and what its import path is, found without running it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape
from typing import Any

from envsnap.collectors._homes import expanded
from envsnap.collectors._process_python import Started, of_processes
from envsnap.collectors._pth import pth_files
from envsnap.host import Host
from envsnap.reading import Found, Missing, Unavailable, Value, Why, attempt
from envsnap.scope import Scope

# Code in .pth files that adds no directory: setuptools' and virtualenv's own, editable finders, namespace packages.
_HARMLESS = re.compile(r"_distutils_hack|_virtualenv|__editable__|__path__|importlib\.util")


@dataclass(frozen=True)
class Interpreter:
    """One interpreter with the environment that it stands in. Paths are absolute, not resolved."""

    executable: str
    chosen_by: str
    """`argument`, `process` or `running`."""
    prefix: str
    base_prefix: str
    version: Found
    """As in `3.11.7`."""
    minor: str
    """As in `3.11`."""
    implementation: str
    path: tuple[str, ...]
    """sys.path in order, without the directory of the program or module that was started."""
    site_dirs: tuple[str, ...]
    """Those directories of the path whose .pth files Python obeys."""
    user_site: str
    user_site_enabled: bool
    environ: Mapping[str, str]
    """The environment that it was, or would be, started with."""
    running: bool = False
    """Whether it is the one that captures."""
    doubts: tuple[str, ...] = ()
    """What only running it would tell. Empty for the running one."""

    @property
    def venv(self) -> bool:
        """Whether it is a virtual environment's."""
        return self.prefix != self.base_prefix


def interpreter(host: Host, scope: Scope) -> Interpreter:
    """The interpreter that matters: the scope's, else that of the processes of interest, else the running one.

    Raises: Missing.
    """
    return host.memo(f"interpreter {scope.python} {scope.pids} {scope.match}", lambda: _chosen(host, scope))


def environ_of(host: Host, scope: Scope) -> Mapping[str, str]:
    """The environment of what is of interest: of the processes, at their exec, else of the calling one.

    Raises: Missing where the processes see other files.
    """
    started = None if scope.python else _started(host, scope)
    return started.environ if started else host.environ()


def _started(host: Host, scope: Scope) -> Started | None:
    return host.memo(f"started {scope.pids} {scope.match}", lambda: of_processes(host, scope))


def _chosen(host: Host, scope: Scope) -> Interpreter:
    own = host.self()
    if not scope.python:
        started = _started(host, scope)
        if not started:
            return _running(host, own, "running")
        found = described(host, started.executable, started.environ, "process")
        return replace(found, doubts=(*started.doubts, *found.doubts))
    executable = _located(host, scope.python)
    if executable == own["executable"]:
        return _running(host, own, "argument")
    return described(host, executable, host.environ(), "argument")


def _located(host: Host, name: str) -> str:
    """The executable that a user means: a path, a virtual environment, or a name on the PATH. Raises: Missing."""
    if "/" in name or name.startswith("~"):
        path = expanded(host, name, host.environ())
        candidates = [path, posixpath.join(path, "bin", "python")]
    else:
        candidates = [posixpath.join(d, name) for d in host.environ().get("PATH", "").split(":") if d]
        candidates.append(expanded(host, f"{name}/bin/python", host.environ()))
    for path, found in zip(candidates, host.found([["stat", path] for path in candidates])):
        if isinstance(found, Value) and found.value["type"] == "file":
            return path
    raise Missing(Why.ABSENT, f"no interpreter {name}")


def _running(host: Host, own: Mapping[str, Any], chosen_by: str) -> Interpreter:
    minor = ".".join(str(part) for part in own["version_info"][:2])
    path = _without_script(own)
    user_site = _user_site(host, host.environ(), minor)
    candidates = [c for prefix in (own["prefix"], own["base_prefix"]) for c in _site_candidates(prefix, minor)]
    return Interpreter(
        executable=own["executable"],
        chosen_by=chosen_by,
        prefix=own["prefix"],
        base_prefix=own["base_prefix"],
        version=Value(str(own["version"]).split()[0]),
        minor=minor,
        implementation=own["implementation"],
        path=path,
        site_dirs=tuple(p for p in path if p in candidates or p == user_site),
        user_site=user_site,
        user_site_enabled=_user_site_enabled(host, own),
        environ=host.environ(),
        running=True,
    )


def _without_script(own: Mapping[str, Any]) -> tuple[str, ...]:
    """sys.path less its first entry where that only says what was started: `envsnap`, `-m envsnap`, a benchmark."""
    path = [str(p) for p in own["path"]]
    script = str(own["argv"][0]) if own["argv"] else ""
    started = {"", own["cwd"], posixpath.dirname(script), posixpath.dirname(posixpath.join(own["cwd"], script))}
    started.add(posixpath.join(own["prefix"], "bin"))  # a console script
    return tuple(path[1:] if path and path[0] in started else path)


def _user_site_enabled(host: Host, own: Mapping[str, Any]) -> bool:
    if own["flags"].get("no_user_site") or own["uid"] != own["euid"]:
        return False
    return own["prefix"] == own["base_prefix"] or _venv_settings(host, own["executable"]).system_site


def _user_site(host: Host, environ: Mapping[str, str], minor: str) -> str:
    base = expanded(host, environ.get("PYTHONUSERBASE") or "~/.local", environ)
    return posixpath.join(base, f"lib/python{minor}/site-packages")


def _site_candidates(prefix: str, minor: str, lib: str = "lib64") -> list[str]:
    """Where Python looks for installed packages below a prefix. Debian's own interpreters have places of their own."""
    below = [f"{name}/python{minor}/site-packages" for name in dict.fromkeys((lib, "lib"))]
    if prefix == "/usr":
        below += [f"local/lib/python{minor}/dist-packages", "lib/python3/dist-packages"]
        below += [f"lib/python{minor}/dist-packages"]
    return [posixpath.join(prefix, b) for b in below]


@dataclass(frozen=True)
class _Venv:
    """What pyvenv.cfg says; empty and false where there is none."""

    prefix: str = ""
    home: str = ""
    version: str = ""
    system_site: bool = False


def _venv_settings(host: Host, executable: str) -> _Venv:
    """By Python's own rule: the file lies beside the executable or one level up, links not resolved."""
    folder = posixpath.dirname(executable)
    for prefix in (folder, posixpath.dirname(folder)):
        found = host.found([["read", posixpath.join(prefix, "pyvenv.cfg"), 1 << 16]])[0]
        if isinstance(found, Value):
            pairs = (line.partition("=") for line in str(found.value).splitlines())
            said = {name.strip().lower(): value.strip() for name, _, value in pairs}
            version = said.get("version") or said.get("version_info", "")
            system_site = said.get("include-system-site-packages", "").lower() == "true"
            return _Venv(prefix, said.get("home", ""), version, system_site)
    return _Venv()


def described(host: Host, executable: str, environ: Mapping[str, str], chosen_by: str) -> Interpreter:
    """An interpreter that is not running here, from the files around it. `environ` is what it is started with.

    Raises: Missing where it has no standard library beside it (a wrapper script, a broken environment).
    """
    if host.read(executable, 64, True).startswith("#!"):
        raise Missing(Why.NOT_SUPPORTED, f"{executable} is a script that starts an interpreter; name that one")
    venv = _venv_settings(host, executable)
    real = host.realpath(executable)
    near = [posixpath.dirname(p) for p in (venv.home, posixpath.dirname(real), posixpath.dirname(executable)) if p]
    base, library, minor = _standard_library(host, near, posixpath.basename(real), venv.version)
    prefix = venv.prefix or base
    user_site = _user_site(host, environ, minor)
    user_enabled = not environ.get("PYTHONNOUSERSITE") and (not venv.prefix or venv.system_site)
    lib = posixpath.basename(posixpath.dirname(library))
    wanted = _site_candidates(venv.prefix, minor, lib) if venv.prefix else []
    if user_enabled:
        wanted.append(user_site)
    if not venv.prefix or venv.system_site:
        wanted += _site_candidates(base, minor, lib)
    site_dirs = tuple(_directories(host, wanted))
    doubts = ["PYTHONHOME is set"] if environ.get("PYTHONHOME") else []
    site_path: list[str] = []
    for directory in site_dirs:
        site_path += [directory, *_added(host, directory, doubts)]
    given = [posixpath.join(host.self()["cwd"], p) for p in environ.get("PYTHONPATH", "").split(":") if p]
    packed = posixpath.join(posixpath.dirname(library), f"python{minor.replace('.', '')}.zip")
    path = [*given, packed, library, posixpath.join(library, "lib-dynload"), *site_path]
    return Interpreter(
        executable=executable,
        chosen_by=chosen_by,
        prefix=prefix,
        base_prefix=base,
        version=attempt(_exact_version, host, real, base, minor),
        minor=minor,
        implementation="pypy" if "pypy" in posixpath.basename(real) else "cpython",
        path=tuple(dict.fromkeys(path)),
        site_dirs=site_dirs,
        user_site=user_site,
        user_site_enabled=user_enabled,
        environ=environ,
        doubts=tuple(doubts),
    )


def _standard_library(host: Host, prefixes: Sequence[str], name: str, version: str) -> tuple[str, str, str]:
    """(prefix, directory, minor version) of the standard library, by Python's landmark `os.py`. Raises: Missing."""
    said = re.match(r"(?:python|pypy)?(3\.\d+)", version) or re.match(r"(?:python|pypy)(3\.\d+)", name)
    lib = f"python{said.group(1)}" if said else "python3.*"
    patterns = [(p, f"{escape(p.rstrip('/'))}/{folder}/{lib}/os.py") for p in prefixes for folder in ("lib", "lib64")]
    for (prefix, _), found in zip(patterns, host.found([["glob", pattern] for _, pattern in patterns])):
        libraries = [posixpath.dirname(str(p)) for p in found.value] if isinstance(found, Value) else []
        if len(libraries) == 1:
            return prefix, libraries[0], posixpath.basename(libraries[0]).removeprefix("python")
        if libraries:
            raise Missing(Why.NOT_SUPPORTED, f"{prefix} holds several versions; name the interpreter with its version")
    raise Missing(Why.ABSENT, f"no standard library near {' or '.join(prefixes)}")


def _exact_version(host: Host, real: str, base: str, minor: str) -> str:
    """The version by the C header beside the library, else as written into the executable. Raises: Missing."""
    header, written = host.found([
        ["read", f"{base}/include/python{minor}/patchlevel.h", 1 << 16],
        ["find", real, rf"\x00({re.escape(minor)}\.\d+(?:(?:a|b|rc)\d+)?\+?)\x00", 256 << 20],
    ])  # fmt: skip
    said = re.search(r'#define\s+PY_VERSION\s+"([^"]+)"', str(header.value)) if isinstance(header, Value) else None
    if said:
        return said.group(1)
    if isinstance(written, Value) and written.value:
        return str(written.value)
    raise Missing(Why.NOT_SUPPORTED, f"no exact version is written in {real}")


def _directories(host: Host, paths: Sequence[str]) -> list[str]:
    """Those of the paths that are directories, each once."""
    unique = list(dict.fromkeys(paths))
    found = host.found([["stat", path] for path in unique])
    return [p for p, f in zip(unique, found) if isinstance(f, Value) and f.value["type"] == "dir"]


def _added(host: Host, directory: str, doubts: list[str]) -> list[str]:
    """The directories that a site directory's .pth files add; code in them that may add others is a doubt."""
    added = []
    for pth in pth_files(host, [directory]):
        added += [posixpath.normpath(posixpath.join(directory, x)) for x in pth.lines if x not in pth.imports]
        if any(not _HARMLESS.search(line) for line in pth.imports):
            doubts.append(f"{pth.directory}/{pth.name} runs code at start")
        if isinstance(pth.text, Unavailable):
            doubts.append(f"{pth.directory}/{pth.name} cannot be read")
    return _directories(host, added)
