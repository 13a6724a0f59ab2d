"""Models: what was served, by configuration, tokenizer, weights and revision."""

from __future__ import annotations

import hashlib
import json
import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from envsnap import cache
from envsnap.cache import Cache
from envsnap.collectors._interpreter import environ_of
from envsnap.collectors._model_names import Named, named_in
from envsnap.collectors._model_places import Model, Standpoint, located
from envsnap.host import Host, value_of
from envsnap.keys import At, Effect, Key, Kind, Lever, Type, path_of
from envsnap.reading import Error, Found, Json, Missing, Unavailable, Value, Why, attempt
from envsnap.scope import Scope
from envsnap.workers import exec_env
from envsnap.workers.tree import SHELL, Group, Process, of_interest, table

METHOD = "files of model directories and of the Hugging Face cache; weights by name and size, unread"

CONFIG_BYTES = 1 << 20
MAX_DEPTH = 20
MAX_WEIGHTS = 2000

_MODEL = (Effect.COMPUTE, Effect.MEMORY, Effect.ACCEPTANCE, Effect.WORKLOAD)
_TEXT = (Effect.ACCEPTANCE, Effect.WORKLOAD)

KEYS = (
    Key("model[].path", Type.STRING, Kind.IDENTITY, "Directory that a model is loaded from.",
        (Effect.STORAGE,), 0.05, Lever.ARGUMENT),
    Key("model[].revision", Type.STRING, Kind.IDENTITY, "Commit of the model on the hub that its files came from.",
        _MODEL, 0.5, Lever.ARGUMENT, "Pass --revision, and for the draft --speculative-draft-model-revision."),
    Key("model[].config", Type.OBJECT, Kind.IDENTITY,
        "Configuration of a model: architecture, sizes, and for a draft head what it drafts for.",
        _MODEL, 0.5, Lever.FILE),
    Key("model[].generation_config", Type.OBJECT, Kind.TUNABLE,
        "Sampling defaults that a model brings along, which engines apply where a request says nothing.",
        _TEXT, 0.4, Lever.FILE, "Send temperature and top_p with each request."),
    Key("model[].quantization", Type.OBJECT, Kind.IDENTITY,
        "Quantization of a model's weights, where a file of its own says it.", _MODEL, 0.5, Lever.FILE),
    Key("model[].file[].sha256", Type.STRING, Kind.IDENTITY,
        "Hash of a small file beside the weights: of the tokenizer, of a processor, or code that the model brings.",
        _TEXT, 0.3, Lever.FILE, at=(At("*.py", effects=_MODEL, prior=0.4),)),
    Key("model[].chat_template_sha256", Type.STRING, Kind.IDENTITY,
        "Hash of the template that makes a prompt of a conversation, wherever it stands.",
        _TEXT, 0.4, Lever.FILE, "Another template is another prompt: acceptance and lengths move."),
    Key("model[].index_sha256", Type.STRING, Kind.IDENTITY,
        "Hash of the index that says which file holds which weight.", _MODEL, 0.2, Lever.FILE),
    Key("model[].weights", Type.OBJECT, Kind.IDENTITY, "Size of each weight file in bytes, by name.",
        _MODEL, 0.3, Lever.FILE),
    Key("model[].weights_bytes", Type.INTEGER, Kind.IDENTITY, "Size of all weight files.",
        _MODEL, 0.3, Lever.FILE),
)  # fmt: skip

_SMALL = re.compile(
    r"(tokenizer|vocab|merges|special_tokens|added_tokens|tiktoken|chat_template|preprocessor|processor|spiece)[\w.-]*"
    r"|[\w.-]+\.(tiktoken|py|jinja)"
)
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth", ".npz")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_QUANTIZATIONS = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")


