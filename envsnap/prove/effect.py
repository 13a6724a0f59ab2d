"""Whether a switch took effect: what the workers of the trial had, by the trial's own snapshot under load."""

from __future__ import annotations

import os

from envsnap.explain.effective import computes
from envsnap.explain.ranks import computing
from envsnap.keys import instances_of, path_of, pattern_of
from envsnap.prove.switches import Setting, Switch, options_of
from envsnap.reading import Reading, Unset, Value
from envsnap.redact import HASH
from envsnap.snapshot import Snapshot
from envsnap.wording import shorten


def without_effect(switch: Switch, setting: Setting, during: Snapshot | None) -> str:
    """Why a setting did not reach the workers; empty where it did, or where nobody could look."""
    if during is None:
        return ""
    roles = sorted({instances_of(p)[0] for p in during.values if p.startswith("worker[")})
    # The shell above a trial is the one that prove was started in: what somebody had exported there is set below it.
    roles = [r for r in roles if r in switch.roles and computes(r)] or computing(roles)
    for role in roles:
        for name, wanted in setting.environment.items():
            if problem := _variable(during.reading(path_of("worker[].env[]", role, name)), name, wanted):
                return f"{role} {problem}"
        if setting.paths:
            held = during.reading(path_of("worker[].env[]", role, "PYTHONPATH"))
            if isinstance(held, Value) and setting.paths[-1] not in str(held.value).split(os.pathsep):
                return f"{role} has another PYTHONPATH"
        if setting.cpus and role.endswith("main"):
            held = during.reading(path_of("worker[].cpus", role))
            if isinstance(held, Value) and held.value != setting.cpus:
                return f"{role} runs on CPUs {held.value} instead of {setting.cpus}"
        if setting.policy:
            held = during.reading(path_of("worker[].numa_policy", role))
            if isinstance(held, Value) and held.value != setting.policy:
                return f"{role} has the memory policy {held.value} instead of {setting.policy}"
    return _options(setting, during) or _imported(switch, setting, during)


def seen(during: Snapshot | None) -> bool:
    """Whether the snapshot shows workers at all."""
    return during is not None and any(p.startswith("worker[") for p in during.values)


def _variable(held: Reading, name: str, wanted: str | None) -> str:
    if isinstance(held, Unset) and wanted is not None:
        return f"does not have {name}"
    if isinstance(held, Value) and not HASH.search(str(held.value)):
        if wanted is None:
            return f"has {name}={shorten(str(held.value), 40)}, which was to be unset"
        if "{" not in wanted and str(held.value) != wanted:
            return f"has {name}={shorten(str(held.value), 40)} instead of {shorten(wanted, 40)}"
    return ""


def _options(setting: Setting, during: Snapshot) -> str:
    """Options by what the engine resolved, where both the side and the trial say; else by the command line."""
    values = during.values
    resolved = {
        instances_of(p)[-1]: v
        for p, v in values.items()
        if pattern_of(p) in ("server[].argument[]", "record[].argument[]")
    }
    typed = [
        options_of([str(w) for w in v]) for p, v in values.items() if p.startswith("worker[") and p.endswith("].argv")
    ]
    for name, words in setting.options.items():
        option = f"--{name.replace('_', '-')}"
        if name in setting.resolved and name in resolved:
            if resolved[name] != setting.resolved[name]:
                told, wanted = shorten(str(resolved[name]), 40), shorten(str(setting.resolved[name]), 40)
                return f"the engine resolved {option} to {told} instead of {wanted}"
        elif typed and words is not None and not any(held.get(name) == words for held in typed):
            return f"no worker was started with {' '.join(words)}"
        elif typed and words is None and any(name in held for held in typed):
            return f"a worker was started with {option}, which was to be left out"
    return ""


def _imported(switch: Switch, setting: Setting, during: Snapshot) -> str:
    """Whether workers, by their own records, imported from the user's tree instead of the one put first."""
    for path, value in during.values.items():
        if pattern_of(path) == "record[].package_origin[]" and instances_of(path)[-1] in setting.packages:
            wanted = setting.packages[instances_of(path)[-1]]
            if not str(value).startswith(f"{wanted}{os.sep}"):
                return f"{instances_of(path)[0]} imported {shorten(str(value), 60)}"
    if not (setting.paths and switch.home):
        return ""
    for path, value in during.values.items():
        if pattern_of(path) == "record[].package_origin[]" and str(value).startswith(f"{switch.home}{os.sep}"):
            inside = any(str(value).startswith(f"{place}{os.sep}") for place in setting.paths)
            if not inside:
                return f"{instances_of(path)[0]} imported {shorten(str(value), 60)}"
    return ""
