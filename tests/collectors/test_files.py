from __future__ import annotations

from pathlib import Path

import pytest

from envsnap.collectors import _files
from envsnap.collectors._files import Files, read_files
from envsnap.host import HostError, LiveHost
from envsnap.reading import Error, Missing, Unavailable, Value, Why
from tests.fakes import FakeHost

POLICIES = "/sys/policy[0-9]*/governor"


def policies(**governors: str) -> FakeHost:
    return FakeHost({f"/sys/{name}/governor": f"{text}\n" for name, text in governors.items()})


def test_files_and_patterns_in_one_round_trip() -> None:
    host = policies(policy0="performance", policy1="powersave")
    host.files["/proc/loadavg"] = "0.1\n"
    files = read_files(host, ["/proc/loadavg", POLICIES, "/proc/none"])
    assert host.rounds == 1
    assert files["/proc/loadavg"] == Value("0.1")
    assert files["/sys/policy1/governor"] == Value("powersave")
    assert files.matching(POLICIES) == [(("0",), Value("performance")), (("1",), Value("powersave"))]
    assert files.text("/sys/policy0/governor") == "performance"
    assert files.text("/proc/none") == ""
    none = files["/proc/none"]
    assert isinstance(none, Unavailable)
    assert none.why is Why.ABSENT


def test_matches_are_in_natural_order() -> None:
    files = read_files(policies(policy10="b", policy2="a", policy1="c"), [POLICIES])
    assert [groups for groups, _ in files.matching(POLICIES)] == [("1",), ("2",), ("10",)]


def test_a_number_is_all_that_a_numbered_pattern_stands_for() -> None:
    files = read_files(policies(policy1="a", policy1x="b"), [POLICIES])
    assert [groups for groups, _ in files.matching(POLICIES)] == [("1",)]


def test_what_a_pattern_does_not_find_is_unavailable_as_a_whole() -> None:
    files = read_files(policies(policy0="a"), [POLICIES, "/sys/node*/x"])
    assert list(files.absent(POLICIES, "cpu.governor")) == []
    [(path, found)] = files.absent("/sys/node*/x", "numa")
    assert path == "numa"
    assert isinstance(found, Unavailable)


def test_a_pattern_that_failed_is_not_taken_for_one_without_matches() -> None:
    files = Files({POLICIES: {POLICIES: Error("it broke")}})
    assert list(files.absent(POLICIES, "cpu")) == []
    with pytest.raises(HostError, match="it broke"):
        files.matching(POLICIES)


def test_the_live_machine_reads_patterns(tmp_path: Path) -> None:
    for name, text in (("node0", "0-3\n"), ("node1", "4-7\n"), ("other", "x")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpulist").write_text(text)
    (tmp_path / "node2").mkdir()
    pattern = f"{tmp_path}/node[0-9]*/cpulist"
    files = read_files(LiveHost(), [pattern])
    assert files.matching(pattern) == [(("0",), Value("0-3")), (("1",), Value("4-7"))]


# -- what texts mean ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["max", "unlimited", "N/A", "<unknown>", "<unsupported>", "", "unknown"])
def test_words_for_no_value_are_never_numbers(text: str) -> None:
    with pytest.raises(Missing) as raised:
        _files.integer(text)
    assert raised.value.why is Why.NOT_SUPPORTED


def test_minus_one_is_no_natural_number() -> None:
    assert _files.integer("-1") == -1
    with pytest.raises(Missing):
        _files.natural("-1")


def test_garbage_is_an_error_and_not_a_number() -> None:
    with pytest.raises(ValueError):
        _files.natural("12 apples")


@pytest.mark.parametrize(
    ("text", "chosen"),
    [("always [madvise] never", "madvise"), ("[none] mq-deadline", "none"), ("none", "none")],
)
def test_the_bracketed_word_is_chosen(text: str, chosen: str) -> None:
    assert _files.chosen(text) == chosen


def test_brackets_made_to_be_slow_to_match_choose_nothing() -> None:
    with pytest.raises(Missing):
        _files.chosen("[" * 1_000_000 + " x")


def test_several_words_without_brackets_choose_nothing() -> None:
    with pytest.raises(Missing):
        _files.chosen("always madvise never")


@pytest.mark.parametrize(
    ("text", "on"), [("1", True), ("Y", True), ("enabled", True), ("0", False), ("N", False), ("disabled", False)]
)
def test_switches(text: str, on: bool) -> None:
    assert _files.switch(text) is on


def test_neither_on_nor_off() -> None:
    with pytest.raises(Missing):
        _files.switch("2")


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("0", 1), ("0-3", 4), ("0-55,112-167", 112), ("0,2,4-5", 4), ("0-99999999999", 10**11)]
)
def test_counting_cpus(text: str, count: int) -> None:
    assert _files.cpu_count(text) == count


@pytest.mark.parametrize("text", ["0-", "a", "1;2", "0-3 ", "-1"])
def test_not_a_list_of_cpus(text: str) -> None:
    with pytest.raises(ValueError, match="not a list of CPUs"):
        _files.cpu_list(text)


@pytest.mark.parametrize(
    ("cpus", "text"), [([], ""), ([3], "3"), ([0, 1], "0-1"), ([8, 0, 2, 1], "0-2,8"), ([0, 2, 4], "0,2,4")]
)
def test_writing_cpus_as_the_kernel_does(cpus: list[int], text: str) -> None:
    assert _files.cpu_ranges(cpus) == text


def test_frequencies_are_whole_where_they_can_be() -> None:
    assert _files.megahertz("3800000") == 3800
    assert isinstance(_files.megahertz("3800000"), int)
    assert _files.megahertz("2000500") == 2000.5


def test_the_pci_device_nearest_to_a_class_device() -> None:
    link = "../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:18:00.0/infiniband/mlx5_0"
    assert _files.pci_address(link) == "0000:18:00.0"
    with pytest.raises(Missing):
        _files.pci_address("../../devices/virtual/net/bond0")