def collect(host: Host, scope: Scope) -> Iterator[tuple[str, Found]]:
    """Yield the readings of the models that the user named, and of those that the processes of interest name."""
    groups = _groups(host, scope)
    wanted = [*_named_by_user(host, scope), *_named_by_processes(host, groups)]
    names: dict[str, str] = {}
    missing: dict[str, Found] = {}
    with cache.opened(host, scope, "models") as held:
        for asked, standpoint in wanted:
            found = attempt(located, host, asked, standpoint) if isinstance(standpoint, Standpoint) else standpoint
            if not isinstance(found, Value):
                missing.setdefault(asked.typed, found)
            elif (model := found.value).place not in names.values():
                # NOTE: two directories may have one name, and one name two revisions.
                name = next(n for n in (model.name, asked.typed, model.place) if n not in names)
                names[name] = model.place
                yield from _model(host, replace(model, name=name), held)
    for typed, found in missing.items():
        yield path_of("model[]", f"{typed}, of another process" if typed in names else typed), found
    if not wanted and any(map(_is_covered, groups)):
        raise Missing(Why.CLOBBERED, "a title covers the command line that may name a model; name it with --model")


def _named_by_user(host: Host, scope: Scope) -> Iterator[tuple[Named, Standpoint | Found]]:
    """As the processes of interest would find them, since they load them; NAME@REVISION unless a file is called so."""
    if not scope.models:
        return
    theirs = attempt(environ_of, host, scope)
    if isinstance(theirs, Unavailable) and theirs.why is Why.NOT_SUPPORTED:  # they see other files
        yield from ((Named(_OPTION, given), theirs) for given in scope.models)
        return
    standpoint = Standpoint(str(host.self()["cwd"]), theirs.value if isinstance(theirs, Value) else host.environ())
    for given in scope.models:
        name, _, revision = given.rpartition("@")
        whole = Named(_OPTION, given)
        single = not name or not revision or "://" in given
        if single or isinstance(attempt(located, host, whole, standpoint), Value):
            yield whole, standpoint
        else:
            yield Named(_OPTION, name, revision), standpoint


_OPTION = "--model"


def _groups(host: Host, scope: Scope) -> tuple[Group, ...]:
    """Raises: Missing where processes are named and cannot be listed."""
    if not scope.pids and not scope.match:
        return ()
    table(host)
    try:
        return of_interest(host, scope)
    except Missing:  # none runs yet; the section of the processes says so
        return ()


def _named_by_processes(host: Host, groups: Sequence[Group]) -> Iterator[tuple[Named, Standpoint | Found]]:
    """The models on the command lines of the processes of interest, and of those that started them."""
    for process in (p for group in groups for p in (*group.members, *reversed(group.chain))):
        if process.zombie or process.retitled or not (named := named_in(process.argv)):
            continue
        standpoint = _standpoint(host, process)
        yield from ((one, standpoint) for one in named)


def _standpoint(host: Host, process: Process) -> Standpoint | Found:
    """From where a process sees its files: by its own directory, environment and mounts."""
    proc = f"/proc/{process.pid}"
    cwd, theirs, ours = host.found([["link", f"{proc}/cwd"], ["link", f"{proc}/ns/mnt"], ["link", "/proc/self/ns/mnt"]])
    environ = exec_env.read_all(host, [process])[process.pid]
    if error := next((found for found in (cwd, theirs) if isinstance(found, Error)), None):
        return error
    if isinstance(environ, Unavailable) or not isinstance(cwd, Value) or not isinstance(theirs, Value):
        why = next(found.why for found in (environ, cwd, theirs) if isinstance(found, Unavailable))
        return Unavailable(why, "which files its process sees cannot be read; name it with --model")
    if isinstance(ours, Value) and theirs != ours:
        return Unavailable(Why.NOT_SUPPORTED, "its process is in another mount namespace; capture inside it")
    return Standpoint(str(cwd.value), environ)


def _is_covered(group: Group) -> bool:
    """Whether the program that started the others has written a title over its command line."""
    return next((p for p in group.chain if not SHELL.match(p.program)), group.root).retitled


