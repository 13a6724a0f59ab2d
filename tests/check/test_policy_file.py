from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from envsnap.check.builtin import Setting
from envsnap.check.policy import Condition, Policy, PolicyError
from envsnap.check.policy_file import load
from envsnap.check.waivers import Waiver


def written(folder: Path, text: str, name: str = "envsnap.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def read(folder: Path, text: str, *profiles: str) -> Policy:
    return load(written(folder, text), profiles)


def wrong(folder: Path, text: str) -> list[str]:
    """What is wrong with a policy, without the file's name."""
    with pytest.raises(PolicyError) as caught:
        load(written(folder, text))
    return [sentence.removeprefix(f"{folder}/envsnap.toml: ") for sentence in caught.value.violations]


def test_all_that_a_policy_can_say(tmp_path: Path) -> None:
    policy = read(
        tmp_path,
        """
        version = 1
        description = "The benchmark machines."
        [require]
        "nvml.driver_version" = "580.159.04"
        "gpu[].power_limit_watts" = { at_least = 690, at_most = 700, severity = "warning", reason = "As measured." }
        "library[nccl/0].version" = [
            { version = ">=2.27,<3" },
            { one_of = ["2.27.5", "2.28.9"], applies_when = { gpu = "*H200*", tensor_parallel = { at_least = 2 } } },
        ]
        "env[NCCL_P2P_DISABLE]" = { absent = true, waiver = { note = "n", owner = "ann", until = 2026-12-31 } }
        "worker[scheduler_TP*].env[NCCL_ALGO]" = { same_across = "ranks" }
        "gpu[].vbios_version" = { same_across = "gpus" }
        "memory.total_bytes" = { same_as_baseline = true, tolerance = 0.05 }
        "cpu.model" = { present = true, applies_when = { model = ["meta/*", "qwen/*"] } }
        "kernel.parameter[iommu]" = { equals = ["pt"] }
        [rules]
        persistence_off = "off"
        link_width = "error"
        gpu_errors = { severity = "warning", waiver = { note = "reset since", owner = "bob", until = "2027-01-01" } }
        """,
    )
    by_key: dict[str, list[Any]] = {}
    for requirement in policy.requirements:
        by_key.setdefault(requirement.selector.text, []).append(requirement)
    (driver,) = by_key["nvml.driver_version"]
    assert (driver.tests, driver.severity, driver.origin) == ({"equals": "580.159.04"}, "error", policy.files[0])
    (power,) = by_key["gpu[].power_limit_watts"]
    assert (power.tests, power.severity, power.reason) == ({"at_least": 690, "at_most": 700}, "warning", "As measured.")
    plain, on_h200 = by_key["library[nccl/0].version"]
    assert plain.applies_when == ()
    assert on_h200.applies_when == (Condition(gpu=("*H200*",), tensor_parallel=(("at_least", 2),)),)
    (p2p,) = by_key["env[NCCL_P2P_DISABLE]"]
    assert (p2p.absent, p2p.waiver) == (True, Waiver("n", "ann", date(2026, 12, 31)))
    assert policy.needs_baseline
    assert policy.rules == {
        "persistence_off": Setting("off"),
        "link_width": Setting("error"),
        "gpu_errors": Setting("warning", Waiver("reset since", "bob", date(2027, 1, 1))),
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("requires = 1", "It has no field requires; did you mean require?"),
        ("version = 2", "version has to be 1."),
        ("[require]\n'gpu[].pwer_limit_watts' = 1",
         "gpu[].pwer_limit_watts is no key that envsnap reads; did you mean gpu[].power_limit_watts?"),
        ("[require]\n'nonsense' = 1", "nonsense is no key that envsnap reads."),
        ("[require]\n'cpu.model' = { equal = 'x' }",
         'require."cpu.model" has no field equal; did you mean equals?'),
        ("[require]\n'cpu.model' = ['a']", 'require."cpu.model"[0] has to be a table.'),
        ("[require]\n'cpu.model' = {}", "cpu.model: it requires nothing."),
        ("[require]\n'cpu.model' = 5", "cpu.model: 5 is no value of type string."),
        ("[require]\n'cpu.turbo' = 1", "cpu.turbo: 1 is no value of type boolean."),
        ("[require]\n'cpu.turbo' = { one_of = [true, 'no'] }", "cpu.turbo: 'no' is no value of type boolean."),
        ("[require]\n'cpu.model' = { at_least = 3 }", "cpu.model: at_least makes no sense for a value of type string."),
        ("[require]\n'cpu.turbo' = { version = '>1' }",
        "cpu.turbo: version makes no sense for a value of type boolean."),
        ("[require]\n'nvml.driver_version' = { version = '580' }",
         "nvml.driver_version: '580' is no version specifier such as >=2.27,<3."),
        ("[require]\n'cpu.threads_count' = { range = [9, 3] }", "cpu.threads_count: the range ends before it begins."),
        ("[require]\n'cpu.threads_count' = { range = [9] }",
        'require."cpu.threads_count".range has to have 2 entries.'),
        ("[require]\n'cpu.model' = { absent = false }", 'require."cpu.model".absent has to be true.'),
        ("[require]\n'cpu.model' = { same_across = 'gpus' }",
         "cpu.model: same_across needs a key with [] or * for its first instance."),
        ("[require]\n'worker[].nice' = { same_across = 'gpus' }",
         "worker[].nice: it is no fact of a GPU, so it cannot be the same across them."),
        ("[require]\n'cpu.model' = { present = true, severity = 'fatal' }",
         'require."cpu.model".severity has to be error or warning.'),
        ("[require]\n'cpu.model' = { present = true, waiver = { note = 'n', until = 2026-01-01 } }",
         'require."cpu.model".waiver lacks owner.'),
        ("[require]\n'cpu.model' = { present = true, waiver = { note = 'n', owner = 'o', until = 'soon' } }",
         'require."cpu.model".waiver.until has to be a date such as 2026-12-31.'),
        ("[require]\n'cpu.model' = { present = true, tolerance = -1 }",
         'require."cpu.model".tolerance has to be at least 0.'),
        ("[rules]\nlink_widht = 'off'", "link_widht is no built-in rule; did you mean link_width?"),
        ("[rules]\nlink_width = 'of'", "rules.link_width has to be off or warning or error or a table."),
        ("include = 'other.toml'", "include has to be a list."),
        ("[profiles.x]\ninclude = ['y']",
         "profiles.x has no field include (it can have require, rules, applies_when)."),
    ],
)  # fmt: skip
def test_one_sentence_for_what_is_wrong(tmp_path: Path, text: str, sentence: str) -> None:
    assert wrong(tmp_path, text) == [sentence]


