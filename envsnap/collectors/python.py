"""Python: the interpreter that matters, its import path, and the code that runs at its start."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator

from envsnap.collectors import Partial
from envsnap.collectors._dists import names_on
from envsnap.collectors._interpreter import Interpreter, interpreter
from envsnap.collectors._pth import Pth, pth_files
from envsnap.host import Host
from envsnap.keys import At, Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Found, Missing, Unavailable, Value, Why, attempt
from envsnap.scope import Scope

METHOD = "the running interpreter's own word; of another one the files around it, which is not run"

_HOST = (Effect.HOST_LAUNCH,)
_ANY = (Effect.HOST_LAUNCH, Effect.COMMUNICATION, Effect.COMPUTE)

KEYS = (
    Key("python.chosen_by", Type.STRING, Kind.IDENTITY,
        "How the described interpreter was chosen: argument, process (of interest) or running (envsnap's own).",
        (Effect.VALIDITY,), 0.1, advice="Name the benchmark's interpreter with --python in both captures."),
    Key("python.executable", Type.STRING, Kind.IDENTITY, "Path by which the interpreter is started.", _ANY, 0.2),
    Key("python.real_executable", Type.STRING, Kind.IDENTITY,
        "Path of the interpreter's executable with symbolic links resolved.", _HOST, 0.1),
    Key("python.version", Type.STRING, Kind.IDENTITY, "Version of the interpreter.", _HOST, 0.3, Lever.PACKAGE),
    Key("python.implementation", Type.STRING, Kind.IDENTITY, "Implementation of Python, cpython or another.",
        _HOST, 0.3, Lever.PACKAGE),
    Key("python.build", Type.STRING, Kind.IDENTITY,
        "Build of the interpreter: branch, date, compiler, and whether it is a free-threaded or a debug build.",
        _HOST, 0.2, Lever.PACKAGE),
    Key("python.prefix", Type.STRING, Kind.IDENTITY, "Environment that the interpreter installs into.", _ANY, 0.2),
    Key("python.base_prefix", Type.STRING, Kind.IDENTITY,
        "Installation that the interpreter's standard library comes from.", _HOST, 0.1),
    Key("python.venv", Type.BOOLEAN, Kind.IDENTITY, "Whether the interpreter stands in a virtual environment.",
        _ANY, 0.1),
    Key("python.path", Type.STRINGS, Kind.TUNABLE,
        "Directories that modules are imported from, in order, without that of the program that was started.",
        _ANY, 0.4, Lever.ENV, "The first directory that has a module wins; `python -c 'import sys; print(sys.path)'`."),
    Key("python.user_site.path", Type.STRING, Kind.IDENTITY, "The user's own directory of packages.", _ANY, 0.05),
    Key("python.user_site.enabled", Type.BOOLEAN, Kind.TUNABLE,
        "Whether the user's own directory of packages is on the import path when it exists.", _ANY, 0.2, Lever.ENV,
        "PYTHONNOUSERSITE=1 takes it off the path."),
    Key("python.user_site.present", Type.BOOLEAN, Kind.IDENTITY,
        "Whether the user's own directory of packages exists.", _ANY, 0.2, Lever.FILE,
        "Packages in it hide the system's of the same name."),
    Key("python.flag[]", Type.INTEGER, Kind.TUNABLE, "Flag of the running interpreter, as in sys.flags.",
        _HOST, 0.1, Lever.ENV, at=(At("dev_mode", prior=0.4), At("optimize", prior=0.2), At("debug", prior=0.4))),
    Key("python.hash_seed", Type.STRING, Kind.TUNABLE,
        "Seed of Python's string hashes, random or a number: it orders sets, and so what iterates over them.",
        _HOST, 0.05, Lever.ENV, "PYTHONHASHSEED=0 makes it fixed."),
    Key("python.sitecustomize[].path", Type.STRING, Kind.TUNABLE,
        "A module sitecustomize on the import path; Python imports the first one, 0, at every start, in workers too.",
        _ANY, 0.3, Lever.FILE),
    Key("python.sitecustomize[].sha256", Type.STRING, Kind.TUNABLE,
        "Hash of a module sitecustomize on the import path; Python runs the first one, 0, at every start.",
        _ANY, 0.4, Lever.FILE,
        "One beyond 0 is shadowed and has no effect, the distribution's own included.",
        at=(At("0"), At("*", prior=0.1))),
    Key("python.sitecustomize[].loaded", Type.BOOLEAN, Kind.IDENTITY,
        "Whether the running interpreter has imported this very sitecustomize module.", _ANY, 0.2),
    Key("python.usercustomize[].path", Type.STRING, Kind.TUNABLE,
        "A module usercustomize on the import path; Python imports the first one, 0, at every start, in workers too.",
        _ANY, 0.3, Lever.FILE),
    Key("python.usercustomize[].sha256", Type.STRING, Kind.TUNABLE,
        "Hash of a module usercustomize on the import path; Python runs the first one, 0, at every start.",
        _ANY, 0.4, Lever.FILE,
        at=(At("0"), At("*", prior=0.1))),
    Key("python.usercustomize[].loaded", Type.BOOLEAN, Kind.IDENTITY,
        "Whether the running interpreter has imported this very usercustomize module.", _ANY, 0.2),
    Key("python.pth[].sha256", Type.STRING, Kind.TUNABLE,
        "Hash of the content of a .pth file, which adds directories to the import path or runs code at every start.",
        _ANY, 0.2, Lever.FILE),
    Key("python.pth[].imports", Type.BOOLEAN, Kind.TUNABLE,
        "Whether a .pth file has lines of code, which run at every start of Python, in every spawned worker too.",
        _ANY, 0.2, Lever.FILE),
    Key("python.envsnap_conflict", Type.BOOLEAN, Kind.IDENTITY,
        "Whether the unrelated distribution `envsnap` is installed beside this one, which is `envsnap-audit`.",
        (Effect.VALIDITY,), 0.0, Lever.PACKAGE,
        "Both install the module and the command `envsnap`; uninstall both, then install envsnap-audit again."),
)  # fmt: skip

_NOT_RUN = Unavailable(Why.OFF, "only the interpreter itself knows, and envsnap does not run another one")


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings."""
    python = interpreter(host, scope)
    yield "python.chosen_by", Value(python.chosen_by)
    yield "python.executable", Value(python.executable)
    yield "python.real_executable", attempt(host.realpath, python.executable)
    yield "python.version", python.version
    yield "python.implementation", Value(python.implementation)
    yield "python.build", attempt(lambda: _build(host.self()["version"])) if python.running else _NOT_RUN
    yield "python.prefix", Value(python.prefix)
    yield "python.base_prefix", Value(python.base_prefix)
    yield "python.venv", Value(python.venv)
    yield "python.path", Value(list(python.path))
    yield "python.user_site.path", Value(python.user_site)
    yield "python.user_site.enabled", Value(python.user_site_enabled)
    yield "python.user_site.present", attempt(_is_directory, host, python.user_site)
    yield from _flags(host, python)
    listings = zip(python.path, host.found([["list", directory] for directory in python.path]))
    listed = {directory: names.value for directory, names in listings if isinstance(names, Value)}
    for name in ("sitecustomize", "usercustomize"):
        yield from _customizes(host, python, listed, name)
    yield from _pths(pth_files(host, python.site_dirs))
    yield "python.envsnap_conflict", Value({"envsnap", "envsnap-audit"} <= names_on(listed.values()))
    if python.doubts:
        raise Partial("the interpreter was not run, and more may be on its path: " + "; ".join(python.doubts))