def _model(host: Host, model: Model, held: Cache) -> Iterator[tuple[str, Found]]:
    base = path_of("model[]", model.name)
    yield f"{base}.path", Value(model.place)
    if model.revision:
        yield f"{base}.revision", Value(model.revision)
    if model.file_bytes is not None:
        yield f"{base}.weights", Value({posixpath.basename(model.place): model.file_bytes})
        yield f"{base}.weights_bytes", Value(model.file_bytes)
        return
    listed = attempt(host.listdir, model.place)
    if not isinstance(listed, Value):
        yield base, listed
        return
    names = listed.value
    texts = host.found([["read", f"{model.place}/{name}", CONFIG_BYTES] for name in names if name in _CONFIGS])
    texts_by_name = dict(zip([name for name in names if name in _CONFIGS], texts))
    for name, found in texts_by_name.items():
        if key := _CONFIGS[name]:
            yield f"{base}.{key}", attempt(_object, found, name)
    yield from _template(base, texts_by_name)
    yield from _weights(host, base, model.place, [name for name in names if name.endswith(_WEIGHTS)])
    small = [name for name in names if _SMALL.fullmatch(name) or name in _INDEXES]
    for name, found in zip(small, _hashes(host, [f"{model.place}/{name}" for name in small], held)):
        yield f"{base}.index_sha256" if name in _INDEXES else path_of("model[].file[].sha256", model.name, name), found


_CONFIGS = {
    "config.json": "config",
    "generation_config.json": "generation_config",
    **dict.fromkeys(_QUANTIZATIONS, "quantization"),
    **dict.fromkeys(("tokenizer_config.json", "chat_template.json", "chat_template.jinja"), ""),
}
"""Files that are read, and the key that holds their content."""


def _object(found: Found, name: str) -> dict[str, Json]:
    """A JSON object of bounded depth. Raises: Missing."""
    try:
        # NOTE: configurations do hold Infinity, which is no JSON; as text it stays what it is.
        value = json.loads(value_of(found), parse_constant=str, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise Missing(Why.NOT_SUPPORTED, f"{name} is not JSON") from error
    if not isinstance(value, dict):
        raise Missing(Why.NOT_SUPPORTED, f"{name} is not a JSON object")
    if not _is_shallow(value, MAX_DEPTH):
        raise Missing(Why.TOO_LARGE, f"{name} is nested deeper than {MAX_DEPTH} levels")
    return value


def _finite(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _is_shallow(value: Json, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_shallow(v, depth - 1) for v in inner)


def _template(base: str, texts: Mapping[str, Found]) -> Iterator[tuple[str, Found]]:
    """The chat template of the first place that has one, in the order in which transformers looks."""
    for name in ("chat_template.jinja", "chat_template.json", "tokenizer_config.json"):
        found = texts.get(name)
        if not isinstance(found, Value):
            continue
        template: Json = found.value
        if name.endswith(".json"):
            content = attempt(_object, found, name)
            template = content.value.get("chat_template") if isinstance(content, Value) else None
        if template:
            text = template if isinstance(template, str) else json.dumps(template, sort_keys=True)
            digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
            yield f"{base}.chat_template_sha256", Value(digest)
            return


def _weights(host: Host, base: str, directory: str, names: Sequence[str]) -> Iterator[tuple[str, Found]]:
    stats = host.found([["stat", f"{directory}/{name}"] for name in names[:MAX_WEIGHTS]])
    files = ((n, s.value) for n, s in zip(names, stats) if isinstance(s, Value))
    sizes = {name: stat["size"] for name, stat in files if stat["type"] == "file"}
    if not names:
        return
    if len(sizes) < len(names):
        lost = next(name for name in names if name not in sizes)
        reason = Unavailable(Why.ABSENT, f"{len(names) - len(sizes)} weight files cannot be looked at, {lost} first")
        yield f"{base}.weights", reason
        yield f"{base}.weights_bytes", reason
        return
    yield f"{base}.weights", Value(sizes)
    yield f"{base}.weights_bytes", Value(sum(sizes.values()))


def _hashes(host: Host, paths: Sequence[str], held: Cache) -> list[Found]:
    """Hashes of files, those not remembered in one batch."""
    stats = dict(zip(paths, host.found([["stat", path] for path in paths])))
    known: dict[str, Found] = {}
    for path, stat in stats.items():
        if not isinstance(stat, Value):
            known[path] = stat
        elif answer := held.recall("sha256", path, stat.value):
            known[path] = Value(answer[0])
    asked = [path for path in paths if path not in known]
    for path, found in zip(asked, host.found([["hash", path] for path in asked])):
        known[path] = found
        if isinstance(found, Value):
            held.remember("sha256", path, value_of(stats[path]), found.value)
    return [known[path] for path in paths]
