from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envsnap.diff import diff
from envsnap.fold import fold, grouped, listed
from envsnap.keys import Key, Kind, Type, path_of
from envsnap.reading import Error, Json, Reading, Unavailable, Unknown, Unset, Value, Why
from envsnap.report import diff as diff_report
from envsnap.report import key as key_report
from envsnap.report import show, summary
from envsnap.report.lines import Line, paint
from envsnap.report.markdown import code, table
from envsnap.snapshot import Snapshot
from envsnap.wording import pair_text, plural, printable, reading_json, reading_text, shorten, value_text
from tests.probe import absent, denied, snapshot

HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J\r\n\t\u202eright\u2028 \ud800 `a` | <b> @you"


def key(kind: Type = Type.STRING, name: str = "x") -> Key:
    return Key(f"probe.{name}", kind, Kind.IDENTITY, "A thing.")


def plain(lines: list[Line]) -> str:
    return paint(lines, colour=False)


# -- words ------------------------------------------------------------------------------------------------------


def test_printable_leaves_ordinary_text_alone() -> None:
    assert printable("Größe → 漢字 C:\\path 'x'") == "Größe → 漢字 C:\\path 'x'"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x9b", "\\x9b"),
        ("\u202e", "\\u202e"),
        ("\udc80", "\\udc80"),
    ],
)
def test_printable_escapes_what_could_act(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_printable_is_one_harmless_line_and_idempotent(text: str) -> None:
    once = printable(text)
    assert once.isprintable()
    assert printable(once) == once
    once.encode()


@given(st.text(max_size=50), st.integers(0, 60))
def test_shorten_keeps_both_ends_and_the_width(text: str, width: int) -> None:
    short = shorten(text, width)
    assert len(short) <= max(width, 0)
    if len(text) > width >= 3:
        assert short[0] == text[0]
        assert short[-1] == text[-1]


@pytest.mark.parametrize(
    ("kind", "name", "value", "words"),
    [
        (Type.STRING, "x", "LL128", "LL128"),
        (Type.STRING, "x", "", '""'),
        (Type.STRING, "x", "unset", '"unset"'),
        (Type.STRING, "x", " a", '" a"'),
        (Type.INTEGER, "limit_watts", 700, "700 W"),
        (Type.INTEGER, "size_bytes", 85899345920, "85899345920 bytes (80 GiB)"),
        (Type.INTEGER, "size_bytes", 512, "512 bytes"),
        (Type.NUMBER, "ratio", 0.1, "0.1"),
        (Type.BOOLEAN, "x", True, "true"),
        (Type.STRINGS, "x", ["a", ""], '[a, ""]'),
        (Type.INTEGERS, "x", [1, 2], "[1, 2]"),
        (Type.OBJECT, "x", {"a": None}, '{"a": null}'),
        (Type.TEXT, "x", "one\ntwo\n", "2 lines, 8 bytes"),
        (Type.TEXT, "x", "", "0 lines, 0 bytes"),
    ],
)
def test_values_in_words(kind: Type, name: str, value: Json, words: str) -> None:
    assert value_text(key(kind, name), value) == words


def test_every_outcome_has_its_own_words_and_json() -> None:
    outcomes: list[Reading] = [Value("x"), Unavailable(Why.DENIED, "why"), Error("boom"), Unset(), Unknown()]
    assert [reading_text(key(), r) for r in outcomes] == [
        "x",
        "unavailable (denied: why)",
        "error (boom)",
        "unset",
        "unknown",
    ]
    assert [next(iter(reading_json(r))) for r in outcomes] == ["value", "unavailable", "error", "unset", "unknown"]


def test_a_value_that_reads_like_no_value_is_told_apart() -> None:
    assert reading_text(key(), Value("unset")) != reading_text(key(), Unset())


def test_a_pair_of_long_texts_is_cut_to_where_it_differs() -> None:
    a = "root=/dev/sda " * 20 + "mitigations=off " + "quiet " * 20
    b = a.replace("mitigations=off", "mitigations=auto")
    before, after = pair_text(key(), Value(a), Value(b), 80)
    assert "off" in before
    assert "auto" in after
    assert len(before) + len(after) <= 80


def test_a_pair_of_long_lists_shows_the_items_that_differ() -> None:
    a = [f"flag{i}" for i in range(100)]
    before, after = pair_text(key(Type.STRINGS), Value(a), Value([*a[:50], "new", *a[51:]]), 80)
    assert (before, after) == ("[flag50, … 99 alike]", "[new, … 99 alike]")


@given(st.text(max_size=300), st.text(max_size=300), st.integers(20, 100))
def test_a_pair_fits_and_differs_where_the_texts_do(a: str, b: str, width: int) -> None:
    before, after = pair_text(key(), Value(a), Value(b), width)
    assert len(before) + len(after) <= width + 1


def test_plural() -> None:
    assert [plural(1, "byte"), plural(2000, "byte"), plural(2, "boundary")] == ["1 byte", "2,000 bytes", "2 boundaries"]


# -- folding ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["0", "1", "2", "3"], "0-3"),
        (["0", "1", "3", "7"], "0-1,3,7"),
        (["10", "9", "11"], "9-11"),
        (["007", "008"], "007,008"),
        (["scheduler_TP0", "scheduler_TP1", "detokenizer"], "scheduler_TP0-1,detokenizer"),
        (["a b 0", "a b 1"], '"a b 0-1"'),
        (["one"], "one"),
        (list("abcdefgh"), "a,b,c,d,e,f,… 2 more"),
    ],
)
def test_instances_in_short(names: list[str], short: str) -> None:
    assert listed(names) == short