def _build(version: str) -> str:
    """What stands behind the number in sys.version: `(main, Apr 28 2025, 14:11:48) [GCC 12.2.0]`."""
    return " ".join(version.split()[1:])


def _is_directory(host: Host, path: str) -> bool:
    try:
        return bool(host.stat(path)["type"] == "dir")
    except Missing as missing:
        if missing.why is Why.ABSENT:
            return False
        raise


def _flags(host: Host, python: Interpreter) -> Iterator[tuple[str, Found]]:
    flags = host.self()["flags"] if python.running else {}
    if not python.running:
        yield "python.flag", _NOT_RUN
    for name, value in flags.items():
        if not name.startswith("n_"):  # fields of the tuple type, not flags
            yield path_of("python.flag[]", name), Value(value)
    seed = python.environ.get("PYTHONHASHSEED") or "random"
    yield "python.hash_seed", Value("random" if flags.get("ignore_environment") else seed)


def _customizes(
    host: Host, python: Interpreter, listed: dict[str, list[str]], name: str
) -> Iterator[tuple[str, Found]]:
    """All modules of a name on the path, in the order in which Python would find them."""
    loaded = host.self()["modules"].get(name) if python.running else None
    paths = [
        posixpath.join(directory, file)
        for directory, names in listed.items()
        for file in (f"{name}/__init__.py", f"{name}.py", f"{name}.pyc")
        if file.split("/")[0] in names
    ]
    hashes = zip(paths, host.found([["hash", path] for path in paths]))
    # A directory without __init__.py, or a dangling link, is no module that Python would take before another.
    modules = [(p, f) for p, f in hashes if not (isinstance(f, Unavailable) and f.why is Why.ABSENT)]
    for order, (path, found) in enumerate(modules):
        yield f"python.{name}[{order}].path", Value(path)
        yield f"python.{name}[{order}].sha256", found
        if python.running:
            yield f"python.{name}[{order}].loaded", Value(loaded == path)


def _pths(files: list[Pth]) -> Iterator[tuple[str, Found]]:
    """A name that stands in several site directories gets a number from the second on."""
    seen: dict[str, int] = {}
    for file in files:
        count = seen[file.name] = seen.get(file.name, -1) + 1
        name = f"{file.name}/{count}" if count else file.name
        if isinstance(file.text, Value):
            content = str(file.text.value).encode("utf-8", "surrogateescape")
            yield path_of("python.pth[].sha256", name), Value(hashlib.sha256(content).hexdigest())
            yield path_of("python.pth[].imports", name), Value(bool(file.imports))
        else:
            yield path_of("python.pth[]", name), file.text
