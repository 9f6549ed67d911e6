"""Numbers, arrows, bars, widths; and the gate for foreign text."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import (
    balanced,
    diff_lines,
    hanging,
    line,
    text_of,
    width,
    wrap_spans,
    wrapped,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "^[[31mred^[[0m"),
        ("\x1b]8;;http://evil\x1b\\link", "^[]8;;http://evil^[\\link"),
        ("a\tb", "a    b"),
        ("a\nb", "a⏎b"),
        ("\x07\x7f", "^G^?"),
        ("\x9b31m", "<U+009B>31m"),
        ("abc\u202edcb", "abc<U+202E>dcb"),
        ("zero\u200bwidth", "zero<U+200B>width"),
        ("\ufeffbom", "<U+FEFF>bom"),
        ("\ud800", "<U+D800>"),
        ("[red]markup[/]", "[red]markup[/]"),
        ("日本語 é", "日本語 é"),
        ("❤\ufe0f", "❤"),
    ],
)
def test_inert_shows_what_would_act(text: str, shown: str) -> None:
    assert fmt.inert(text) == shown


@given(st.text(alphabet=st.characters(), max_size=200))
def test_inert_leaves_nothing_that_acts(text: str) -> None:
    shown = fmt.inert(text)
    for char in shown:
        assert unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"), hex(ord(char))
    shown.encode("utf-8")


def test_inert_cuts_a_line_of_a_megabyte() -> None:
    shown = fmt.inert("x" * 1_000_000)
    assert len(shown) < 5_000
    assert shown.endswith("996,000 more characters")


def test_piled_up_marks_are_cut() -> None:
    assert fmt.inert("a" + "\u0301" * 50) == "a" + "\u0301" * 3


def test_inert_lines_drop_carriage_returns() -> None:
    assert fmt.inert_lines("one\r\ntwo\x1b") == ["one", "two^["]


@given(st.text(max_size=60), st.integers(1, 40))
def test_padding_and_cropping_are_exact_in_cells(text: str, width: int) -> None:
    text = fmt.inert(text)
    assert cell_len(fmt.left(text, width)) == width
    assert cell_len(fmt.right(text, width)) == width
    assert cell_len(fmt.crop_left(text, width)) <= width


@given(st.text(alphabet="ab 日é/", max_size=80), st.integers(2, 30))
def test_wrapping_loses_nothing_and_fits(text: str, width: int) -> None:
    spans = wrap_spans(text, width)
    assert "".join(text[a:b] for a, b in spans) == text
    for a, b in spans:
        assert cell_len(text[a:b].rstrip()) <= width


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("/home/ines/quillfern/memory/a.md", 24, ["/home/ines/quillfern/", "memory/a.md"]),
        ("see /home/ines/quillfern/memory", 20, ["see ", "/home/ines/", "quillfern/memory"]),
        ("a/bcdefghijklmnop", 8, ["a/bcdefg", "hijklmno", "p"]),
        ("one and/or two", 8, ["one ", "and/or ", "two"]),
        ("nas サーバーの設定を。", 12, ["nas サーバー", "の設定を。"]),
        ("サーバー、設定", 9, ["サーバ", "ー、設定"]),
        ("大人「設定」", 7, ["大人", "「設", "定」"]),
    ],
)
def test_a_line_is_cut_where_a_word_or_a_wide_letter_ends_or_after_a_slash(
    text: str, width: int, lines: list[str]
) -> None:
    assert [text[a:b] for a, b in wrap_spans(text, width)] == lines


def test_crop_left_keeps_the_end_of_a_path() -> None:
    assert fmt.crop_left("memory/projects/lantern.md", 12) == "…/lantern.md"


@pytest.mark.parametrize(
    ("value", "shown"), [(0.5667, ".567"), (1.0, "1.000"), (-0.05, "−.050"), (-0.0001, ".000"), (None, "·")]
)
def test_scores(value: float | None, shown: str) -> None:
    assert fmt.score(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(0.5667, "+.567"), (-0.0994, "−.099"), (0.0, "±.000")])
def test_signed(value: float, shown: str) -> None:
    assert fmt.signed(value) == shown


@pytest.mark.parametrize(
    ("before", "now", "shown"),
    [(3, 1, "▲2"), (1, 2, "▼1"), (4, 4, "="), (None, 6, "new"), (2, None, "out"), (None, None, "")],
)
def test_arrows(before: int | None, now: int | None, shown: str) -> None:
    assert fmt.arrow(before, now) == shown


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 60))
def test_bars_stay_on_their_axis(start: float, end: float, width: int) -> None:
    for fill in "█▒":
        first, text = fmt.bar(start, end, width, fill)
        assert 0 <= first <= width
        assert first + len(text) <= width


def test_moments_carry_their_date_unless_it_is_today() -> None:
    noon = time.mktime((2026, 3, 31, 12, 5, 7, 0, 0, -1))
    assert fmt.clock(noon, noon + 60) == "12:05"
    assert fmt.clock(noon, noon, True) == "12:05:07"
    assert fmt.clock(noon - 86_400, noon) == "2026-03-30 12:05"
    stamps = [fmt.stamp(at, noon, wide) for wide in (True, False) for at in (noon, noon - 86_400)]
    assert stamps == ["   12:05:07", "03-30 12:05", "12:05", "03-30"]


@pytest.mark.parametrize(
    ("amount", "shown"), [(0.13, "$0.13"), (12.5, "$12.50"), (0.0042, "$0.0042"), (1e-6, "less than $0.0001")]
)
def test_amounts_of_money(amount: float, shown: str) -> None:
    assert fmt.dollars(amount) == shown


def test_bars_meet_where_one_ends_and_the_next_begins() -> None:
    first, text = fmt.bar(0.0, 0.5, 20)
    second, rest = fmt.bar(0.5, 0.6, 20)
    assert (first, text) == (0, "█" * 10)
    assert (second, rest) == (10, "██")


def test_numbers_in_sentences_have_two_digits_or_more() -> None:
    said = fmt.numbers("0.369 is below 0.4, short by 0.031; 0.5 s and 0.4 ms at 10.2 of v0.4")
    assert said == ".369 is below .40, short by .031; 0.5 s and 0.4 ms at 10.2 of v0.4"
    same = "version 0.12.1 of notes-0.5.md: `openclaw-mem search x --min-score 0.35`"
    assert fmt.numbers(same) == same, "no part of a version, and a command is typed so"
    assert fmt.message("a cosine of 0.303 is above 0.3") == "a cosine of .303 is above .30", "messages too"
    said = fmt.numbers("7 are below min score 0; 2 above min score 1, 3 at min score 0.5, 0 of 1")
    assert said == "7 are below min score .00; 2 above min score 1.00, 3 at min score .50, 0 of 1"
    said = fmt.numbers("-0.038 is below 0.35; cosine -0.054, minus 1-0.5 and x-0.5")
    assert said == "−.038 is below .35; cosine −.054, minus 1-0.5 and x-0.5"


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=6), st.floats(0, 1), st.integers(min_value=1, max_value=5)
)
def test_shown_summands_add_up_to_the_shown_total(parts: list[float], start: float, digits: int) -> None:
    total = round(start + sum(parts), digits) - round(start, digits)  # the difference of two shown scores
    shown = fmt.summands(parts, total, digits)
    assert round(sum(shown), digits) == round(total, digits)
    for part, number in zip(parts, shown, strict=True):
        assert abs(part - number) <= 1.51 * 10**-digits


def test_a_separator_does_not_end_a_line_and_the_last_line_is_not_one_word() -> None:
    said = line("since 18:00 · retry at 18:05 · more")
    assert [text_of(row) for row in wrapped(said, 14)] == ["since 18:00", "retry at 18:05", "more"]
    assert text_of(hanging(said, 14)[0]) == "since 18:00 ·", "the text of a note is not changed"
    prose = line("one two three four five six seven eight nine")
    assert len(wrapped(prose, 40)) == len(balanced(prose, 40)) == 2
    assert [width(row) for row in wrapped(prose, 40)] == [39, 4]
    assert [width(row) for row in balanced(prose, 40)] == [33, 10]
    two = line("one two three four five six seven ten of it")
    assert balanced(two, 38) == wrapped(two, 38), "two words may stand alone"


def test_a_diff_is_wrapped_below_its_text_and_no_word_of_it_is_lost() -> None:
    long = "- one two three four five six seven eight nine ten"
    diff = f"--- a/n.md\n+++ b/n.md\n@@ -1,2 +1,2 @@\n kept\n-{long}\n--- rule\n++ sum\n\\ No newline"
    drawn = diff_lines(diff, 31, 20)
    assert [text_of(row) for row in drawn] == [
        "@@ -1,2 +1,2 @@",
        "  kept",
        "- - one two three four five",
        "    six seven eight nine ten",
        "- -- rule",
        "+ + sum",
        "\\ No newline",
    ]
    assert {row[0].role for row in drawn[2:3]} == {"bad"} and drawn[3][-1].role == "bad"
    assert text_of(diff_lines(diff, 31, 4)[-1]) == "… 4 more lines"
    of_two = f"{diff}\n--- a/m.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-text"
    names = [text_of(row) for row in diff_lines(of_two, 31, 20) if row[-1].role == "strong"]
    assert names == ["n.md", "m.md"], "of one file the name is beside the diff"


@pytest.mark.parametrize(
    ("path", "width", "shown"),
    [
        ("memory/2026-01-02.md", 20, "memory/2026-01-02.md"),
        ("memory/2026-01-02.md", 19, "…/2026-01-02.md"),
        ("memory/2026-01-02.md", 13, "…01-02.md"),
        ("memory/runbooks/vpn.md", 17, "…/runbooks/vpn.md"),
        ("memory/runbooks/vpn.md", 14, "…/vpn.md"),
        ("memory/runbooks/vpn.md", 7, "…vpn.md"),
        ("memory/runbooks/vpn.md", 5, "…n.md"),
        ("memory/spool-error-codes.md", 20, "…error-codes.md"),
        ("memory/2026-01-14-vpn-certificates.md", 27, "…01-14-vpn-certificates.md"),
        ("memory/2026-01-14-vpn-certificates.md", 22, "…vpn-certificates.md"),
        ("memory/spool-error-codes.md", 21, "…spool-error-codes.md"),
        ("notes/a/b.md", 11, "…/a/b.md"),
        ("vpn.md", 6, "vpn.md"),
        ("notes/日本語の長い名前.md", 13, "…長い名前.md"),
    ],
)
def test_a_path_loses_its_folders_before_its_name(path: str, width: int, shown: str) -> None:
    assert fmt.path(path, width) == shown