def test_fold_over_several_instances() -> None:
    paths = [path_of("card[].link[].speed_gts", i, j) for i in range(8) for j in range(4)]
    ((title, members),) = fold(paths)
    assert (title, sorted(members)) == ("card[0-7].link[0-3].speed_gts", paths)


def test_fold_never_claims_a_path_that_was_not_given() -> None:
    assert [title for title, _ in fold(["a[0].b[0]", "a[0].b[1]", "a[1].b[1]"])] == ["a[0].b[0]", "a[0-1].b[1]"]


@given(st.sets(st.tuples(st.integers(0, 3), st.sampled_from(["x", "y z", "TP0", "TP1"])), max_size=12))
def test_folding_loses_and_doubles_nothing(instances: set[tuple[int, str]]) -> None:
    paths = sorted(path_of("a[].b[].c", *i) for i in instances)
    folded = fold(paths)
    assert sorted(p for _, members in folded for p in members) == paths
    for title, members in folded:
        assert (title in members) is (len(members) == 1)


@pytest.mark.usefixtures("probe_keys")
def test_variables_are_folded_over_workers_but_not_over_their_names() -> None:
    a = snapshot()
    b = snapshot({f"role[TP{i}].env[{name}]": "1" for i in range(4) for name in ("NCCL_A", "NCCL_B")})
    assert [g.title for g in grouped(diff(a, b).changes)] == ["role[TP0-3].env[NCCL_A]", "role[TP0-3].env[NCCL_B]"]


@pytest.mark.usefixtures("probe_keys")
def test_a_rank_that_differs_from_its_siblings_stands_apart() -> None:
    a = snapshot({f"card[{i}].driver": "580" for i in range(4)})
    b = snapshot({f"card[{i}].driver": "570" if i != 2 else "565" for i in range(4)})
    assert [g.title for g in grouped(diff(a, b).changes)] == ["card[0-1,3].driver", "card[2].driver"]


# -- a diff -------------------------------------------------------------------------------------------------------


