"""Sharing: nothing that names a person, a machine or a place in a network is left, and the rest still diffs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envsnap import cli
from envsnap.diff import diff
from envsnap.reading import Json, Unavailable, Unset, Value, Why
from envsnap.share import NOTE, left_over, share
from envsnap.snapshot import Section, Snapshot, dumps, load, write

USER, HOME, HOST = "qwertha", "/data/people/qwertha", "gpunode-17"
FQDN = f"{HOST}.cluster.corp.com"
IP, MAC, V6 = "10.83.44.17", "b8:3f:d2:11:22:33", "fd5c:1:2:3::77"
UUID, SERIAL, MACHINE_ID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "1654922004871", "3d1219c7c4c5404aaa1f6d2a48adfda4"
MAIL = "q.wertha@corp.com"
PLANTED = (USER, HOME, HOST, "cluster.corp", IP, MAC, V6, UUID, SERIAL, MACHINE_ID, MAIL)
CURAND = "10.3.9.90"
HASH = "<redacted k=1a2b3c4d h=9f86d081884c7d65>"


def _snapshot() -> Snapshot:
    values: dict[str, dict[str, Json]] = {
        "environ": {
            "env[USER]": USER,
            "env[HOME]": HOME,
            "env[HOSTNAME]": FQDN,
            "env[MASTER_ADDR]": IP,
            "env[PYTHONPATH]": f"{HOME}/src:/home/{USER}/lib:/opt/lib",
            "env[HF_TOKEN]": HASH,
            "env[NCCL_SOCKET_IFNAME]": "eth0",
            "env[SOME_URL]": f"http://{IP}:8000/x tcp://{FQDN}:29500 ssh://{USER}@{HOST}",
        },
        "os": {"os.hostname": FQDN, "os.machine_id": MACHINE_ID, "os.release": "24.04"},
        "platform": {"platform.serial": SERIAL, "platform.vendor": "Maker"},
        "gpu": {"gpu[0].uuid": f"GPU-{UUID}", "gpu[0].serial": SERIAL, "gpu[0].name": "H200"},
        "network": {"network[eth0].ipv4_address": IP, "network[eth0].mac_address": MAC, "network[eth0].mtu_bytes": 15},
        "packages": {"package[nvidia-curand-cu12].version": CURAND, "packages.broken": [f"x needs curand=={CURAND}"]},
        "git": {
            "repo[main].patch": f"+# {USER} on {HOST}\n+Signed-off-by: Quin Wertha <{MAIL}>\n+url = 'http://{IP}/a'\n"
            f"+x = {CURAND}\n",
            f'repo["{USER} test"].branch': f"{USER}/fix",
            "repo[main].remote": f"ssh://git@git.corp.com/{USER}/repo",
        },
        "worker": {
            "worker[main].argv": ["serve", "--host", IP, "--dist-init-addr", f"{IP}:5000", f"--log={HOME}/log"],
            "worker[main].unknown_object": {USER: {"device": MAC, "uuid": UUID, "v6": V6, "serial": SERIAL}},
        },
    }  # fmt: skip
    sections = {
        name: Section("ok", True, 0.1, "made up", values=dict(held), reason=f"read on {HOST}" if name == "os" else "")
        for name, held in values.items()
    }
    sections["storage"] = Section(
        "partial", False, 0.1, "made up", f"no answer from {IP}:2049 for {HOME}",
        unavailable={"storage[home].free_bytes": Unavailable(Why.DENIED, f"Permission denied: {HOME}/x")},
        errors={"storage[cwd].size_bytes": f"OSError: {V6} unreachable from {MAC}, /home/{USER}"},
    )  # fmt: skip
    return Snapshot(
        "2026-01-01T00:00:00+00:00", sections, "0.1", scope={"repos": [f"{HOME}/src"]}, note=f"{USER}: first try",
        redaction={"reason": f"{HOME}/.envsnap/redaction.key was not used: Permission denied"},
    )  # fmt: skip


def test_nothing_that_was_planted_survives() -> None:
    before, after = dumps(_snapshot()), dumps(share(_snapshot()))
    for planted in PLANTED:
        assert planted in before
        assert planted not in after, planted
    assert "Quin" not in after


def test_the_same_thing_has_the_same_stand_in() -> None:
    values = share(_snapshot()).values
    assert values["env[PYTHONPATH]"] == "/home/user1/src:/home/user1/lib:/opt/lib"
    address = values["env[MASTER_ADDR]"]
    assert values["worker[main].argv"] == [
        "serve", "--host", address, "--dist-init-addr", f"{address}:5000", "--log=/home/user1/log",
    ]  # fmt: skip
    assert values["env[SOME_URL]"].startswith(
        f"http://{address}:8000/x tcp://host1.domain1.example:29500 ssh://user1@host1"
    )
    assert address.startswith("192.0.2.")
    assert "user1" in values["worker[main].unknown_object"]


def test_what_says_what_a_machine_is_stays() -> None:
    copy = share(_snapshot())
    assert copy.values["package[nvidia-curand-cu12].version"] == CURAND
    assert copy.values["packages.broken"] == [f"x needs curand=={CURAND}"]
    assert f"x = {CURAND}" in copy.values["repo[main].patch"]
    assert copy.values["env[HF_TOKEN]"] == HASH
    assert copy.values["gpu[0].name"] == "H200"
    assert copy.values["network[eth0].mtu_bytes"] == 15
    assert copy.note.endswith(NOTE)
    assert copy.note.startswith("user1: first try")


def test_a_removed_label_is_unavailable_and_not_unset() -> None:
    copy = share(_snapshot())
    for path in ("os.hostname", "gpu[0].uuid", "env[USER]", "network[eth0].mac_address"):
        assert path not in copy.values
        reading = copy.reading(path)
        assert isinstance(reading, Unavailable)
        assert reading.why is Why.OFF
    assert isinstance(copy.reading("env[NEVER_SET]"), Unset)
    assert isinstance(_snapshot().reading("env[USER]"), Value)


def test_copies_diff_like_their_originals() -> None:
    a = _snapshot()
    b = _snapshot()
    b.sections["environ"].values["env[NCCL_SOCKET_IFNAME]"] = "ib0"
    assert [c.path for c in diff(share(a), share(b)).changes] == ["env[NCCL_SOCKET_IFNAME]"]
    assert not diff(share(a), share(a)).changes


def test_common_and_short_names_cost_no_facts() -> None:
    section = Section(
        "ok", True, 0.0, "made up",
        values={"env[USER]": "ubuntu", "env[HOME]": "/home/ubuntu", "env[HOSTNAME]": "vm", "env[X]": "vm.swappiness vm",
                "env[Y]": "ubuntu2404", "env[Z]": "/home/vm/x", "env[W]": "vm"},
    )  # fmt: skip
    copy = share(Snapshot("2026-01-01T00:00:00+00:00", {"environ": section}, "0.1"))
    assert copy.values["env[X]"] == "vm.swappiness vm"
    assert copy.values["env[Y]"] == "ubuntu2404"
    assert copy.values["env[W]"] == "host1"
    assert copy.values["env[Z]"] == "/home/host1/x"


def test_what_a_person_should_look_over() -> None:
    assert left_over(share(_snapshot())) == [
        'repo["user1 test"].branch', "repo[main].patch", "repo[main].remote", "worker[main].argv",
    ]  # fmt: skip


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "before.json.gz"
    write(_snapshot(), source)
    assert cli.main(["share", str(source)]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == str(tmp_path / "before.shared.json.gz")
    assert "repo[main].patch" in err
    copy = load(tmp_path / "before.shared.json.gz")
    assert USER not in dumps(copy)
    assert cli.main(["share", str(source), "-o", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["hash"]["content"] == copy.content_hash
    assert cli.main(["share", str(source), "-o", str(tmp_path / "no" / "x.json")]) == 2
