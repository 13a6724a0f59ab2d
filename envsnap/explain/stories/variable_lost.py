"""A variable is set in the launcher and missing in the workers.

Exporting a variable does not mean that the ranks have it: engines spawn their workers through files, containers,
remote shells or Ray, and filter or overwrite the environment on the way. A worker without it runs with the
library's default, and nothing says so. The variables that each process really has are compared along the way from
the shell.
"""

from __future__ import annotations

from collections.abc import Iterator

from envsnap.change import Change
from envsnap.collectors import key_for
from envsnap.explain.explanation import Evidence, Mistake
from envsnap.explain.harm import Towards, known
from envsnap.explain.ranks import ranks
from envsnap.explain.stories._look import variables
from envsnap.explain.story import Facts, Finding, Together, View
from envsnap.explain.weights import STRONG
from envsnap.fold import listed
from envsnap.keys import Kind, instances_of, path_of
from envsnap.reading import Json, Unset, Value
from envsnap.workers.engine_writes import writer

CODE = "variable_lost"
NEEDS = ("worker[].env[]",)

_LOST = 0.5
"""Prior of a variable that does not arrive, whatever its name: somebody meant the workers to have it."""
_NOTABLE = 0.4
"""Prior of a variable from which it is worth a mistake of its own where it is lost on both sides."""


def tell(view: View) -> Iterator[Finding]:
    """Yield variables that the slow side's ranks lost on the way."""
    gone: dict[str, list[Change]] = {}
    for change in view.changed("worker[].env[]"):
        role, name = instances_of(change.path)
        if role in ranks(view.slow) and isinstance(change.before, Value) and isinstance(change.after, Unset):
            gone.setdefault(name, []).append(change)
    lost = {
        name: changes
        for name, changes in gone.items()
        if _above(view.slow, name) is not None and known(changes[0], view.setting).towards is not Towards.NEITHER
    }
    if lost:
        names = sorted(lost)
        one = len(names) == 1
        text = f"{'It is' if one else 'They are'} exported on the slow side too, and did not arrive in the ranks."
        changes = tuple(c for held in lost.values() for c in held)
        effects = tuple(dict.fromkeys(e for c in changes for e in c.key.effects))
        yield Together(
            f"{listed(names)} set in the launcher and missing in the workers",
            "The ranks run with the defaults in place of what was exported.",
            changes,
            effects,
            (Evidence(text, STRONG, tuple(path for name in names if (path := _above(view.slow, name)))),),
            prior=max(_LOST, *(c.key.prior for c in changes)),
        )
    yield from _on_both(view, set(lost))


def _above(facts: Facts, name: str) -> str | None:
    """Where a process that starts the ranks has the variable: its path."""
    roles = {instances_of(path)[0] for path in facts.values(f"worker[*].env[{name}]")} - set(ranks(facts))
    starters = [role for role in roles if not role.endswith(("detokenizer", "client"))]
    if starters:
        return path_of("worker[].env[]", sorted(starters)[0], name)
    at_exec = [path for path in facts.values(f"worker[*].env_at_exec[{name}]") if instances_of(path)[0] in ranks(facts)]
    return at_exec[0] if at_exec else None


def _on_both(view: View, known: set[str]) -> Iterator[Finding]:
    lost = [_lost(facts) for facts in view.sides]
    names = sorted((lost[0].keys() & lost[1].keys()) - known)
    if names:
        yield Mistake(
            f"{listed(names)}: set in the launcher, missing in every worker",
            "Look at the way from the shell to the ranks with `envsnap workers`; set it where the workers are started.",
            tuple(lost[1][name] for name in names),
        )


def _lost(facts: Facts) -> dict[str, str]:
    """Notable variables that a starter has and no rank has: name -> path."""
    if not ranks(facts) or not any(variables(facts, "PATH")):
        return {}
    found: dict[str, str] = {}
    for path, value in facts.values("worker[].env[]").items():
        role, name = instances_of(path)
        key = key_for(path)
        if role in ranks(facts) or key.prior < _NOTABLE or key.kind is not Kind.TUNABLE:
            continue
        if not variables(facts, name) and _is_unset(facts, name) and not _overwritten(facts, role, name, value):
            found.setdefault(name, path)
    return found


def _is_unset(facts: Facts, name: str) -> bool:
    return all(isinstance(facts.reading(path_of("worker[].env[]", role, name)), Unset) for role in ranks(facts))


def _overwritten(facts: Facts, role: str, name: str, value: Json) -> bool:
    """Whether the engine itself is known to write it in that process."""
    return writer(name, role, str(value)) is not None