def big() -> tuple[Snapshot, Snapshot]:
    a = snapshot(
        {f"role[TP0].env[V{i:02}]": "a" for i in range(40)} | {"role[TP0].env[NCCL_PROTO]": "LL", "probe.serial": "s"}
    )
    b = snapshot(
        {f"role[TP0].env[V{i:02}]": "b" for i in range(40)}
        | {"role[TP0].env[NCCL_PROTO]": "Simple", "probe.serial": "s"},
        unavailable={"card": absent("none")},
    )
    return a, b


def sides(a: Snapshot, b: Snapshot) -> diff_report.Sides:
    return diff_report.Sides(("a.json", "b.json"), (a, b))


@pytest.mark.usefixtures("probe_keys")
def test_a_diff_fits_a_screen_with_the_likeliest_first() -> None:
    a, b = big()
    text = plain(diff_report.text(diff(a, b), sides(a, b), 100)).splitlines()
    first = next(i for i, line in enumerate(text) if "NCCL_PROTO" in line)
    assert text[first - 1] == "communication"
    assert text[first].split() == ["role[TP0].env[NCCL_PROTO]", "LL", "→", "Simple"]
    assert "  … and 16 more (--all)" in text
    assert "Not asked for: 1 label (--labels)" in text
    assert text[-1] == "What a reading means: envsnap key 'role[TP0].env[NCCL_PROTO]'"
    assert max(map(len, text)) <= 100
    whole = plain(diff_report.text(diff(a, b), sides(a, b), 100, everything=True))
    assert whole.count("→") == 41


@pytest.mark.usefixtures("probe_keys")
def test_what_could_not_be_compared_is_always_shown() -> None:
    a = snapshot(
        {f"card[{i}].driver": "1" for i in range(8)}, unavailable={"probe.model": absent(), "probe.patch": denied()}
    )
    b = snapshot(unavailable={**{f"card[{i}].driver": denied("no") for i in range(8)}, "probe.model": absent()})
    text = plain(diff_report.text(diff(a, b), sides(a, b), 100))
    assert "No change, 0 readings equal, 9 unknown, 1 absent or off on both sides" in text
    assert "  card[0-7].driver  A: read; B: unavailable (denied: no)" in text
    assert "  probe.patch  A: unavailable (denied); B: unset" in text
    assert "Absent on both sides: probe.model" in text


@pytest.mark.usefixtures("probe_keys")
def test_excerpts_of_long_text_on_request() -> None:
    a, b = snapshot({"probe.patch": "one\ntwo\nthree\n"}), snapshot({"probe.patch": "one\n2\nthree\n"})
    assert "-two" not in plain(diff_report.text(diff(a, b), sides(a, b), 100))
    text = plain(diff_report.text(diff(a, b), sides(a, b), 100, excerpts=True))
    assert "      -two\n      +2\n" in text


@pytest.mark.usefixtures("probe_keys")
@pytest.mark.parametrize(
    ("differ", "told"), [((5_000, 5_001), "      +0\n"), ((0, 9_999), "too long for an excerpt (20,000")]
)
def test_excerpts_of_huge_text_are_taken_where_it_differs(differ: tuple[int, ...], told: str) -> None:
    lines = [f"line {i}" for i in range(10_000)]
    changed = ["0" if i in differ else line for i, line in enumerate(lines)]
    a, b = snapshot({"probe.patch": "\n".join(lines)}), snapshot({"probe.patch": "\n".join(changed)})
    assert told in plain(diff_report.text(diff(a, b), sides(a, b), 100, excerpts=True))


@pytest.mark.usefixtures("probe_keys")
def test_json_of_a_diff_holds_ids_outcomes_and_next_steps() -> None:
    a, b = big()
    document = json.loads(json.dumps(diff_report.as_json(diff(a, b), sides(a, b))))
    assert document["next"][0] == ["envsnap", "key", "role[TP0].env[NCCL_PROTO]"]
    assert document["changes"][0]["before"] == {"value": "LL"}
    assert document["not_compared"] == [
        {
            "path": "card", "because": "unreadable", "before": {"unset": True},
            "after": {"unavailable": "absent", "detail": "none"}, "only": [0, 0], "settled": False, "detail": "",
        }
    ]  # fmt: skip
    assert document["left_out"] == {"label": 1}


