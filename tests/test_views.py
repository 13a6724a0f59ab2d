"""Two views of one machine: what a container cannot see is taken from its host's view, and nothing else is."""

from __future__ import annotations

import pytest

from envsnap.reading import Json, Unavailable, Unset, Value, Why
from envsnap.snapshot import Section, Snapshot
from envsnap.views import View, host_prefix, joined, unseen

DENIED = Unavailable(Why.DENIED, "not from here")
HOST, INNER = "pid:[1]", "pid:[2]"


def section(values: dict[str, Json], missing: tuple[str, ...] = (), status: str = "ok") -> Section:
    return Section(status, status == "ok", 0.1, "read", "", values, dict.fromkeys(missing, DENIED))


def view(namespace: str, sees: set[str], sections: dict[str, Section], boot: str = "b") -> View:
    kernel = section({"kernel.boot_id": boot})
    via = {"prefix": f"enter {namespace}", "pid_namespace": namespace}
    snapshot = Snapshot("2026-01-01T00:00:00+00:00", {"kernel": kernel, **sections}, "0", via=via)
    return View(snapshot, frozenset(sees))


def pair(inner: dict[str, Section], outer: dict[str, Section]) -> Snapshot:
    """The container's snapshot beside its host's."""
    return joined([view(INNER, {INNER}, inner), view(HOST, {HOST, INNER}, outer)])[0]


def test_a_section_that_cannot_be_had_inside_is_the_hosts() -> None:
    log = section({"kernel_log.hung_task_count": 3})
    found = pair({"kernel_log": section({}, status="unavailable")}, {"kernel_log": log})
    assert found.sections["kernel_log"].values == log.values
    assert found.sections["kernel_log"].method == "read (on the host)"
    assert found.via["host_view"] == {
        "prefix": f"enter {HOST}",
        "captured_at": "2026-01-01T00:00:00+00:00",
        "paths": ["kernel_log.hung_task_count"],
    }


def test_only_what_could_not_be_read_is_filled() -> None:
    inner = section({"cpu.model": "inside"}, ("cpu.governor",))
    outer = section({"cpu.model": "outside", "cpu.governor": "powersave", "cpu.base_mhz": 2000})
    found = pair({"cpu": inner}, {"cpu": outer})
    assert found.reading("cpu.model") == Value("inside")
    assert found.reading("cpu.governor") == Value("powersave")
    assert found.reading("cpu.base_mhz") == Unset(), "what is unset inside is so"


def test_what_a_container_has_of_its_own_is_never_the_hosts() -> None:
    found = pair(
        {"environ": section({}, ("env[A]",)), "cgroup": section({}, status="unavailable")},
        {"environ": section({"env[A]": "1"}), "cgroup": section({"cgroup.cpu_limited": True})},
    )
    assert found.reading("env[A]") == DENIED
    assert "cgroup.cpu_limited" not in found.values


def test_gpus_are_the_same_by_their_uuid() -> None:
    inner = section({"gpu[0].uuid": "GPU-b"}, ("gpu[0].process_names",))
    outer = section(
        {"gpu[0].uuid": "GPU-a", "gpu[1].uuid": "GPU-b", "gpu[0].process_names": ["x"], "gpu[1].process_names": ["y"]}
    )
    assert pair({"gpu": inner}, {"gpu": outer}).reading("gpu[0].process_names") == Value(["y"])


@pytest.mark.parametrize("case", ["another boot", "not seen", "both see", "same namespace"])
def test_what_is_no_view_of_the_same_machine_is_left_alone(case: str) -> None:
    log = {"kernel_log": section({"kernel_log.hung_task_count": 3})}
    inner = view(
        HOST if case == "same namespace" else INNER,
        {INNER, HOST} if case == "both see" else {INNER},
        {"kernel_log": section({}, status="unavailable")},
    )
    outer = view(HOST, {HOST} if case == "not seen" else {HOST, INNER}, log, "c" if case == "another boot" else "b")
    assert joined([inner, outer]) == [inner.snapshot, outer.snapshot]


def test_a_machine_whose_boot_is_not_known_is_joined_with_none() -> None:
    views = [View(Snapshot("t", {}, "0", via={"pid_namespace": n}), frozenset({HOST, INNER})) for n in (HOST, INNER)]
    assert joined(views) == [v.snapshot for v in views]


def test_what_cannot_be_seen_from_inside() -> None:
    inside = {"container.kind": "lxc", "container.namespaces": ["pid", "user"]}
    assert unseen(Snapshot("t", {"container": section(inside)}, "0")) == [
        "processes outside (who else takes CPU time, memory and GPUs)",
        "what the host's root alone may read",
        "the kernel's log",
    ]
    none = {"container.kind": "none", "container.namespaces": ["user"]}
    assert unseen(Snapshot("t", {"container": section(none)}, "0")) == []
    assert unseen(Snapshot("t", {}, "0")) == []


@pytest.mark.parametrize(
    ("prefix", "host"),
    [
        ("ssh root@h pct exec 129 --", ["ssh", "root@h"]),
        ("docker exec -i c", []),
        ("sudo -n /usr/bin/podman exec -i c", ["sudo", "-n"]),
        ("ssh h", None),
        ("kubectl exec -i pod --", None),
    ],
)
def test_the_prefix_of_the_host(prefix: str, host: list[str] | None) -> None:
    assert host_prefix(prefix.split()) == host
