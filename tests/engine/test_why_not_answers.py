"""Why-not of single notes: files, paths, lines, words, changes of the text."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_retrieve_qmd import qmd_settings
from test_why_not import NOW, demo

from openclaw_mem_engine.demo import load_queries
from openclaw_mem_engine.errors import PathRefused, UsageError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.knobs import parse_settings
from openclaw_mem_engine.ranking.profiles import changed, profile
from openclaw_mem_engine.sanitize import figure
from openclaw_mem_engine.why_not import RETURNED
from support.memories import backend_of, open_memory, write_notes

__all__ = ["demo"]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Memory]:
    notes = {
        "MEMORY.md": "# Facts\n\nThe gateway is grey.\n",
        "memory/2026-02-20.md": "# Network\n\nThe router moved to VLAN 40.\n",
        "memory/.hidden/a.md": "The router is hidden.\n",
        "notes/b.md": "The router is elsewhere.\n",
    }
    with open_memory(
        write_notes(tmp_path / "workspace", notes), tmp_path / "home", clock=lambda: NOW
    ) as memory:
        memory.sync()
        yield memory


def test_what_is_excluded_names_the_rule(small: Memory) -> None:
    hidden = small.why_not("router", "memory/.hidden/a.md")
    assert (
        hidden.stage == "included"
        and "it is not included: memory/.hidden, which contains it: " in hidden.text
    )
    assert "hidden folder" in hidden.text
    elsewhere = small.why_not("router", "notes/b.md", 1)
    assert elsewhere.stage == "included" and "files below memory/" in elsewhere.text
    assert elsewhere.to_dict()["passage"] == {"path": "notes/b.md", "startLine": 1, "endLine": 1}


def test_a_line_that_another_result_has_too_is_not_missing(tmp_path: Path) -> None:
    said = "The pump key hangs on hook 7.\n"
    notes = {
        "memory/a.md": f"# Pump\n\n{said}\nPump.\n",
        "memory/b.md": f"# Old list\n\nPump parts.\n  {said}",
    }
    with open_memory(write_notes(tmp_path / "workspace", notes), tmp_path / "home") as memory:
        memory.sync()
        one = memory.knobs.set({"max_results": 1, "min_score": 0.0})
        (first,) = memory.search("pump key", one).hits
        path, line = next((name, 3 + (name == "memory/b.md")) for name in notes if name != first.path)
        absent = memory.why_not("pump key", path, line, one)
        text = f"The text of line {line} is also in result 1, so the agent gets it."
        assert absent.rank is None and absent.same_line == text
        assert text in [note["text"] for note in absent.to_dict()["notes"]]
        assert not memory.why_not("pump key", path, 1, one).same_line, "its title is in no other note"
        assert not memory.why_not("pump key", path, 2, one).same_line, "a blank line says nothing"


def test_a_new_and_a_modified_note_are_not_up_to_date(small: Memory) -> None:
    write_notes(small.settings.workspace, {"memory/new.md": "A router.\n"})
    new = small.why_not("router", "memory/new.md")
    assert (new.stage, [c.kind for c in new.text_changes]) == ("indexed", ["index"])
    write_notes(small.settings.workspace, {"memory/2026-02-20.md": "# Network\n\nAll is new: a switch.\n"})
    assert small.why_not("router", "memory/2026-02-20.md", 3).stage == "indexed"
    small.sync()
    assert small.why_not("switch", "memory/2026-02-20.md", 3).stage == RETURNED


def test_a_line_that_a_modified_note_has_and_the_index_has_not(small: Memory) -> None:
    note = small.settings.workspace / "MEMORY.md"
    lines = note.read_text().rstrip("\n").split("\n")
    note.write_text("\n".join([*lines, "", "the new pump"]) + "\n")
    found = small.why_not("pump", "MEMORY.md", len(lines) + 2)
    assert (found.stage, found.steps[-1].text) == ("indexed", "it was modified since it was indexed")


def test_a_deleted_note_that_is_still_indexed_is_said_to_be(small: Memory) -> None:
    (small.settings.workspace / "memory/2026-02-20.md").unlink()
    found = small.why_not("router", "memory/2026-02-20.md")
    assert found.stage == RETURNED and "is deleted" in found.steps[0].text
    assert found.steps[1].text == "it is included by the rule memory/**/*.md"
    assert "it is indexed: 1 chunk" in found.steps[2].text
    link = small.settings.workspace / "memory/2026-02-20.md"
    link.symlink_to("pump.md")
    steps = small.why_not("router", "memory/2026-02-20.md").steps
    assert steps[0].text == "memory/2026-02-20.md exists"
    assert steps[1].text == "it is not included any more; the index still has its text"
    link.unlink()
    small.sync()
    with pytest.raises(PathRefused):
        small.why_not("router", "memory/2026-02-20.md")


def test_a_kept_note_of_an_emptied_workspace_is_not_said_to_exist(small: Memory) -> None:
    shutil.rmtree(small.settings.workspace)
    small.settings.workspace.mkdir()
    found = small.why_not("router", "memory/2026-02-20.md")
    assert found.steps[0].text.endswith("not on disk now; the index still has its text")


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(qmd_settings(tmp_path)) as memory:
        memory.sync()
        yield memory


@pytest.fixture(params=["small", "documents"])
def either(request: pytest.FixtureRequest) -> Memory:
    """The memory of either backend."""
    found: Memory = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("path", ["memory/none.md", "/etc/hosts", "../x.md", "qmd/more/../../x.md"])
def test_a_path_that_is_no_memory_is_refused(either: Memory, path: str) -> None:
    with pytest.raises(PathRefused):
        either.why_not("router", path)


@pytest.mark.parametrize(
    ("query", "path", "line"), [("", "MEMORY.md", 1), ("x", " ", 1), ("x", "MEMORY.md", 9)]
)
def test_wrong_questions(either: Memory, query: str, path: str, line: int) -> None:
    with pytest.raises(UsageError):
        either.why_not(query, path, line)


def test_the_last_line_of_a_note_can_be_asked_for(either: Memory) -> None:
    """The range of a chunk may count the empty text after the last newline; nothing is after that."""
    last = (either.settings.workspace / "MEMORY.md").read_text("utf-8").count("\n")
    assert either.why_not("x", "MEMORY.md", last).passage.path == "MEMORY.md"
    with pytest.raises(UsageError, match=f"there is no line {last + 2}"):
        either.why_not("x", "MEMORY.md", last + 2)


def test_an_absolute_path_is_the_same_note(small: Memory) -> None:
    path = str(small.settings.workspace / "memory" / "2026-02-20.md")
    assert small.why_not("router", path).passage.path == "memory/2026-02-20.md"


def test_decay_that_alone_keeps_a_note_out_is_named(small: Memory) -> None:
    knobs = small.knobs.set({"decay": True, "half_life_days": 1, "keyword_rescue": "off"})
    found = small.why_not("router VLAN", "memory/2026-02-20.md", None, knobs)
    assert found.stage == "min_score"
    assert {"decay": False} in [dict(change.set) for change in found.changes]
    assert (found.stage, found.decided) == ("min_score", "(dropped by min score, because of decay)")
    assert f" is not returned {found.decided}: its score " in found.text
    assert found.text.endswith(" before decay.")
    (marked,) = [step.name for step in found.steps if step.facts.get("displaced")]
    assert marked == "decay", "the steps that are marked in the list are those that the answer names"
    high = small.why_not(
        "router VLAN", "memory/2026-02-20.md", None, knobs.set({"decay": False, "min_score": 1})
    )
    assert high.decided == "(dropped by min score)"
    says = [change.text for change in found.text_changes if change.kind == "undated"]
    assert says == [
        "If the name of its note were not just a date, it would not decay, and would be returned."
    ]


def test_words_that_the_passage_lacks_are_named(small: Memory) -> None:
    found = small.why_not("router gateway", "MEMORY.md", None, small.knobs.set({"max_results": 1}))
    lexical = next(f for f in found.steps[4].facts["lists"] if f["list"] == "bm25")
    assert (lexical["words"], lexical["missing"]) == (["gateway"], ["router"])
    none = small.why_not("router VLAN", "MEMORY.md", None, small.knobs.set({"max_results": 1}))
    says = "If the chunk held “router” or “VLAN”, BM25 would find it."
    says += " Even with BM25 rank 1, all else equal, it would not be returned."
    assert [change.text.lower() for change in none.text_changes] == [says.lower()]
    joined = small.why_not("router without VLAN", "MEMORY.md", None, small.knobs.set({"max_results": 1}))
    assert [change.text.lower() for change in joined.text_changes] == [says.lower()], "it names nothing"


def test_what_the_words_that_a_passage_lacks_can_do_is_what_they_do(small: Memory) -> None:
    knobs = small.knobs.set({"mode": "bm25", "max_results": 1})
    (change,) = small.why_not("router", "MEMORY.md", None, knobs).text_changes
    assert change.text.endswith(" With BM25 rank 1, all else equal, it would be result 1.")
    note = small.settings.workspace / "MEMORY.md"
    note.write_text("# Router\n\nThe router is grey: router.\n", "utf-8")
    small.sync()
    assert [hit.path for hit in small.search("router", knobs).hits] == ["MEMORY.md"]


def test_mmr_names_what_displaced_a_passage(tmp_path: Path) -> None:
    same = "The router of the house stands in the cellar on the left.\n"
    other = "Guests have a router of their own, bought in Lisbon last year.\n"
    notes = {f"memory/{name}.md": same + name for name in "abc"} | {"memory/d.md": other}
    with open_memory(write_notes(tmp_path / "workspace", notes), tmp_path / "home") as memory:
        memory.sync()
        knobs = memory.knobs.set({"mmr": True, "mmr_lambda": 0.1, "max_results": 2, "min_score": 0.0})
        rows = memory.search("router house cellar", knobs).trace.rows
        out = next(row for row in rows if row.outcome.stage == "mmr")
        found = memory.why_not("router house cellar", out.path, None, knobs)
        assert found.stage == "mmr" and out.diversity is not None
        values = f"its MMR value {figure(out.diversity.value, 3)} is below "
        number = 1 + [row.location for row in rows].index(out.diversity.nearest or "")
        assert values in found.text and f" to #{number} is " in found.text
        first = memory.why_not("router house cellar", rows[0].path, None, knobs)
        assert next(step.text for step in first.steps if step.name == "mmr") == "its MMR value is 0.100"
        assert {"mmr": False} in [dict(change.set) for change in found.changes]


def test_the_rows_of_each_lesson_of_the_demo_can_be_asked_for(demo: Memory) -> None:
    """That nearest to being returned with the settings of the lesson, and the last with the others."""
    for lesson in load_queries(0).suggested:
        for names, place in ((lesson.settings, 0), (lesson.against, -1)) if not lesson.backend else ():
            knobs = changed(demo.knobs, parse_settings(names))
            if unreturned := demo.search(lesson.query, knobs).trace.unreturned:
                row = unreturned[place]
                found = demo.why_not(lesson.query, row.path, row.start_line, knobs)
                assert found.passage.path == row.path


def test_a_line_that_is_shown_in_part_is_not_returned(tmp_path: Path) -> None:
    lines = ["the pump is red", "a step of the day " * 3, "the code of the pump 4711 " * 3]
    notes = {"MEMORY.md": "\n".join(lines) + "\n"}
    with open_memory(write_notes(tmp_path / "workspace", notes), tmp_path / "home") as memory:
        memory.sync()
        knobs = profile("documented").set({"snippet_chars": 50, "min_score": 0})
        assert memory.why_not("pump", "MEMORY.md", 1, knobs).stage == RETURNED
        found = memory.why_not("pump", "MEMORY.md", 2, knobs)
        assert (found.stage, found.returned) == ("snippet", True)
        assert found.text.endswith(
            "part of line 2 (step snippet): the snippet shows lines 1–2, and only a part of line 2."
        )
        for change in found.changes:
            hits = memory.search("pump", knobs.set(change.set)).trace.results
            assert lines[1] in hits[0].snippet.split("\n"), change


def test_pieces_of_one_line_are_named_once(tmp_path: Path) -> None:
    notes = {"MEMORY.md": "# Log\n\n" + "the pump hums on the hill " * 300 + "\n"}
    with open_memory(write_notes(tmp_path / "workspace", notes), tmp_path / "home") as memory:
        memory.sync()
        found = memory.why_not("pump", "MEMORY.md", 3, profile("workbench"))
        texts = {step.name: step.text for step in found.steps}
        says = "line 3 is in chunks that hold lines 1–3, a part of line 3, lines 3–4; "
        says += "the next steps are about line 3"
        assert texts["chunk"] == says
        assert (found.stage, texts["snippet"]) == ("snippet", "the snippet shows a part of line 3")
        count = len(memory.search("pump", profile("workbench")).trace.rows)
        assert texts["max_results"] == f"it is among the {count} chunks that are considered for packing"


@pytest.mark.parametrize(("rescue", "below"), [("when-empty", ""), ("fill", " below min score")])
def test_a_match_that_keyword_rescue_did_not_take_says_its_number(
    tmp_path: Path, rescue: str, below: str
) -> None:
    notes = {f"memory/n{n}.md": f"# Note {n}\n\nThe pump {'hums ' * (n + 1)}.\n" for n in range(5)}
    with open_memory(write_notes(tmp_path / "workspace", notes), tmp_path / "home") as memory:
        memory.sync()
        settings = {"min_score": 1.0, "max_results": 2, "keyword_rescue": rescue}
        knobs = profile("documented").set(settings)
        trace = memory.search("pump", knobs).trace
        number = sum(row.final is not None and row.final < 1 for row in trace.rows)
        kept = sum(row.outcome.rescued for row in trace.rows)
        last = max(trace.rows, key=lambda row: row.ranks["final"])
        found = memory.why_not("pump", last.path, None, knobs)
        says = f"; keyword rescue kept the first {kept} keyword matches{below}, and it is number"
        assert found.stage == "min_score" and kept
        assert found.text.endswith(f"{says} {number} of {number}.")
        first = memory.why_not("pump", trace.returned[0].path, None, knobs)
        low = next(step for step in first.steps if step.name == "min_score")
        assert low.ok and low.facts["rescued"] and low.text.endswith(" is below min score 1")


def test_a_why_not_takes_the_lists_of_the_search_just_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same answer as without them; other words, other lists and a changed index are searched anew."""
    notes = write_notes(
        tmp_path / "workspace", {"MEMORY.md": "The pump is red.\n", "memory/a.md": "A kettle."}
    )
    with open_memory(notes, tmp_path / "home", clock=lambda: NOW, resident=True) as memory:
        memory.sync()
        backend = backend_of(memory)
        searched: list[str] = []
        search = backend.search

        def counted(query: str, *rest: Any, **options: Any) -> Any:
            searched.append(query)
            return search(query, *rest, **options)

        monkeypatch.setattr(backend, "search", counted)
        alone = memory.why_not("pump", "memory/a.md")
        assert searched == ["pump"]
        timings = dict(memory.search("pump").pool.timings)
        pool = memory.search("pump").pool
        searched.clear()
        assert memory.why_not("pump", "memory/a.md") == alone
        assert searched == [] and dict(pool.timings).keys() == timings.keys()
        memory.why_not("kettle", "memory/a.md")
        memory.why_not("kettle", "memory/a.md", knobs=profile("openclaw-2026.2"))
        assert searched == ["kettle", "kettle"]
        (notes / "memory" / "b.md").write_text("A second pump.\n", "utf-8")
        memory.search("pump")
        memory.sync()
        searched.clear()
        assert memory.why_not("pump", "memory/b.md").returned
        assert searched == ["pump"]


def test_a_change_that_makes_the_pool_larger_says_so_where_no_score_changes(demo: Memory) -> None:
    """With more results more candidates are ranked: the rank is not the one of the step that drops it."""
    knobs = demo.knobs.set({"mode": "bm25", "decay": True, "min_score": 0.0, "snippet_chars": 2000})
    query = "where is the backup of the firmware signing key"
    path = next(p for p in demo.paths() if "salle   min" in demo.get(p, 1, 400).text)
    line = demo.get(path, 1, 400).text.split("\n").index("salle   min    max    heures > 13 °C") + 1
    answer = demo.why_not(query, path, line, knobs)
    (more,) = [change for change in answer.changes if set(change.set) == {"max_results"}]
    (rank,) = [step.text for step in answer.steps if step.name == "max_results"]
    assert f"its rank is {more.rank}," not in rank and more.score == "the pool is larger"