def test_every_violation_is_told(tmp_path: Path) -> None:
    text = "[require]\n'a.b' = 1\n'cpu.model' = 5\n[rules]\nx = 'off'"
    assert len(wrong(tmp_path, text)) == 3
    many = "[require]\n" + "\n".join(f"'a.b{n}' = 1" for n in range(9))
    with pytest.raises(PolicyError, match=r"And 4 more\.$"):
        load(written(tmp_path, many))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("'cpu.threads_count' = { at_least = 9, at_most = 3 }",
         "cpu.threads_count contradicts itself: nothing can meet all of its tests."),
        ("'cpu.model' = { absent = true, equals = 'x' }",
        "cpu.model contradicts itself: nothing can meet all of its tests."),
        ("'cpu.model' = { absent = true, present = true }",
        "cpu.model contradicts itself: nothing can meet all of its tests."),
        ("'gpu[].power_limit_watts' = 700\n'gpu[0].power_limit_watts' = { at_most = 600 }",
         "gpu[].power_limit_watts and gpu[0].power_limit_watts contradict each other."),
        ("'library[nccl/0].version' = [{ version = '>=2.28' }, { one_of = ['2.27.5', '2.26'] }]",
         "library[nccl/0].version and library[nccl/0].version contradict each other."),
        ("'cpu.m*l' = 'x'\n'cpu.model' = { one_of = ['y', 'z'] }", "cpu.m*l and cpu.model contradict each other."),
    ],
)  # fmt: skip
def test_requirements_that_nothing_could_meet_are_named(tmp_path: Path, text: str, sentence: str) -> None:
    assert wrong(tmp_path, f"[require]\n{text}") == [sentence]


@pytest.mark.parametrize(
    "text",
    [
        "'gpu[].power_limit_watts' = { at_least = 600 }\n'gpu[0].power_limit_watts' = { at_most = 700 }",
        "'cpu.model' = [{ equals = 'x' }, { equals = 'y', applies_when = { gpu = '*A100*' } }]",
        "'env[NCCL_ALGO]' = 'Ring'\n'env[NCCL_*]' = { present = true }",
        "'gpu[0].name' = 'a'\n'gpu[1].name' = 'b'",
    ],
)
def test_what_can_hold_together_is_no_contradiction(tmp_path: Path, text: str) -> None:
    assert len(read(tmp_path, f"[require]\n{text}").requirements) == 2


