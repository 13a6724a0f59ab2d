"""Sharing: a copy of a snapshot that says what a machine is, and not which one or whose.

Labels (which one, not what) become *unavailable*. User names, home directories, host names, hardware, mail and
network addresses, UUIDs and serial numbers are replaced in every string, the same one by the same stand-in, so that
the copy still diffs and still shows that two things were the same. Secrets stay the hashes that they are.

What is not touched, and is for a person to look over: names of repositories, branches, models and remote hosts, patch
text, command lines, names and values of variables. They are what the snapshot is about.
"""

from __future__ import annotations

from dataclasses import replace

from envsnap.collectors import key_for
from envsnap.keys import Kind, instances_of, path_of, pattern_of
from envsnap.reading import Unavailable, Why
from envsnap.snapshot import Section, Snapshot
from envsnap.standins import StandIns, everywhere, strings_of

NOTE = (
    "Shared copy: labels removed; user names, home directories, host names, network and hardware addresses, UUIDs and "
    "serial numbers replaced by stand-ins."
)
_REMOVED = Unavailable(Why.OFF, "a label, removed for sharing")

_USERS = frozenset("USER LOGNAME USERNAME SUDO_USER SLURM_JOB_USER".split())  # noqa: SIM905
_HOSTS = frozenset("HOSTNAME HOST SLURMD_NODENAME NODE_NAME POD_NAME SLURM_SUBMIT_HOST".split())  # noqa: SIM905
_TELLS_NOT_WHICH = ("python", "machine", "nvml", "round_trip_seconds", "cost")
"""What stays of how a machine was reached; the prefix names it."""
_IDENTIFIERS = ("serial", "machine_id", "guid")


def share(snapshot: Snapshot) -> Snapshot:
    """The copy. Its note says what was removed; its hashes are its own."""
    known = StandIns()
    learn(known, snapshot)

    def words(text: str) -> str:
        return known.text(text)

    sections = {name: _section(section, known) for name, section in snapshot.sections.items()}
    return replace(
        snapshot,
        sections=sections,
        scope=everywhere(snapshot.scope, words),
        via={name: value for name, value in snapshot.via.items() if name in _TELLS_NOT_WHICH},
        redaction=everywhere(snapshot.redaction, words),
        note=" ".join(filter(None, (words(snapshot.note), NOTE))),
    )


def learn(known: StandIns, snapshot: Snapshot) -> None:
    """Learn from a snapshot who and where its machine is."""
    versions = set()
    for path, value in snapshot.values.items():
        last = path.rsplit("]", 1)[-1] or path.rsplit("[", 1)[0].rsplit(".", 1)[-1]
        if "version" in path.lower() or "pin" in last:
            versions |= set(strings_of(value))
        elif isinstance(value, str):
            _learn_named(known, path, last, value)
    for section in snapshot.sections.values():
        for text in strings_of([*section.values.values(), *section.errors.values(), section.reason]):
            known.learn_from_text(text)
            if text.count(".") == 3 and text not in versions:
                known.learn_address(text)
        for unavailable in section.unavailable.values():
            known.learn_from_text(unavailable.detail)
    for text in strings_of([snapshot.scope, snapshot.note, snapshot.redaction]):
        known.learn_from_text(text)


def _learn_named(known: StandIns, path: str, last: str, value: str) -> None:
    if path.endswith("]"):
        name = instances_of(path)[-1]
        if name in _USERS:
            known.learn_user(value)
        elif name in _HOSTS:
            known.learn_host(value)
        elif name == "HOME":
            known.learn_home(value)
    elif last.endswith("hostname"):
        known.learn_host(value)
    elif last.endswith(_IDENTIFIERS):
        known.learn_identifier(value)


def _section(section: Section, known: StandIns) -> Section:
    def words(text: str) -> str:
        return known.text(text)

    labels = dict.fromkeys(p for held in (section.values, section.errors) for p in held if _is_label(p))
    return replace(
        section,
        reason=words(section.reason),
        values={_path(p, known): everywhere(v, words) for p, v in section.values.items() if p not in labels},
        errors={_path(p, known): words(e) for p, e in section.errors.items() if p not in labels},
        unavailable={
            **{_path(p, known): Unavailable(u.why, words(u.detail)) for p, u in section.unavailable.items()},
            **{_path(p, known): _REMOVED for p in labels},
        },
    )


def _is_label(path: str) -> bool:
    return key_for(path).kind is Kind.LABEL


def _path(path: str, known: StandIns) -> str:
    if "[" not in path:
        return path
    return path_of(pattern_of(path), *(known.text(instance) for instance in instances_of(path)))


def left_over(snapshot: Snapshot) -> list[str]:
    """Paths that hold free text which a person should look over before the copy leaves the house."""
    telling = ("patch", "remote", "argv", "command", "subject", "message", "branch")
    texts = (p for p, v in snapshot.values.items() if v and isinstance(v, (str, list)))
    return sorted(p for p in texts if any(word in p.rsplit(".", 1)[-1] for word in telling))
