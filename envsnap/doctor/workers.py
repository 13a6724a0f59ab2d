"""Whether workers can be looked into from outside, and whether they tell of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envsnap.doctor.item import Item, State
from envsnap.host import Host
from envsnap.keys import instances_of
from envsnap.reading import Missing, Unavailable, Value, Why
from envsnap.snapshot import Snapshot
from envsnap.wording import plural
from envsnap.workers import denied, live_env, tree

ARRIVED = "arrived"
"""State of a record that has come."""

_CODE, _TITLE = "process_memory", "memory of other processes"
_LOST = "the environment that workers really have, where a server was not started by envsnap run"
_CHANGE = "sudo; or ENVSNAP_RECORD=DIR in the server's environment; or sysctl kernel.yama.ptrace_scope=0"

_OF_A_USER = 3
_LOOKED_AT = 12
"""Processes whose memory is tried at most."""
_KNOWN = 400
"""Processes whose owner is asked for at most."""


def memory(snapshot: Snapshot) -> Item | None:
    """Whether the live environment of the workers was read in their memory; None where there are none."""
    section = snapshot.sections.get("worker")
    roles = sorted({instances_of(p)[0] for p in section.values if p.startswith("worker[")}) if section else []
    if not section or not roles:
        return None
    refused = [r for role in roles if (r := section.unavailable.get(f"worker[{role}].env"))]
    return _judged(len(roles), [r for r in refused if r.why is not Why.GONE], "worker")


def memory_of_others(host: Host) -> Item:
    """The same by a few processes that envsnap did not start, of each user."""
    try:
        pids = _some(host)
        found = live_env.read_all(host, pids)
    except Missing as missing:
        return Item(_CODE, _TITLE, State.FAILS, str(missing), _LOST, _CHANGE)
    refused = [pid for pid, r in found.items() if isinstance(r, Unavailable) and r.why is Why.DENIED]
    return _judged(len(pids), list(denied.explain(host, refused).values()), "process")


def records(snapshot: Snapshot) -> Iterator[Item]:
    """Whether records of the workers have come; nothing where there are no workers."""
    section, workers = snapshot.sections.get("worker_record"), snapshot.sections.get("worker")
    if not section or not workers or not workers.values:
        return
    title, lost = "records that workers write", "what only a worker knows: CUDA graphs, NCCL's choices, lines that ran"
    states = [v for path, v in section.values.items() if path.startswith("record[") and path.endswith("].state")]
    there = states.count(ARRIVED)
    if states and there == len(states):
        yield Item("records", title, State.WORKS, f"of {plural(there, 'worker')}")
        return
    odd = sorted({str(s) for s in states if s != ARRIVED})
    found = f"{there} of {len(states)} have come: {', '.join(odd)}" if states else section.reason
    change = "ENVSNAP_RECORD=DIR when the server starts, and envsnap in its Python or the recorder on its PYTHONPATH"
    yield Item("records", title, State.PARTLY if there else State.FAILS, found, lost, change)


def _judged(count: int, refused: Sequence[Unavailable], noun: str) -> Item:
    tried = plural(count, noun)
    if not count:
        return Item(_CODE, _TITLE, State.NOTHING, "there are no others")
    if not refused:
        return Item(_CODE, _TITLE, State.WORKS, f"of {tried} that were tried")
    clause = refused[0].detail.partition(". ")[0]
    state = State.FAILS if len(refused) == count else State.PARTLY
    return Item(_CODE, _TITLE, state, f"{len(refused)} of {tried}: {clause}", _LOST, _CHANGE)


def _some(host: Host) -> list[int]:
    """Processes that are neither envsnap's nor its children, a few of each user. Raises: Missing."""
    me = int(host.self()["pid"])
    processes = tree.table(host)
    own = tree.descendants(processes, [me])
    others = [p.pid for p in processes.values() if p.pid not in own and not p.zombie][:_KNOWN]
    owners = host.found([["stat", f"/proc/{pid}"] for pid in others])
    by_user: dict[int, list[int]] = {}
    for pid, found in zip(others, owners):
        if isinstance(found, Value):
            by_user.setdefault(found.value["uid"], []).append(pid)
    return [pid for pids in by_user.values() for pid in pids[:_OF_A_USER]][:_LOOKED_AT]
