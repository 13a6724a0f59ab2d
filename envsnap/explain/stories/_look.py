"""What stories look up: values of one side by rank and GPU, arguments, variables; and the changes of these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from statistics import median

from envsnap.change import Change
from envsnap.collectors import key_for
from envsnap.explain.ranks import ranks
from envsnap.explain.setting import Setting
from envsnap.explain.story import Facts, View
from envsnap.keys import instances_of, path_of, pattern_of
from envsnap.known_names import OFF
from envsnap.reading import Json, Value

_VARIABLES = ("worker[].env[]", "record[].env[]", "env[]", "nccl.rank[].set[]", "nccl.conf[].set[]",
              "worker[].env_at_exec[]", "record[].os_environ_differs[]", "server[].dp[].env[]")  # fmt: skip
_ARGUMENTS = ("server[].argument[]", "server[].dp[].runtime_argument[]", "record[].argument[]",
              "record[].typed_argument[]")  # fmt: skip


def is_on(value: Json) -> bool:
    """Whether a value of a switch, of whatever type, means yes."""
    return str(value).strip().lower() not in OFF if value is not None else False


def argument(setting: Setting, *names: str) -> Json:
    """The first of some arguments that a side is known to have, in whatever section; None where none is."""
    for name in names:
        if (value := setting.arguments.get(name)) is not None:
            return value
    for full, value in setting.arguments.items():
        if "_config." in full and value is not None and any(name in argument_names(full) for name in names):
            return value
    return None


def argument_names(full: str) -> tuple[str, ...]:
    """The names that an argument goes by: `attention_config.backend`, `backend`, and `attention_backend` elsewhere."""
    section, dot, name = full.rpartition(".")
    if not dot or not section.endswith("_config"):
        return (full,)
    return full, name, f"{section.rpartition('.')[2].removesuffix('config')}{name}"


def argument_changes(view: View, *patterns: str) -> list[Change]:
    """The changes of arguments of these names, typed ones included."""
    found = view.changed(*_ARGUMENTS)
    typed = [c for c in view.changes if c.leaf.startswith("[--")]
    return [
        *(c for c in found if _any_named(argument_names(instances_of(c.path)[-1]), patterns)),
        *(c for c in typed if _any_named(argument_names(c.leaf[3:-1]), patterns)),
    ]


def variable_changes(view: View, *patterns: str) -> list[Change]:
    """The changes of variables of these names, wherever they stand."""
    return [c for c in view.changed(*_VARIABLES) if _named(instances_of(c.path)[-1], patterns)]


def package_changes(view: View, *patterns: str) -> list[Change]:
    """The changes of these distributions' versions and builds."""
    found = view.changed("package[].version", "package[].record_sha256", "package[].local_tag", "conda[].version")
    return [c for c in found if _named(instances_of(c.path)[0], patterns)]


def _any_named(names: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(_named(name, patterns) for name in names)


def _named(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def variable(facts: Facts, name: str) -> str | None:
    """A variable's value in the ranks, where they agree; else in the process that captured; None where unset."""
    held = variables(facts, name)
    if held:
        values = set(held.values())
        return values.pop() if len(values) == 1 else None
    if facts.has("worker[].env[]"):
        return None
    value = facts.get(path_of("env[]", name))
    return None if value is None else str(value)


def variables(facts: Facts, name: str) -> dict[str, str]:
    """A variable's value by rank, of the ranks that have it."""
    found: dict[str, str] = {}
    for role in ranks(facts):
        for pattern in ("worker[].env[]", "record[].env[]"):
            if (value := facts.get(path_of(pattern, role, name))) is not None:
                found.setdefault(role, str(value))
    return found


def numbers(facts: Facts, key: str) -> dict[str, float]:
    """The numbers of a key, by path."""
    return {
        p: float(v) for p, v in facts.values(key).items() if isinstance(v, (int, float)) and not isinstance(v, bool)
    }


def middle(facts: Facts, key: str) -> float | None:
    """The median of a key's numbers; None where there is none."""
    held = numbers(facts, key)
    return median(held.values()) if held else None


def most(facts: Facts, key: str) -> float | None:
    """The largest of a key's numbers; None where there is none."""
    return max(numbers(facts, key).values(), default=None)


def by_instance(facts: Facts, key: str) -> dict[str, Json]:
    """The values of a key with one instance, by that instance."""
    return {instances_of(path)[0]: value for path, value in facts.values(key).items()}


def same_on_both(view: View, path: str) -> bool:
    """Whether both sides have the same value at a path."""
    value = view.fast.get(path)
    return value is not None and value == view.slow.get(path)


def seen_as_change(view: View, path: str) -> Change | None:
    """What differs at a path, as a change, whether or not it is of a kind that is compared by itself."""
    one, two = view.fast.get(path), view.slow.get(path)
    if one is None or two is None or one == two:
        return None
    return Change(path, key_for(path), Value(one), Value(two))


def cpus(text: Json) -> frozenset[int]:
    """The numbers of a list such as `0-3,8`; empty for what is none."""
    if not isinstance(text, str) or not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text.strip()):
        return frozenset()
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), min(int(last or first), int(first) + 65_536) + 1))
    return frozenset(found)


def version(text: Json) -> tuple[int, ...]:
    """A version as numbers, to be compared; empty for what is none."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", str(text)) if text is not None else None
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def paths(changes: Iterable[Change]) -> tuple[str, ...]:
    """Where changes are."""
    return tuple(dict.fromkeys(c.path for c in changes))


def of_pattern(changes: Iterable[Change], *patterns: str) -> Iterator[Change]:
    """The changes of some keys."""
    return (c for c in changes if pattern_of(c.path) in patterns)


def prompt_tokens(facts: Facts) -> float | None:
    """Prompt tokens a request: as the server counted them, else as the benchmark did; None where nobody did."""
    counts = facts.get("during.server.prompt_tokens_count"), facts.get("during.server.request_count")
    run = next((r for r in facts.side.runs if r.status == "ok"), None)
    asked = run.request if run is not None else {}
    for tokens, requests in (counts, (asked.get("total_input_tokens"), asked.get("completed"))):
        if isinstance(tokens, (int, float)) and isinstance(requests, (int, float)) and tokens > 0 and requests > 0:
            return float(tokens / requests)
    return None


CACHED = "during.server.cached_prompt_percent"


def cached_share(facts: Facts) -> float | None:
    """Part of the prompts' tokens that the server found in its cache over the run; None where it did not say."""
    percent = facts.get(CACHED)
    return percent / 100 if isinstance(percent, (int, float)) else None