def test_a_file_s_own_word_replaces_that_of_what_it_includes(tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    written(tmp_path / "sites", "[require]\n'cpu.model' = 'base'\n'cpu.vendor' = 'v'\n[rules]\nacs='off'", "base.toml")
    policy = read(tmp_path, "include = ['sites/base.toml']\n[require]\n'cpu.model' = 'own'\n[rules]\niommu='off'")
    assert {r.selector.text: r.tests["equals"] for r in policy.requirements} == {"cpu.vendor": "v", "cpu.model": "own"}
    assert set(policy.rules) == {"acs", "iommu"}
    assert [Path(f).name for f in policy.files] == ["envsnap.toml", "base.toml"]


def test_two_included_files_that_disagree_are_named_with_their_files(tmp_path: Path) -> None:
    written(tmp_path, "[require]\n'cpu.model' = 'x'", "a.toml")
    written(tmp_path, "[require]\n'cpu.model' = 'y'", "b.toml")
    (sentence,) = wrong(tmp_path, "include = ['a.toml', 'b.toml']")
    assert sentence == (f"{tmp_path}/a.toml: cpu.model and cpu.model in {tmp_path}/b.toml contradict each other.")


def test_files_that_include_each_other(tmp_path: Path) -> None:
    written(tmp_path, "include = ['envsnap.toml', 'a.toml']\n[require]\n'cpu.vendor' = 'v'", "a.toml")
    policy = read(tmp_path, "include = ['a.toml', './a.toml']\n[require]\n'cpu.model' = 'x'")
    assert sorted(r.selector.text for r in policy.requirements) == ["cpu.model", "cpu.vendor"]


def test_profiles_are_added_when_they_are_named_or_by_their_condition(tmp_path: Path) -> None:
    text = """
    [require]
    "cpu.model" = "base"
    [profiles.night]
    require = { "cpu.model" = "night", "cpu.vendor" = "v" }
    rules = { neighbours = "error" }
    [profiles.h200]
    applies_when = { gpu = "NVIDIA H200" }
    require = { "gpu[].ecc_mode" = true }
    """
    plain, night = read(tmp_path, text), read(tmp_path, text, "night")
    assert {r.selector.text: r.tests["equals"] for r in plain.requirements} == {
        "cpu.model": "base", "gpu[].ecc_mode": True,
    }  # fmt: skip
    assert next(r for r in plain.requirements if r.selector.text == "gpu[].ecc_mode").applies_when
    assert {r.selector.text: r.tests["equals"] for r in night.requirements} == {
        "cpu.model": "night", "cpu.vendor": "v", "gpu[].ecc_mode": True,
    }  # fmt: skip
    assert (plain.rules, night.rules) == ({}, {"neighbours": Setting("error")})
    with pytest.raises(PolicyError, match=r"has no profile day; it has h200, night\."):
        load(tmp_path / "envsnap.toml", ["day"])


def test_a_condition_cannot_switch_rules(tmp_path: Path) -> None:
    (sentence,) = wrong(tmp_path, "[profiles.x]\napplies_when = { gpu = 'a' }\nrules = { acs = 'off' }")
    assert sentence == "the profile x has rules, which a condition cannot switch; leave out its applies_when."


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"[require", "is no TOML: "),
        (b"\xff\xfe", "is no UTF-8 text."),
        (b"x = 1\n" * (1 << 20), "is larger than 4 MiB."),
        (b"a = " + b"[" * 5000, "is no TOML: "),
    ],
)
def test_files_that_are_no_policy(tmp_path: Path, data: bytes, part: str) -> None:
    (tmp_path / "envsnap.toml").write_bytes(data)
    (sentence,) = wrong_bytes(tmp_path)
    assert part in sentence


def wrong_bytes(folder: Path) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load(folder / "envsnap.toml")
    return caught.value.violations


def test_a_file_that_is_not_there_or_includes_one(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"none\.toml cannot be read: No such file or directory\.$"):
        load(tmp_path / "none.toml")
    with pytest.raises(PolicyError, match=r"sub/none\.toml cannot be read"):
        read(tmp_path, "include = ['sub/none.toml']")


def test_endless_includes_end(tmp_path: Path) -> None:
    for number in range(70):
        written(tmp_path, f"include = ['{number + 1}.toml']", f"{number}.toml")
    with pytest.raises(PolicyError, match="includes more than 64 files"):
        load(tmp_path / "0.toml")
