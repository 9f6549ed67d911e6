"""Lines of the preview: what the agent gets, marked words, lines of the file."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import lab_world as world
import pytest
from test_tui_lines import row_texts, texts

from openclaw_mem_engine.answer import stem
from openclaw_mem_engine.model import Excerpt
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Signal
from openclaw_mem_tui.features.search import state
from openclaw_mem_tui.features.search.export import in_cells
from openclaw_mem_tui.features.search.preview import agent_text
from openclaw_mem_tui.features.search.render import above, funnel, hits, preview
from openclaw_mem_tui.features.search.render.waterfall import waterfall
from openclaw_mem_tui.features.search.state import Citations
from openclaw_mem_tui.render import spans
from openclaw_mem_tui.render.terms import Marker


def long_view(snippet: str = "head", **options: Any) -> state.View:
    """One chunk of 30 lines, 10 to 39, whose last one answers; a snippet has room for some ten."""
    text = "\n".join([*(f"line {n} says little of it" for n in range(10, 39)), "the router and the vlan"])
    knobs = Knobs().set({"snippet": snippet, "snippet_chars": 250})
    signals = {"bm25": {"c0": Signal(7.0, (*([0.1] * 29), 6.0))}}
    return world.view(knobs, texts=(text,), bm25=((0, 7.0),), vector=((0, 0.9),), signals=signals, **options)


def snippet_of(view: state.View, citations: Citations = "off", cells: int = 60) -> list[spans.Line]:
    assert view.trace is not None
    row, result = view.trace.rows[0], view.result("c0")
    text = agent_text(result, citations) if result is not None else ""
    return preview.snippet(view, row, text, Marker.of(view.pool), cells)


def test_snippet_has_real_line_numbers_marks_and_its_footer() -> None:
    made = snippet_of(world.view(texts=("\n\nfirst router line\nsecond",), vector=((0, 0.9),), bm25=()), "on")
    assert texts(made).splitlines()[0].split() == ["12", "▸", "first", "router", "line"]
    assert [span.text for line in made for span in line if "match" in span.role] == ["router"]
    assert "Source: memory/note-0.md#L10-L13" in texts(made) and "not sent" not in texts(made)
    note, source = re.findall(r"(\d+) characters sent, plus (\d+) for the source line", texts(made))[0]
    assert int(source) == len("\n\nSource: memory/note-0.md#L10-L13"), "the limit counts the note alone"
    assert int(note) == len("first router line\nsecond")


@pytest.mark.parametrize("cells", [24, 44, 60])
def test_every_line_below_a_snippet_is_whole(cells: int) -> None:
    view = world.view(texts=("\n\nfirst router line\nsecond",), vector=((0, 0.9),), bm25=())
    made = snippet_of(view, "on", cells)
    assert max(map(spans.width, made)) <= cells
    assert "characters sent, plus 34 for the source line" in " ".join(texts(made).split())


def test_the_snippet_pane_draws_what_the_agent_gets_then_the_cut_then_the_rest() -> None:
    view = long_view()
    made = snippet_of(view)
    result, drawn = view.result("c0"), texts(made).splitlines()
    assert result is not None and view.candidate("c0") is not None
    at = next(n for n, text in enumerate(drawn) if text.startswith("── truncated by "))
    assert [text[7:].rstrip() for text in drawn[: at - 1]] == result.snippet.split("\n")
    assert drawn[at - 1].startswith("250 characters sent")
    below = made[at + 1 :]
    assert all({span.role for span in line[4:]} <= {"dim", "dim match"} for line in below)
    numbers = [int(spans.text_of(line)[:3]) for line in below]
    assert numbers == list(range(numbers[0], 40)) and numbers[0] == len(result.snippet.split("\n")) + 9
    assert "…" in drawn[at + 1], "of a line that is cut only the rest is below"
    assert preview.evidence(made) == len(made) - 1 and drawn[-1][4] == "▸"
    assert {text[5] for text in drawn[at + 1 : -1]} == {"┊"}


def test_a_hit_shows_the_line_that_its_snippet_marks() -> None:
    text = "router router gateway\n" + "\n".join(f"line {n} says little of it" for n in range(11, 40))
    signals = {"bm25": {"c0": Signal(7.0, (*([0.1] * 29), 6.0))}}
    knobs = Knobs().set({"snippet_chars": 250})
    of: dict[str, Any] = {"texts": (text,), "bm25": ((0, 7.0),), "vector": ((0, 0.9),), "signals": signals}
    view = world.view(knobs, **of)
    assert view.trace is not None and view.trace.rows[0].shown.best_line == 39
    row, marker = view.trace.rows[0], Marker.of(view.pool)
    best = spans.text_of(hits.best_line(view, row, marker, 60))
    assert best == "line 39 says little of it" and best in texts(snippet_of(view)).split("▸")[1]
    assert best in texts(waterfall(view, row, 60, marker=marker)).splitlines()[0]

    out = world.view(knobs.set({"min_score": 1.0, "keyword_rescue": "off"}), knobs, **of)
    assert out.trace is not None and not out.trace.returned
    assert spans.text_of(hits.best_line(out, out.trace.rows[0], marker, 60)) == best, "as in the baseline"
    assert "39 ▸" in texts(snippet_of(out))
    nowhere = replace(out, baseline=None)
    assert "router" in spans.text_of(hits.best_line(nowhere, out.trace.rows[0], marker, 60))


def test_the_best_of_several_lines_has_the_word_that_the_query_names_first() -> None:
    marker = Marker.of(world.pool(query="backup signing key", kinds=("vector",)))
    for text, best in (
        ("# 2026-03-31\n\nNothing about it.\nNor here.", 3),
        ("# Backup of the signing key\nThe key.", 2),
        ("A key, for signing.\nA key, for the backup.\nA backup, of the key.", 2),
        ("A backup.\nThe signing key.", 2),
        ("# Backup", 1),
    ):
        assert marker.best(world.candidate(0, text)._replace(chunk_id=text, start_line=1)).number == best, (
            text
        )


def test_an_excerpt_begins_with_a_word() -> None:
    marker = Marker.of(world.pool(query="vlan"))
    text = spans.text_of(marker.excerpt("magpie heron gannet dunlin 10.40.110.8 the vlan of it", 30))
    assert text.startswith("…") and text[1:].split()[0] in {"dunlin", "10.40.110.8", "the"}


def test_a_truncated_row_is_marked_and_counted() -> None:
    view = long_view()
    assert view.trace is not None
    shown = view.trace.rows[0].shown.lines[0]
    row = row_texts(view, 80)[1].split()
    assert row[:3] == ["1", "†", "memory/note-0.md:10-39"] and row[-2] == f"{shown[1] - 10}/30"
    full = spans.text_of(funnel.funnel(view, 140)).rstrip()
    assert full.endswith("→ 1 returned"), "the sentence above says the rest"
    said = "1 result; the result is truncated to 250 characters, and loses its best line (line 39)"
    assert texts(above.above(view, 140)).endswith(said)
    whole = long_view("best-line")
    assert row_texts(whole, 80)[1].split()[0] == "1"
    assert "1 result; the result is truncated to at most 250 characters; #1" in texts(above.above(whole, 140))


def test_packed_lines_have_gaps_and_count_results_beside_chunks() -> None:
    texts_of = ("router one\nnothing\nnothing at all\nvlan two", "vlan three", "the vlan of it")
    lines = {"c0": (5.0, 0.1, 0.1, 4.0), "c1": (4.0,), "c2": (3.0,)}
    view = world.view(
        Knobs().set({"snippet": "packed", "snippet_budget": 50, "min_score": 0.0}),
        texts=texts_of,
        paths=("memory/a.md", "memory/b.md", "memory/b.md"),
        bm25=((0, 7.0), (1, 6.0), (2, 5.0)),
        vector=((0, 0.9), (1, 0.8), (2, 0.7)),
        signals={"bm25": {key: Signal(7.0, scores) for key, scores in lines.items()}},
        starts=(10, 20, 30),
    )
    assert view.trace is not None
    assert "→ 2 results made of 3 chunks" in spans.text_of(funnel.funnel(view, 120))
    drawn = texts(snippet_of(view)).splitlines()
    assert [text[:5].split() for text in drawn[:3]] == [["10", "▸"], [], ["13"]] and drawn[1].strip() == "…"
    assert any(text.startswith("── truncated by ") for text in drawn) and " 11  ┊ nothing" in "\n".join(drawn)
    second = preview.snippet(view, view.trace.rows[2], "", Marker.of(view.pool), 60)
    assert [spans.text_of(line)[4] for line in second[:3]] == [" ", " ", "▸"], "the lines of its own chunk"


def test_lines_that_another_result_shows_are_not_said_to_be_lost() -> None:
    text = "\n".join([*(f"line {n} says little of it" for n in range(10, 39)), "the router and the vlan"])
    view = world.view(
        Knobs().set({"snippet_chars": 250}),
        texts=(text, "the router and the vlan"),
        paths=("memory/a.md",) * 2,
        starts=(10, 39),
        bm25=((0, 7.0), (1, 6.0)),
        vector=((0, 0.9), (1, 0.8)),
        signals={"bm25": {"c0": Signal(7.0, (*([0.1] * 29), 6.0)), "c1": Signal(6.0, (6.0,))}},
    )
    drawn = texts(snippet_of(view)).splitlines()
    assert drawn[-2].startswith(" 38  ┊") and drawn[-1].startswith(" 39 ▸ ")
    assert "1 truncated to 250 characters, #1 loses its best line (line 39)" in texts(above.above(view, 140))


def test_a_chunk_that_is_not_returned_is_drawn_as_such() -> None:
    made = texts(snippet_of(world.view(Knobs().set({"min_score": 1.0, "keyword_rescue": "off"}))))
    assert "not sent" not in made and made.split()[:2] == ["10", "▸┊"], "the frame says that nothing is sent"


def test_excerpt_tells_chunk_from_context() -> None:
    view = world.view(texts=("a\nthe router",), vector=((0, 0.9),))
    assert view.trace is not None
    row, marker = view.trace.returned[0], Marker.of(view.pool)
    got = Excerpt("memory/note-0.md", "before\na\nthe router\nafter", 9, 12, 40, True)
    made = preview.excerpt(got, view, row, marker, 60)
    assert [spans.text_of(line)[4:6] for line in made[:4]] == ["  ", " ┃", "▸┃", "  "]
    assert preview.evidence(made) == 2, "it opens at the best line"
    assert "lines 9–12 of 40" in texts(made) and "┊" not in texts(made)


def test_an_excerpt_marks_the_lines_of_the_chunk_that_the_agent_does_not_get() -> None:
    few = Knobs().set({"snippet_chars": 40})
    text = "the router\n" + "a long second line " * 3 + "\nthe third"
    view = world.view(few, few, texts=(text,), vector=((0, 0.9),))
    assert view.trace is not None
    row, marker = view.trace.returned[0], Marker.of(view.pool)
    assert row.truncated
    made = preview.excerpt(Excerpt("memory/note-0.md", text, 10, 12, 40, True), view, row, marker, 80)
    assert [spans.text_of(line)[4:6] for line in made[:3]] == ["▸┃", " ┊", " ┊"], "the second one is cut"
    assert spans.text_of(made[-1]).endswith("chunk ┃10–12")
    assert preview.titled("note", made, note=True) == "note · ┃ sent, ┊ not sent"
    assert preview.titled("note", made[1:3], note=True) == "note · ┊ not sent"
    assert preview.titled("note", made[3:4], note=True) == "note"
    assert preview.titled("snippet · truncated", made[1:3]) == "snippet · ┊ not sent", "one word for it"
    assert preview.titled("chunk · ┊ not sent to the agent", made).count("┊") == 1


def test_the_best_line_is_found_else_the_first_match() -> None:
    made = snippet_of(world.view(texts=("one\ntwo\nthe router",), vector=((0, 0.9),), bm25=()))
    assert preview.evidence(made) == 2 and preview.evidence(made[:2]) == 0


def test_a_file_that_is_gone_is_said() -> None:
    got = Excerpt("memory/x.md", "", 1, 0, 0, False)
    view = world.view()
    assert view.trace is not None
    assert "is deleted" in texts(preview.excerpt(got, view, view.trace.returned[0], Marker.of(None), 60))


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("routers", "the Router routes", ["Router"]),
        ("café", "CAFE and Café", ["CAFE", "Café"]),
        ("納期は", "箱の納期は四週間", ["納期は"]),
        ("INV-0412", "invoice INV-0412 paid", ["INV", "0412"]),
    ],
)
def test_terms_are_marked_across_forms_and_scripts(query: str, text: str, marked: list[str]) -> None:
    pool = world.pool(query=query, kinds=("vector",))
    line = Marker.of(pool).mark(text)
    assert [span.text for span in line if "match" in span.role] == marked


@pytest.mark.parametrize("before", ["長い話の前に", "a longer story of a van "])
def test_the_match_of_a_long_line_is_in_sight_whatever_its_script(before: str) -> None:
    marker = Marker.of(world.pool(query="納期", kinds=("vector",)))
    for repeats in range(12):
        drawn = spans.fit(marker.excerpt(before * repeats + "納期は四週間", 40), 40)
        assert spans.width(drawn) == 40
        assert any(span.text == "納期" and "match" in span.role for span in drawn), repeats


def test_bars_and_frames_are_shapes_in_a_picture() -> None:
    text = '<text class="terminal-r4" x="24.4" y="68.8" textLength="48.8">{}</text>'
    bar = in_cells(text.format("██▄&#160;"))
    assert '<rect class="terminal-r4" x="24.4" y="50.3" width="24.4" height="24.65"' in bar
    assert 'x="48.8" y="62.5" width="12.2" height="12.45"' in bar and bar.count("<rect") == 2
    assert bar.endswith('fill-opacity="0" x="24.4" y="68.8" textLength="48.8">██▄&#160;</text>')
    mixed = in_cells(text.format("17││"))
    assert mixed.count("<rect") == 2 and "opacity" not in mixed, "a shape for each of two frames"
    assert in_cells(text.format("text")) == text.format("text")


def test_wide_characters_take_two_cells_in_a_picture() -> None:
    head = '<text class="terminal-r4" x="{}" y="68.8" textLength="{}" clip-path="url(#l)">'
    drawn = in_cells(
        head.format("24.4", "97.6") + "- 納期は 5 &amp;</text>" + head.format("0", "61") + "heron</text>"
    )
    assert drawn == (
        head.format("24.4", "24.4")
        + "- </text>"
        + head.format("48.8", "73.2")
        + "納期は</text>"
        + head.format("122", "48.8")
        + " 5 &amp;</text>"
        + head.format("0", "61")
        + "heron</text>"
    )


def test_stems_meet() -> None:
    assert stem("numbers") == stem("number") and stem("restored") == stem("restore")
