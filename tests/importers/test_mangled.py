"""Dumps as people paste them: cut, shuffled, broken, quoted, coloured. Never a crash, never a wrong value."""

from __future__ import annotations

import gzip
import random
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envsnap.collectors import key_for
from envsnap.importers._assembly import Imported
from envsnap.importers._text import MAX_LINE, clean, read_bytes
from envsnap.jsonfile import MAX_FILE_BYTES, SnapshotError
from envsnap.keys import Kind, pattern_of
from envsnap.reading import Json
from tests.importers.samples import FAST, SAMPLES, read, values

FULL = {name: values(text) for name, text in SAMPLES.items()}

GROWING = {
    "nccl.rank[].transport[]", "nccl.rank[].warnings", "nccl.rank[].plugins", "nccl.log.rank_count",
    "during.server.decode_graph_percent", "during.server.decode_batch_mean_count",
}  # fmt: skip
"""What is gathered from many lines, so that fewer of them give less."""


def tried(text: str | bytes) -> Imported | None:
    """What a text gives; None where it is no dump at all."""
    try:
        return read(text)
    except SnapshotError as refused:
        sentence = str(refused)
    assert sentence.endswith(".")
    return None


def wrong(found: Imported | None, whole: dict[str, Json]) -> dict[str, Json]:
    """Readings that the whole dump does not have, or has otherwise."""
    if found is None:
        return {}
    return {
        path: value
        for path, value in found.snapshot.values.items()
        if pattern_of(path) not in GROWING
        and key_for(path).kind not in (Kind.COUNTER, Kind.VOLATILE)
        and (path not in whole or not key_for(path).same(value, whole[path]))
    }


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_a_dump_that_was_cut_says_less_and_nothing_else(sample: str) -> None:
    text = SAMPLES[sample]
    dice = random.Random(sample)
    ends = [match.end() for match in re.finditer("\n", text)]
    for at in [*ends[:: max(1, len(ends) // 15)], *(dice.randrange(len(text)) for _ in range(25))]:
        assert wrong(tried(text[:at]), FULL[sample]) == {}, f"cut at {at}: …{text[max(0, at - 40) : at]!r}"
    for at in ends[:: max(1, len(ends) // 15)]:
        assert wrong(tried(text[at:]), FULL[sample]) == {}, f"begun at {at}: {text[at : at + 40]!r}…"


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_lines_out_of_order_give_no_wrong_reading(sample: str) -> None:
    for seed in range(6):
        lines = SAMPLES[sample].split("\n")
        random.Random(seed).shuffle(lines)
        assert wrong(tried("\n".join([*lines, ""])), FULL[sample]) == {}, f"seed {seed}"


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_lines_that_are_missing_give_no_wrong_reading(sample: str) -> None:
    for seed in range(6):
        dice = random.Random(seed)
        lines = [line for line in SAMPLES[sample].split("\n") if dice.random() < 0.8]
        found = tried("\n".join([*lines, ""]))
        # NOTE: nothing tells that a GPU's own heading is gone where its block looks whole.
        assert {p: v for p, v in wrong(found, FULL[sample]).items() if not p.startswith("gpu[")} == {}, f"seed {seed}"


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_noise_among_the_lines_is_counted_and_gives_no_wrong_reading(sample: str) -> None:
    dice = random.Random(sample)
    lines = SAMPLES[sample].rstrip("\n").split("\n")
    noise = [bytes(dice.randrange(256) for _ in range(60)).decode("latin-1") for _ in range(5)]
    for one in noise:
        lines.insert(dice.randrange(len(lines)), re.sub(r"[\r\n]", "?", one))
    found = tried("\n".join([*lines, ""]))
    assert wrong(found, FULL[sample]) == {}
    assert found is None or found.not_understood >= 1


DRESSES: dict[str, Callable[[str], str]] = {
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "quoted mail": lambda text: "".join(f"> {line}\n" for line in text.split("\n")),
    "a fence in details": lambda text: (
        f"Hello!\n<details><summary>it says</summary>\n\n```text\n{text}\n```\n\n</details>\n"
    ),
    "colours": lambda text: "".join(f"\x1b[32m{line}\x1b[0m\x1b[K\n" for line in text.split("\n")),
    "docker logs -t": lambda text: "".join(f"2026-04-19T12:18:46.757123456Z {line}\n" for line in text.split("\n")),
    "kubectl logs --prefix": lambda text: "".join(f"[pod/serve-0/main] {line}\n" for line in text.split("\n")),
    "docker compose": lambda text: "".join(f"serve-1  | {line}\n" for line in text.split("\n")),
    "srun --label": lambda text: "".join(f"0: {line}\n" for line in text.split("\n")),
    "a byte order mark": lambda text: f"\ufeff{text}",
}


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_what_mail_terminals_and_log_drivers_add_changes_nothing(sample: str, dress: str) -> None:
    text = SAMPLES[sample]
    found = read(DRESSES[dress](text))
    assert found.snapshot.values == FULL[sample]
    assert [[(m.name, m.value) for m in run.metrics] for run in found.runs] == [
        [(m.name, m.value) for m in run.metrics] for run in read(text).runs
    ]


@given(st.binary(max_size=400))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes_are_read_or_refused_in_a_sentence(data: bytes) -> None:
    tried(data)


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_bytes_anywhere_in_a_report_break_nothing(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(FAST)))
    tried(FAST[:at].encode() + data.draw(st.binary(max_size=40)) + FAST[at:].encode())


@pytest.mark.parametrize(
    "line",
    ["x" * (MAX_LINE + 9), "NCCL " * 60_000, "> " * 60_000, "[" * 60_000, '{"a":' * 60_000, "{" * 60_000, "<" * 60_000,
     "\x1b[" * 60_000, "=" * 200_000, "A" * 200_000 + "=b", "9" * 200_000, '{"a": ' + "9" * 200_000 + "}",
     "[2026-01-01 00:00:00] server_args=ServerArgs(" + "a=(" * 20_000, " " * 200_000 + "|", "a b " * 50_000 + ":"],
    ids=lambda line: line[:12],
)  # fmt: skip
def test_huge_lines_are_read_in_time_and_are_no_dump(line: str) -> None:
    found = tried(f"{line}\n{SAMPLES['env']}")
    assert found is not None
    assert found.snapshot.values == FULL["env"]
    assert found.not_understood == 1 or any("arguments is cut" in note for s in found.sources for note in s.notes)


def test_a_last_line_without_an_end_may_be_cut_and_is_not_read() -> None:
    found = read("NCCL_DEBUG=INFO\nNCCL_PROTO=LL\nPATH=/bin\nNCCL_BUFFSIZE=41943")
    assert found.snapshot.values == {"env[NCCL_DEBUG]": "INFO", "env[NCCL_PROTO]": "LL", "env[PATH]": "/bin"}
    assert found.not_understood == 1
    assert "no end" in found.unknown[0][2]
    assert values(SAMPLES["docker_inspect"].rstrip("\n")) == FULL["docker_inspect"], "a document has its own end"


def test_gzip_is_unpacked_within_bounds(tmp_path: Path) -> None:
    report = SAMPLES["nvidia_bug_report"].encode()
    file = tmp_path / "nvidia-bug-report.log.gz"
    file.write_bytes(b"".join(gzip.compress(report[at : at + 200]) for at in range(0, len(report), 200)))
    assert read_bytes(file) == report, "nvidia-bug-report.sh appends a member a section"
    file.write_bytes(gzip.compress(report)[:-300])
    assert report.startswith(read_bytes(file)), "one that was cut gives what it holds"
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(pack.compress(bytes(1 << 20)) for _ in range((MAX_FILE_BYTES >> 20) + 2)) + pack.flush()
    file.write_bytes(bomb)
    with pytest.raises(SnapshotError, match="more than 64 MiB"):
        read_bytes(file)
    file.write_bytes(b"\x1f\x8b\x08garbage")
    with pytest.raises(SnapshotError, match="no gzip file"):
        read_bytes(file)


def test_xml_follows_no_entity() -> None:
    bomb = '<!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>\n'
    text = SAMPLES["nvidia_smi_xml"].replace("<nvidia_smi_log>", f"<nvidia_smi_log>\n{bomb}", 1)
    assert not [path for path in values(text + SAMPLES["env"]) if not path.startswith("env[")]


def test_lines_keep_their_numbers() -> None:
    text = clean('a\r\n\r\n```\n> b\n\x1b[1mc\x1b[0m\n{\n "x": 1\n}\nd')
    assert text.lines == ["a", "", "", "b", "c", "", "", "", ""]
    assert list(text.documents) == [range(5, 8)]
    assert text.cut == 8
    assert text.filled == {0, 3, 4, 5, 6, 7, 8}


@pytest.mark.parametrize("line", ['{"a": [', "[{", '{"a": {"b": 1},', "{"], ids=str)
def test_many_documents_that_never_end_take_no_longer_than_the_text(line: str) -> None:
    text = f"{line}\n" * 60_000
    found = tried(text + "}\n]\n" + SAMPLES["env"])
    assert found is not None
    assert found.snapshot.values == FULL["env"]
    assert found.not_understood == 60_002
