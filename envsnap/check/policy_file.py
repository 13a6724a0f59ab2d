"""Reading a policy: its file, what it includes, and the profiles that were asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from envsnap.capture import has_type
from envsnap.check import form
from envsnap.check.builtin import Setting
from envsnap.check.comparators import COMPARATORS, is_number, is_specifier
from envsnap.check.contradictions import contradictions
from envsnap.check.facts import ERROR
from envsnap.check.policy import GPUS, SCHEMA, Condition, Policy, PolicyError, Requirement
from envsnap.check.rules import codes
from envsnap.check.selectors import Selector, nearest, select
from envsnap.check.waivers import Waiver
from envsnap.collectors import keys
from envsnap.keys import Key, Type
from envsnap.reading import Json

NAME = "envsnap.toml"
MAX_BYTES = 4 << 20
MAX_FILES = 64


def load(file: str | Path, profiles: Sequence[str] = ()) -> Policy:
    """The policy in a file, with the named profiles and those whose condition may hold.

    Raises: PolicyError with one sentence for whatever is wrong with it or with what it includes.
    """
    documents = list(_documents(Path(file), set()))
    layers = [_layer(document, name) for document, name in documents]
    policy = _merged(layers, [name for _, name in documents])
    policy = _with_profiles(policy, documents, profiles)
    if broken := contradictions(policy.requirements):
        raise PolicyError(broken)
    return policy


# -- files -------------------------------------------------------------------------------------------------------


def _documents(file: Path, seen: set[str]) -> Iterator[tuple[dict[str, Json], str]]:
    """A file after all that it includes, each file once; a cycle ends where it closes."""
    real = os.path.realpath(file)
    if real in seen:
        return
    seen.add(real)
    if len(seen) > MAX_FILES:
        raise PolicyError([f"{file} includes more than {MAX_FILES} files."])
    document = _parsed(file)
    broken = [f"{file}: {text}" for text in form.violations(document, SCHEMA)]
    if broken:
        raise PolicyError(broken)
    for name in document.get("include", []):
        yield from _documents(file.parent / name, seen)
    yield document, str(file)


def _parsed(file: Path) -> dict[str, Json]:
    tomllib = _toml()
    try:
        with open(file, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise PolicyError([f"{file} cannot be read: {error.strerror or error}."]) from error
    if len(data) > MAX_BYTES:
        raise PolicyError([f"{file} is larger than {MAX_BYTES >> 20} MiB."])
    try:
        parsed: dict[str, Json] = tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise PolicyError([f"{file} is no UTF-8 text."]) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PolicyError([f"{file} is no TOML: {error}."]) from error
    return parsed


def _toml() -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib


# -- layers --------------------------------------------------------------------------------------------------------


def _layer(body: Mapping[str, Json], origin: str, conditions: tuple[Condition, ...] = ()) -> Policy:
    """What one document or profile says by itself. Raises: PolicyError."""
    broken: list[str] = []
    found: list[Requirement] = []
    for text, said in body.get("require", {}).items():
        selector = select(text)
        if selector is None:
            broken.append(f"{origin}: {text} is no key that envsnap reads{nearest(text)}")
            continue
        for fields in said if isinstance(said, list) else [said if isinstance(said, dict) else {"equals": said}]:
            requirement = _requirement(selector, fields, origin, conditions)
            broken += [f"{origin}: {text}: {sentence}" for sentence in _mistakes(requirement)]
            found.append(requirement)
    rules = {}
    for code, setting in body.get("rules", {}).items():
        if code not in codes():
            close = get_close_matches(code, codes(), n=1)
            broken.append(f"{origin}: {code} is no built-in rule{f'; did you mean {close[0]}?' if close else '.'}")
        fields = setting if isinstance(setting, dict) else {"severity": setting}
        rules[code] = Setting(fields.get("severity", ""), _waiver(fields.get("waiver")))
    if broken:
        raise PolicyError(broken)
    return Policy(tuple(found), rules)


def _requirement(
    selector: Selector, fields: Mapping[str, Json], origin: str, conditions: tuple[Condition, ...]
) -> Requirement:
    if "applies_when" in fields:
        conditions = (*conditions, _condition(fields["applies_when"]))
    return Requirement(
        selector=selector,
        tests={name: fields[name] for name in COMPARATORS if name in fields},
        present=fields.get("present", False),
        absent=fields.get("absent", False),
        same_across=fields.get("same_across", ""),
        same_as_baseline=fields.get("same_as_baseline", False),
        tolerance=float(fields.get("tolerance", 0.0)),
        severity=fields.get("severity", ERROR),
        reason=fields.get("reason", ""),
        waiver=_waiver(fields.get("waiver")),
        applies_when=conditions,
        origin=origin,
    )


def _waiver(fields: Mapping[str, Json] | None) -> Waiver | None:
    if fields is None:
        return None
    until = form.as_date(fields["until"])
    assert until is not None, "the form was checked"
    return Waiver(fields["note"], fields["owner"], until)


def _condition(fields: Mapping[str, Json]) -> Condition:
    size = fields.get("tensor_parallel", {})
    return Condition(
        gpu=_texts(fields.get("gpu", ())),
        model=_texts(fields.get("model", ())),
        tensor_parallel=tuple(sorted(size.items() if isinstance(size, dict) else [("equals", size)])),
    )


def _texts(value: Json) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _mistakes(requirement: Requirement) -> Iterable[str]:
    """What the form allows and the key does not."""
    r, some = requirement, keys()[requirement.selector.patterns[0]]
    if not (r.tests or r.present or r.absent or r.same_across or r.same_as_baseline):
        yield "it requires nothing."
    for name, operand in r.tests.items():
        if some.type not in COMPARATORS[name].types:
            yield f"{name} makes no sense for a value of type {some.type.value}."
        elif wrong := [o for o in _values_in(name, operand) if not _fits(some, o)]:
            yield f"{wrong[0]!r} is no value of type {some.type.value}."
        elif name == "version" and not is_specifier(operand):
            yield f"{operand!r} is no version specifier such as >=2.27,<3."
        elif name == "range" and operand[0] > operand[1]:
            yield "the range ends before it begins."
    if r.same_across and "*" not in "".join(r.selector.instances[:1]):
        yield "same_across needs a key with [] or * for its first instance."
    elif r.same_across == GPUS and not some.pattern.startswith(("gpu[", "pci[", "nvidia.gpu[", "during.gpu[")):
        yield "it is no fact of a GPU, so it cannot be the same across them."


def _values_in(name: str, operand: Json) -> list[Json]:
    return [operand] if name == "equals" else list(operand) if name == "one_of" else []


def _fits(key: Key, value: Json) -> bool:
    return has_type(value, key.type) or (key.type is Type.INTEGER and is_number(value))


# -- one on the other ------------------------------------------------------------------------------------------------


def _merged(layers: Sequence[Policy], files: Sequence[str]) -> Policy:
    """What is included first; the file itself last, whose word on the same key replaces that of what it includes."""
    *included, own = layers
    below = tuple(r for layer in included for r in layer.requirements)
    rules = {code: setting for layer in layers for code, setting in layer.rules.items()}
    return Policy(_replaced(below, own.requirements), rules, (files[-1], *files[:-1]))


def _replaced(below: Sequence[Requirement], above: Sequence[Requirement]) -> tuple[Requirement, ...]:
    places = {r.place for r in above}
    return (*(r for r in below if r.place not in places), *above)


def _with_profiles(policy: Policy, documents: Sequence[tuple[dict[str, Json], str]], names: Sequence[str]) -> Policy:
    profiles = {
        name: (body, origin) for document, origin in documents for name, body in document.get("profiles", {}).items()
    }
    broken = [
        f"{policy.files[0]} has no profile {name}; it has {', '.join(sorted(profiles)) or 'none'}."
        for name in names
        if name not in profiles
    ]
    broken += [
        f"{origin}: the profile {name} has rules, which a condition cannot switch; leave out its applies_when."
        for name, (body, origin) in profiles.items()
        if "applies_when" in body and "rules" in body
    ]
    if broken:
        raise PolicyError(broken)
    for name, (body, origin) in profiles.items():
        if name not in names and "applies_when" not in body:
            continue
        conditions = () if name in names else (_condition(body["applies_when"]),)
        layer = _layer(body, origin, conditions)
        policy = replace(
            policy,
            requirements=_replaced(policy.requirements, layer.requirements),
            rules={**policy.rules, **layer.rules},
        )
    return policy