@pytest.mark.usefixtures("probe_keys")
def test_nothing_foreign_reaches_a_terminal_or_breaks_markdown() -> None:
    a = snapshot(
        {"probe.model": HOSTILE, path_of("role[].env[]", HOSTILE, "X"): HOSTILE}, errors={"probe.flags": HOSTILE}
    )
    b = snapshot({"probe.model": "x"}, complete=False, status="error", reason=HOSTILE)
    both = diff_report.Sides((HOSTILE, "b"), (a, b))
    found = diff(a, b)
    outputs = [
        plain(diff_report.text(found, both, 80, everything=True)),
        diff_report.markdown(found, both),
        plain(show.text(a, [], 80)),
        plain(summary.text(b, HOSTILE, 80)),
    ]
    for text in outputs:
        assert all(line.isprintable() for line in text.split("\n"))
    coloured = paint(diff_report.text(found, both, 80), colour=True)
    assert "\x1b" not in re.sub(r"\x1b\[(?:0|1|2|31|32|33|36)m", "", coloured)


# -- markdown -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cell"),
    [("a", "`a`"), ("a`b", "`` a`b ``"), ("``", "``` `` ```"), ("a|b", "`a\\|b`"), ("a\nb", "`a\\nb`"), ("", "`  `")],
)
def test_code_cannot_be_left(text: str, cell: str) -> None:
    assert code(text) == cell


@given(st.text())
def test_no_cell_ends_its_row(text: str) -> None:
    (row,) = table(["x"], [[code(text)]])[2:]
    assert len(re.findall(r"(?<!\\)\|", row)) == 2


@pytest.mark.usefixtures("probe_keys")
def test_markdown_of_a_diff_is_a_table_per_effect() -> None:
    a, b = big()
    text = diff_report.markdown(diff(a, b), sides(a, b))
    assert "| communication | A | B |\n| --- | --- | --- |\n| `role[TP0].env[NCCL_PROTO]` | `LL` | `Simple` |" in text


# -- other reports ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("probe_keys")
def test_show_folds_what_is_alike_and_tells_why_something_is_missing() -> None:
    held = snapshot(
        {f"card[{i}].limit_watts": 700 for i in range(8)} | {"card[8].limit_watts": 600},
        unavailable={"probe.model": denied()},
    )
    text = plain(show.text(held, [], 100))
    assert text.splitlines()[1:] == [
        "  card[0-7].limit_watts  700 W",
        "  card[8].limit_watts    600 W",
        "  probe.model            unavailable (denied)",
    ]
    assert plain(show.text(held, ["card[8]"], 100)).splitlines()[1:] == ["  card[8].limit_watts  600 W"]


@pytest.mark.usefixtures("probe_keys")
def test_json_of_readings_has_units() -> None:
    document: Any = show.as_json(snapshot({"card[0].limit_watts": 700}, errors={"probe.model": "boom"}), "x", [])
    assert document["readings"] == {
        "card[0].limit_watts": {"value": 700, "unit": "W"},
        "probe.model": {"error": "boom"},
    }


@pytest.mark.usefixtures("probe_keys")
def test_summary_folds_what_was_not_read() -> None:
    held = snapshot({"probe.model": "x"}, unavailable={f"card[{i}].driver": denied(f"file {i}") for i in range(8)})
    text = plain(summary.text(held, "out.json", 100))
    assert "  probe  card[0-7].driver: denied\n" in text
    assert text.startswith("1 reading in unknown time  →  out.json\n")


@pytest.mark.usefixtures("probe_keys")
def test_a_key_says_what_to_do() -> None:
    from envsnap.collectors import key_for

    text = plain(key_report.text(key_for("role[TP0].env[NCCL_PROTO]"), "role[TP0].env[NCCL_PROTO]", 80))
    assert "communication" in text
    assert "Set it alike everywhere." in text
    assert "0.8" in text
