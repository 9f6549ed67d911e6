"""No sentence of a trace is false: each is recomputed from the notes and the index, over a workspace where
far more passages match than a list holds."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.explain import stage_formula
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.pool import OVERFETCH, Pool
from openclaw_mem_engine.ranking.profiles import DOCUMENTED, OPENCLAW_2026_2, WORKBENCH
from openclaw_mem_engine.ranking.stages.packing import WEAK_SHARE
from openclaw_mem_engine.ranking.trace import Row, Trace
from openclaw_mem_engine.sanitize import figure
from openclaw_mem_engine.stores.sqlite.schema import FULL_TEXT_TABLES
from support import textbook
from support.memories import backend_of, open_memory, write_notes

NOTES = 420
#: Neither a stop word nor changed by the stemmer, so that a word of the query is a word of a note or is not.
WORDS = """pump valve router garden boat lamp hill fish wolf gold silk drum horn milk corn leaf rain wind snow
sand rock iron salt bird frog""".split()
DAY = 1_771_632_000.0  # 2026-02-21, midnight UTC


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """Notes of random words, the first ones in most of them, some dated and some twice."""
    base, draw = tmp_path_factory.mktemp("reasons"), random.Random(10)
    weights = [1 / (1 + at) for at in range(len(WORDS))]
    notes = {}
    for number in range(NOTES):
        lines = (
            " ".join(draw.choices(WORDS, weights, k=draw.randint(1, 6))) for _ in range(draw.randint(1, 3))
        )
        name = f"2025-{1 + number % 12:02d}-{1 + number % 28:02d}" if number % 3 else f"note-{number}"
        notes[f"memory/{number % 5}/{name}.md" if number % 3 else f"memory/{name}.md"] = (
            "\n".join(lines) + "\n"
        )
    notes["memory/garden-valve.md"] = "rain and snow\n"
    notes["memory/same-a.md"] = notes["memory/same-b.md"] = "pump valve\n"
    with open_memory(write_notes(base / "ws", notes), base / "home", clock=lambda: DAY) as opened:
        opened.sync()
        yield opened


class Oracle:
    """What is true of the passages of one pool, by the text of the notes and by SQL of its own."""

    def __init__(self, memory: Memory, pool: Pool, knobs: Knobs, *, words: bool = True) -> None:
        self.pool, self.knobs = pool, knobs
        backend = backend_of(memory)
        connection = apsw.Connection(str(backend.store.path), flags=apsw.SQLITE_OPEN_READONLY)
        form = "named" if knobs.name_weight else knobs.lexical_index
        table = FULL_TEXT_TABLES[form]
        score = f"bm25({table}, 1, {knobs.name_weight})" if knobs.name_weight else f"bm25({table})"
        lexical, vector = pool.first("lexical"), pool.first("vector")
        assert lexical is not None and vector is not None
        self.words = lexical.query.replace('"', "").split(f" {knobs.lexical_form.upper()} ")
        self.every = knobs.lexical_form == "and"
        sql = f"""SELECT c.id, -{score} FROM {table} f JOIN chunks c ON c.seq = f.rowid
            WHERE {table} MATCH ?"""
        found: list[Any] = connection.execute(sql, (lexical.query,)).fetchall() if words else []
        embedder = backend.embedders.primary
        assert embedder is not None
        asked = embedder.embed_query(pool.query)
        assert asked is not None
        sql = "SELECT c.id, e.embedding FROM chunks c JOIN embedding_cache e USING(hash)"
        held: list[Any] = connection.execute(sql).fetchall()
        near = [(i, float(np.dot(np.frombuffer(blob, np.float32), asked))) for i, blob in held if blob]
        texts: list[Any] = connection.execute("SELECT id, text FROM chunks").fetchall()
        self.texts: dict[str, str] = dict(texts)
        self.scores: dict[str, dict[str, float]] = {"bm25": dict(found), "vector": dict(near)}
        self.total = {"keyword matches": len(found), "vectors": len(near)}
        self.trace: Trace = rank(pool, knobs)

    def best_cosine(self, memory: Memory, chunk_id: str) -> float:
        """Of a passage and its lines."""
        embedder = backend_of(memory).embedders.primary
        assert embedder is not None
        asked = embedder.embed_query(self.pool.query)
        made = embedder.embed_documents([self.texts[chunk_id], *self.texts[chunk_id].split("\n")])
        assert asked is not None
        return max(float(np.dot(vector, asked)) for vector in made if vector is not None)

    def is_rank(self, key: str, chunk_id: str, number: int) -> bool:
        """Float rounding may differ in the last place: equal scores are told apart by id alone."""
        scores = self.scores[key]
        mine = scores[chunk_id]
        better = sum(score > mine + 1e-6 for score in scores.values())
        at_least = sum(score > mine - 1e-6 for score in scores.values())
        return better < number <= at_least

    def holds(self, chunk_id: str, word: str) -> bool:
        return word in re.findall(r"\w+", self.texts[chunk_id].lower())


Check = Callable[[Oracle, Row, re.Match[str]], bool]
_KEY = {"keyword matches": "bm25", "vectors": "vector"}


def _ranked(oracle: Oracle, row: Row, found: re.Match[str]) -> bool:
    number, total, what = int(found[1].replace(",", "")), int(found[2].replace(",", "")), found[3]
    true = oracle.is_rank(_KEY[what], row.chunk_id, number) and total == oracle.total[what]
    if found[4] is not None:
        return true and oracle.knobs.candidates == int(found[4]) < number <= OVERFETCH
    return true and number > OVERFETCH


def _number(text: str) -> float:
    return float(text.replace("−", "-"))


def _is_below(oracle: Oracle, row: Row, found: re.Match[str]) -> bool:
    assert row.final is not None
    short = oracle.knobs.min_score - row.final
    digits = len(found[1].partition(".")[2])
    written = found[1] == figure(row.final, digits) and found[2] == f"{short:.{digits}f}"
    return short > 0 and _number(found[1]) < oracle.knobs.min_score and written


def _ceiling(oracle: Oracle, row: Row, found: re.Match[str]) -> bool:
    text_only = row.ranks.get("vector", 999) > oracle.knobs.candidates
    weight = oracle.knobs.weights[1] * (0.5 if oracle.knobs.bm25_score == "rank" else 1.0)
    return text_only and float(found[1]) == pytest.approx(weight) and weight < oracle.knobs.min_score


def _before_decay(oracle: Oracle, row: Row, found: re.Match[str]) -> bool:
    return row.scores["fusion"] >= oracle.knobs.min_score and f"{row.scores['fusion']:.3f}" == found[1]


def _pool_cut(oracle: Oracle, row: Row, found: re.Match[str]) -> bool:
    named = re.findall(r"(BM25|vector) ranks it (\d+)", found[1])
    limit = oracle.knobs.candidates
    return int(found[2]) == limit and all(
        int(number) > limit and oracle.is_rank(key.lower(), row.chunk_id, int(number))
        for key, number in named
    )


def _mmr(oracle: Oracle, row: Row, chosen: list[Row]) -> tuple[float, dict[str, float]]:
    """The value of a row beside those chosen before, from the texts, and its similarity to each of them."""
    finals = [r.final for r in oracle.trace.rows if r.final is not None]
    spread = max(finals) - min(finals)
    relevance = ((row.final or 0.0) - min(finals)) / spread if spread else 1.0
    tokens = {r.chunk_id: textbook.words(oracle.texts[r.chunk_id], "unicode") for r in (row, *chosen)}
    alike = {r.location: textbook.jaccard(tokens[row.chunk_id], tokens[r.chunk_id]) for r in chosen}
    lam = oracle.knobs.mmr_lambda
    return lam * relevance - (1 - lam) * max(alike.values(), default=0.0), alike


def _displaced(oracle: Oracle, row: Row, found: re.Match[str]) -> bool:
    """By score alone it was among the first, and both values that were compared are those of the texts."""
    passed = [r for r in oracle.trace.rows if r.final is not None and r.outcome.stage != "min_score"]
    better = sum(r.final > row.final for r in passed)  # type: ignore[operator]
    picked = [r for r in oracle.trace.rows if r.diversity is not None and r.diversity.picked]
    *before, last = sorted(picked, key=lambda r: r.ranks["mmr"])
    mine, alike = _mmr(oracle, row, before)
    theirs, _ = _mmr(oracle, last, before)
    many = len(found[1].partition(".")[2])
    values = _number(found[1]), _number(found[3])
    true = values == pytest.approx((mine, theirs), abs=0.6 * 10**-many)
    true &= (values[0] < values[1]) if found[2] == "is below" else mine == pytest.approx(theirs)
    if found[4] is not None:  # none of the kept is renumbered where no lines are packed
        true &= oracle.trace.returned[int(found[4]) - 1] is last
    else:
        true &= oracle.knobs.snippet == "packed"
    if found[7] is not None:
        where = found[6] or oracle.trace.returned[int(found[5]) - 1].location
        true &= alike[where] == max(alike.values())
        true &= float(found[7]) == pytest.approx(alike[where], abs=0.0051)
    return better < oracle.knobs.depth and true


def _unmatched(oracle: Oracle, row: Row, found: re.Match[str]) -> bool:
    """It is no keyword match of the pool, and every result below the minimum is one."""
    known = oracle.scores["bm25"]
    rank = row.ranks.get("bm25", OVERFETCH + 1)
    rescued = [r for r in oracle.trace.returned if r.outcome.rescued]
    assert row.outcome.cause == "without a keyword match"
    missing = (rank > oracle.knobs.candidates) if row.chunk_id in known else found[2] is None
    missing &= found[2] is None or (row.chunk_id in known and int(found[2]) == oracle.knobs.candidates)
    return missing and bool(rescued) and all(r.chunk_id in known for r in rescued)


def _past_the_kept(oracle: Oracle, row: Row, found: re.Match[str]) -> bool:
    rescued = [r for r in oracle.trace.returned if r.outcome.rescued]
    assert row.outcome.cause == f"beyond {found[1]}"
    is_match = row.chunk_id in oracle.scores["bm25"]
    return is_match and len(rescued) == int(found[2] or 1) < int(found[3]) <= int(found[4])


def _late(oracle: Oracle, row: Row, found: re.Match[str]) -> bool:
    most = {"max_results": oracle.knobs.depth}[row.outcome.stage or ""]
    return int(found[1]) == row.ranks["final"] and int(found[2] or 1) == most


def _file_number(oracle: Oracle, row: Row) -> int:
    """Which of the files that reached the snippet stage, best chunk first."""
    reached = [r for r in oracle.trace.rows if r.returned or r.outcome.stage == "snippet"]
    reached.sort(key=lambda r: r.ranks["final"])
    return list(dict.fromkeys(r.path for r in reached)).index(row.path) + 1


#: Every sentence that a trace of these knobs may hold, and what makes it true.
SENTENCES: dict[str, Check] = {
    r"(?:BM25 )?rank ([\d,]+) of ([\d,]+) (keyword matches|vectors)(?:, past the first (\d+))?": _ranked,
    r"(?:BM25 )?no match: the text contains none of: ([^;]+)": lambda oracle, row, found: (
        found[1].split(", ") == oracle.words
        and len(oracle.words) > 1
        and not any(oracle.holds(row.chunk_id, word) for word in oracle.words)
    ),
    r"(?:BM25 )?no match: the text lacks (\w+, [^;]+)": lambda oracle, row, found: (
        set(found[1].split(", ")) <= set(oracle.words)
        and oracle.every
        and all(oracle.holds(row.chunk_id, word) for word in set(oracle.words) - set(found[1].split(", ")))
        and not all(oracle.holds(row.chunk_id, word) for word in oracle.words)
    ),
    r"(?:BM25 )?no match: the text lacks (\w+)": lambda oracle, row, found: (
        not oracle.holds(row.chunk_id, found[1])
        and all(oracle.every and oracle.holds(row.chunk_id, word) for word in {*oracle.words} - {found[1]})
    ),
    r"the file name, which this profile does not search, contains: (.+)": lambda oracle, row, found: (
        oracle.knobs.name_weight == 0
        and set(found[1].split(", "))
        == set(oracle.words) & set(re.findall("[a-z0-9]+", row.path.split("/")[-1]))
    ),
    r"matches only with words of its path": lambda oracle, row, _: (
        oracle.knobs.name_weight > 0
        and any(word in re.findall("[a-z0-9]+", row.path) for word in oracle.words)
        and not (all if oracle.knobs.lexical_form == "and" else any)(
            oracle.holds(row.chunk_id, word) for word in oracle.words
        )
    ),
    r"(?:BM25 )?not among the first (\d+) of ([\d,]+) (keyword matches|vectors)": lambda oracle, row, found: (
        int(found[1]) == OVERFETCH
        and int(found[2]) == oracle.total[found[3]]
        and _KEY[found[3]] not in row.ranks
        and all(lst.ranks_beyond() == "" for lst in oracle.pool.lists)
    ),
    r"has no vector": lambda oracle, row, _: row.chunk_id not in oracle.scores["vector"],
    r"its score ([−\d.]+) is below min score [\d.]+ by ([\d.]+)": _is_below,
    r"with BM25 only, a match scores at most ([\d.]+)": _ceiling,
    r"score (\d\.\d+) before decay": _before_decay,
    r"rank (\d+) before decay": lambda oracle, row, found: row.ranks["fusion"] == int(found[1]),
    r"(.+ ranks it .+); only the first (\d+)(?: \(the maximum\))? of each list enter the pool": _pool_cut,
    r"found only by (?:BM25|vectors)": lambda oracle, row, _: (
        not any(row.chunk_id in lst.ranks for lst in oracle.trace.lists)
    ),
    r"(BM25|vector) mode does not use (?:BM25|vectors)": lambda oracle, _, found: (
        oracle.knobs.mode == found[1].lower()
    ),
    r"its rank is (\d+), and only the first(?: (\d+) are| is) (?:returned|packed)": _late,
    r"its MMR value ([−\d.]+) (is below|equals) ([−\d.]+), that of (?:#(\d+)|the last of \d+)"
    r"(?:; its similarity to (?:#(\d+)|([^#;]\S*)) is ([\d.]+))?; by score alone it would be kept": (
        _displaced
    ),
    r"it is not (a keyword match|one of the first (\d+) keyword matches)": _unmatched,
    r"keyword rescue keeps only those": lambda oracle, *_: not oracle.knobs.fill_missing,
    r"keyword rescue kept (the first(?: (\d+))? keyword match(?:es)?)(?: below min score)?, "
    r"and it is number (\d+) of (\d+)": _past_the_kept,
    r"evergreen": lambda oracle, row, _: oracle.pool.candidates[row.chunk_id].date is None,
    r"age from the file's mtime": lambda oracle, row, _: (
        oracle.pool.candidates[row.chunk_id].date_kind == "mtime"
    ),
    r"its file is the (\d+)(?:st|nd|rd|th); only lines of the first (\d+) files are sent": lambda oracle, row, found: (  # noqa: E501
        int(found[2]) == oracle.knobs.max_results < int(found[1]) == _file_number(oracle, row)
    ),
    r"its best line \((\d+)\) has the line score ([\d.]+); "
    r"the highest is ([\d.]+), and lines under a third of it are not sent": lambda _, row, found: (
        row.start_line <= int(found[1]) <= row.end_line
        and float(found[2]) <= float(found[3]) * WEAK_SHARE + 0.005
    ),
    r"its best line \((\d+)\) does not fit: better ones fill ([\d,]+) characters": lambda oracle, row, found: (  # noqa: E501
        row.start_line <= int(found[1]) <= row.end_line
        and sum(map(len, oracle.texts[row.chunk_id].split("\n")))
        + sum(len(result.snippet) for result in oracle.trace.results)
        >= oracle.knobs.budget - 20
    ),
}


def check(oracle: Oracle, row: Row, sentence: str) -> None:
    for pattern, is_true in SENTENCES.items():
        if found := re.fullmatch(pattern, sentence):
            assert is_true(oracle, row, found), f"{row.location}: {sentence}"
            return
    first, semicolon, rest = sentence.partition("; ")
    assert semicolon, f"a sentence that nothing here checks: {sentence}"
    check(oracle, row, first)
    check(oracle, row, rest)


@st.composite
def knob_settings(draw: st.DrawFn) -> Knobs:
    """A profile with any of the knobs that give reasons."""
    base = draw(st.sampled_from([DOCUMENTED, DOCUMENTED, OPENCLAW_2026_2, WORKBENCH]))
    return base.set(
        {
            "mode": draw(st.sampled_from(["hybrid", "hybrid", "hybrid", "bm25", "vector"])),
            "fusion": draw(st.sampled_from(["weighted", "weighted", "rrf"])),
            "lexical_form": draw(st.sampled_from(["or", "or", "and"])),
            "decay": draw(st.booleans()),
            "mmr": draw(st.booleans()),
            "mmr_lambda": draw(st.sampled_from([0.3, 0.7])),
            "min_score": draw(st.sampled_from([0.0, 0.35, 0.6, 0.95])),
            "keyword_rescue": draw(st.sampled_from(["when-empty", "fill", "off"])),
            "max_results": draw(st.sampled_from([3, 6, 50])),
            "candidate_multiplier": draw(st.sampled_from([1, 4])),
        }
    )


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    st.lists(st.sampled_from([*WORDS[:5], *WORDS]), min_size=1, max_size=4, unique=True),
    knob_settings(),
    st.sampled_from([True, True, False]),
)
def test_no_reason_in_any_trace_is_false(
    memory: Memory, words: list[str], knobs: Knobs, compare: bool
) -> None:
    pool = memory.retrieve(" ".join(words), knobs, compare=compare)
    oracle = Oracle(memory, pool, knobs)
    for row in oracle.trace.rows:
        for operand in row.operands:
            if operand.note:
                check(oracle, row, operand.note)
        if row.outcome.reason:
            check(oracle, row, row.outcome.reason)
    for stage in oracle.trace.of_kind("list"):
        total = oracle.total["vectors" if stage.name == "vector" else "keyword matches"]
        fetched = min(total, OVERFETCH)
        assert (stage.entered, stage.constants["matched"]) == (total, total)
        assert stage.constants["fetched"] == fetched
        assert stage.left == min(fetched, knobs.candidates)
        said = f"fetched {fetched} of {total} matched" in stage_formula(stage, oracle.trace)
        assert said == (fetched < total)


def test_a_keyword_match_beyond_the_fetched_rows_has_its_true_rank(memory: Memory) -> None:
    """The words are in most notes, so most of what vectors find is a keyword match that was not fetched."""
    pool = memory.retrieve("pump valve", DOCUMENTED, compare=True)
    found = pool.first("lexical")
    assert found is not None and found.matched is not None and found.matched > len(found.rows) == OVERFETCH
    trace = rank(pool, DOCUMENTED.set({"max_results": 200}))
    notes = [operand.note for row in trace.rows for operand in row.operands if operand.label == "text"]
    beyond = [note for note in notes if re.fullmatch(rf"rank \d+ of {found.matched} keyword matches", note)]
    assert beyond and not any("no word" in note for note in notes)


def test_all_scores_are_read_for_an_explanation_only(memory: Memory) -> None:
    """A search that shows no operands ranks the same without the exact ranks beyond its lists."""
    pools = [memory.retrieve("pump valve", DOCUMENTED, compare=compare) for compare in (True, False)]
    explained, plain = (rank(pool, DOCUMENTED) for pool in pools)
    assert [row.chunk_id for row in explained.rows] == [row.chunk_id for row in plain.rows]
    for lists in zip(*(pool.lists for pool in pools), strict=True):
        with_ranks, without = (found.ranks_beyond() for found in lists)
        assert with_ranks and not isinstance(with_ranks, str) and without == ""
        assert lists[0].matches_beyond == lists[1].matches_beyond
    assert lists[0].matches_beyond == with_ranks.keys()  # of words: tells weak results


def test_ties_at_the_limit_are_settled_by_id(memory: Memory) -> None:
    """Else the first 200 would not be the first 200 of all matches."""
    from openclaw_mem_engine.stores.query import build_query

    query = build_query("pump", "or", "stemmed")
    assert query is not None
    store = backend_of(memory).store
    everything = store.lexical(query, 10_000).rows
    for limit in (0, 1, 2, 50, 199, 200, 300):
        assert store.lexical(query, limit).rows == everything[:limit]


NONSENSE = ("quantum chromodynamics gluon", "zxqv blorp wug", "shakespeare sonnet eighteen")


@pytest.mark.parametrize("query", NONSENSE)
def test_results_without_a_word_and_below_the_floor_are_weak(memory: Memory, query: str) -> None:
    answer = memory.search(query, WORKBENCH)
    assert answer.hits and all(hit.weak for hit in answer.hits)
    assert not answer.found_something
    note = next(note for note in answer.trace.notes if note.code == "weak")
    oracle = Oracle(memory, answer.pool, WORKBENCH, words=False)
    returned = [row.chunk_id for row in answer.trace.returned]
    best = max(oracle.best_cosine(memory, chunk_id) for chunk_id in returned)
    assert best < 0.32
    said = f"no keyword match, best cosine of a chunk or line {best:.3f}, below 0.32."
    assert note.text == f"All results are weak: {said}"
    assert all(result["weak"] for result in answer.to_dict()["results"])
    assert all(row["weak"] for row in answer.trace.to_dict()["rows"] if row["outcome"]["kind"] == "returned")  # type: ignore[attr-defined]


def test_a_result_with_a_word_or_a_near_vector_is_not_weak(memory: Memory) -> None:
    for query in ("valve quantum chromodynamics", "watering flowers in the garden"):
        answer = memory.search(query, WORKBENCH)
        assert answer.found_something
        assert "weak" not in {note.code for note in answer.trace.notes}
        assert "weak" not in answer.to_dict()["results"][0]


def test_words_of_the_file_name_alone_are_named(memory: Memory) -> None:
    answer = memory.search("valve snow garden", OPENCLAW_2026_2.set({"max_results": 200}))
    row = next(row for row in answer.trace.rows if row.path == "memory/garden-valve.md")
    note = next(operand.note for operand in row.operands if operand.label == "text")
    assert note == (
        "no match: the text lacks valve, garden; "
        "the file name, which this profile does not search, contains: valve, garden"
    )


def test_a_note_found_by_its_path_alone_is_a_result_and_says_so(memory: Memory) -> None:
    """No line of it holds a word of the query; profiles that do not search paths have no keyword match."""
    answer = memory.search("valve garden", WORKBENCH.set({"mode": "bm25", "max_results": 200}))
    row = next(row for row in answer.trace.rows if row.path == "memory/garden-valve.md")
    assert [operand.note for operand in row.operands] == ["matches only with words of its path"]
    others = [o.note for r in answer.trace.rows if "valve" not in r.path for o in r.operands]
    assert others and not any(others)
    steps = " ".join(step.text for step in memory.why_not("valve garden", row.path, knobs=WORKBENCH).steps)
    assert ": its path matches “valve”, “garden”" in steps and "it matches" not in steps
    unsearched = memory.search("valve garden", WORKBENCH.set({"mode": "bm25", "name_weight": 0}))
    assert all(r.path != row.path for r in unsearched.trace.rows if "bm25" in r.ranks)
