"""The demo teaches: every suggested query must really show what its lesson says, with the real engine."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pytest

from openclaw_mem_engine.answer import Answer
from openclaw_mem_engine.config.load import with_backend
from openclaw_mem_engine.demo import ANCHOR, SuggestedQuery, load_queries, write_demo
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.knobs import parse_settings
from openclaw_mem_engine.ranking.profiles import WORKBENCH, changed
from support import postgres
from support.memories import open_memory

NOON = datetime.datetime.combine(ANCHOR, datetime.time(12), datetime.UTC).timestamp()
SUGGESTED = {item.title: item for item in load_queries(0).suggested}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    base = tmp_path_factory.mktemp("lessons")
    environ = postgres.variables() if request.param == "postgres" else {}
    with open_memory(
        write_demo(base / "demo", ANCHOR), base / "home", clock=lambda: NOON, **environ
    ) as memory:
        memory.sync()
        yield memory


def both_runs(memory: Memory, lesson: SuggestedQuery) -> tuple[Answer, Answer]:
    shown, against = (
        memory.search(lesson.query, changed(memory.knobs, parse_settings(list(settings))))
        for settings in (lesson.settings, lesson.against)
    )
    return shown, against


@pytest.fixture(scope="module")
def qmd(demo: Memory) -> Iterator[Memory]:
    """The same workspace with the QMD backend."""
    settings = demo.settings
    other = with_backend(settings, "qmd")
    with Memory.open(other, clock=lambda: NOON) as memory:
        memory.sync()
        yield memory


def paths(answer: Answer) -> list[str]:
    return [hit.path.removeprefix("memory/") for hit in answer.hits]


def test_every_lesson_is_checked_here() -> None:
    tested = {name for name in globals() if name.startswith("test_lesson_")}
    assert len(tested) == len(SUGGESTED)


def test_lesson_exact_id(demo: Memory) -> None:
    lost, saved = both_runs(demo, SUGGESTED["Exact ID below min score"])
    assert not lost.hits
    row = next(r for r in lost.trace.rows if r.path == "memory/2025-09-18.md")
    assert row.outcome.stage == "min_score" and row.final is not None and row.final < 0.35
    bm25 = next(operand for operand in row.operands if "rank" in operand.inputs)
    assert bm25.product == pytest.approx(0.15) and row.ranks["bm25"] == 1 < row.ranks["vector"]
    assert [(h.path, h.rescued) for h in saved.hits] == [("memory/2025-09-18.md", True)]


def test_lesson_decay(demo: Memory) -> None:
    decayed, plain = both_runs(demo, SUGGESTED["Decay hides an old note"])
    assert paths(plain)[0] == "2025-08-19.md"
    assert "2025-08-19.md" not in paths(decayed)
    assert not any(row.truncated for answer in (decayed, plain) for row in answer.trace.returned)


def test_lesson_mmr(demo: Memory) -> None:
    diverse, plain = both_runs(demo, SUGGESTED["The same morning eight times: MMR"])
    status = [hit for hit in plain.hits if "tatus" in hit.text]
    assert len(status) == 6
    assert sum(hit.path in {h.path for h in status} for hit in diverse.hits) == 1
    assert any(row.outcome.stage == "mmr" for row in diverse.trace.dropped)


def test_lesson_japanese(demo: Memory) -> None:
    hybrid, vector = both_runs(demo, SUGGESTED["A question in Japanese: only BM25"])
    assert "people/minato-seiko.md" in paths(hybrid)
    assert not vector.hits
    (note,) = [note for note in vector.trace.notes if note.code in ("no-embedding", "list-missing")]
    assert note.text.startswith("Mode vector finds nothing: static has no vector for this query because ")
    assert [note.text for note in hybrid.trace.notes if note.text.startswith("BM25 only: ")]


def test_lesson_french(demo: Memory) -> None:
    words, vectors = both_runs(demo, SUGGESTED["French without its accents: BM25 ignores accents"])
    assert paths(words)[0] == "people/fromagerie-notes-fr.md"
    assert len(vectors.hits) == 2 < len(words.hits)


def test_lesson_paraphrase(demo: Memory) -> None:
    meaning, words = both_runs(demo, SUGGESTED["No word in common: vectors only"])
    assert paths(meaning)[0] == "2026-03-12.md"
    assert not words.hits


def test_lesson_cut(demo: Memory) -> None:
    lesson = SUGGESTED["Min score hides the right answer"]
    cut, uncut = both_runs(demo, lesson)
    assert paths(cut) == ["runbooks/restore-drill.md", "2025-09-05.md"]
    assert "number one" in cut.hits[1].text
    third = uncut.hits[2]
    assert lesson.quote in third.text and "Restore drill number three" in third.text
    answers = third.start_line + third.text[: third.text.index(lesson.quote)].count("\n")
    shown = uncut.trace.returned[2].shown
    assert (shown.best_line, shown.best_line_cut) == (answers, False), (
        "the cursor is on what the lesson is about"
    )


def test_lesson_rrf(demo: Memory) -> None:
    places, scores = both_runs(demo, SUGGESTED["Ranks instead of scores: RRF"])
    assert paths(places)[0] == "2026-01-13.md"
    assert not scores.hits


def test_lesson_workbench(demo: Memory) -> None:
    workbench, documented = both_runs(demo, SUGGESTED["Two profiles: documented and workbench"])
    assert "2025-11-03.md" in paths(workbench)
    assert "2025-11-03.md" not in paths(documented)


def test_lesson_old_fact(demo: Memory) -> None:
    decayed, plain = both_runs(demo, SUGGESTED["Old fact, new fact: decay decides"])
    assert paths(plain)[0] == "2025-08-06.md"
    assert paths(decayed)[0] == "MEMORY.md"


def test_lesson_error_string(demo: Memory) -> None:
    words, vectors = both_runs(demo, SUGGESTED["An exact error string: BM25"])
    assert paths(words) == ["2025-10-07.md"]
    assert "2025-10-07.md" not in paths(vectors)


def test_lesson_cut_off(demo: Memory) -> None:
    head, packed = both_runs(demo, SUGGESTED["Found, but truncated"])
    assert paths(head)[0] == paths(packed)[0] == "runbooks/kiosk-replacement.md"
    assert head.hits[0].best_line_cut and "7741" in head.hits[0].text
    assert not any("7741" in hit.snippet for hit in head.hits)
    assert "7741" in packed.hits[0].snippet
    assert sum(len(hit.snippet) for hit in packed.hits) <= demo.knobs.budget


def test_the_answers_of_the_long_notes_are_beyond_every_head(demo: Memory) -> None:
    for query in load_queries(0).judged:
        if query.group == "long":
            (grade,) = query.grades
            head, packed = (
                demo.search(query.query, WORKBENCH.set({"snippet": how})).hits for how in ("head", "packed")
            )
            assert grade.path in [hit.path for hit in head]
            assert not any(grade.quote in hit.snippet for hit in head)
            assert any(grade.quote in hit.snippet for hit in packed)


def test_lesson_noise(demo: Memory) -> None:
    noise, silence = both_runs(demo, SUGGESTED["What noise looks like: low scores"])
    assert len(noise.hits) == 6
    assert max(hit.score for hit in noise.hits) < 0.15
    assert not silence.hits


def test_lesson_expansion(qmd: Memory) -> None:
    lesson = SUGGESTED["The same question in fewer words: expansion"]
    assert lesson.backend == "qmd"
    expanded, plain = both_runs(qmd, lesson)
    assert paths(expanded)[0] == "projects/lantern.md" != paths(plain)[0]
    words = plain.pool.first("lexical")
    assert words is not None and not words.rows, "no note has every word"
    texts = [" ".join(found.words) for found in expanded.pool.lists if found.role == "lex" and found.words]
    assert texts and all(len(text) < len(lesson.query) for text in texts)


def test_lesson_every_word(demo: Memory) -> None:
    release, documented = both_runs(demo, SUGGESTED["Every word or any word: openclaw-2026.2"])
    words, any_word = release.pool.first("lexical"), documented.pool.first("lexical")
    assert not release.hits and words is not None and words.every and not words.rows
    assert paths(documented) == ["lab/adhesives.md"] and any_word is not None
    assert {*words.words} - {*any_word.words} == {"which", "the"}
    right = release.trace.row(documented.hits[0].chunk_id)
    assert right is not None
    assert "no match: the text lacks which" in [operand.note for operand in right.operands]
    assert "which" not in documented.hits[0].text.lower().split()


def test_every_lesson_compares_two_answers(demo: Memory, qmd: Memory) -> None:
    for lesson in SUGGESTED.values():
        shown, against = both_runs(qmd if lesson.backend else demo, lesson)
        one, other = ([(hit.path, hit.snippet) for hit in answer.hits] for answer in (shown, against))
        assert one != other, lesson.title
