"""Full-text search over real tables: scripts without spaces, accents, stems, ids, and hostile queries."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.stores.query import bigrams, build_keyword_query, build_query, segment
from openclaw_mem_engine.stores.scoring import Stemmer, token_lines
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from openclaw_mem_engine.stores.tokens import tokens_of as index_tokens_of
from support.stores import found, new_store, provide_all

NOTES = {
    "memory/ja.md": ["東京都の温室センサーを確認した。", "ジョン・スミスさんへメール", "ガラスの温室"],
    "memory/zh.md": ["温室数据库方案会议记录", "深圳的天气很热"],
    "memory/ko.md": ["온실데이터베이스를 점검했다", "회의 기록"],
    "memory/fr.md": ["crème brûlée à la pistache", "cre\u0300me anglaise", "Việt Nam"],
    "memory/en.md": ["The pumps were running all night", "E_VALVE_TIMEOUT code 7712", "backup_greenhouse.sh"],
    "memory/code.md": ['title:"x" AND NOT y* NEAR(a b)', "-- DROP TABLE chunks; '"],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteIndex]:
    index = new_store(tmp_path_factory.mktemp("words") / "main.sqlite", NOTES)
    yield index
    index.close()


@pytest.mark.parametrize("form", ["or", "and"])
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("京", {"東京都の温室センサーを確認した。"}),
        ("都", {"東京都の温室センサーを確認した。"}),
        ("た", {"東京都の温室センサーを確認した。"}),
        ("東京", {"東京都の温室センサーを確認した。"}),
        ("センサー", {"東京都の温室センサーを確認した。"}),
        ("温室", {"東京都の温室センサーを確認した。", "ガラスの温室", "温室数据库方案会议记录"}),
        ("スミス", {"ジョン・スミスさんへメール"}),
        ("ジョン・スミス", {"ジョン・スミスさんへメール"}),
        ("录", {"温室数据库方案会议记录"}),
        ("数据", {"温室数据库方案会议记录"}),
        ("数据库", {"温室数据库方案会议记录"}),
        ("深圳", {"深圳的天气很热"}),
        ("온", {"온실데이터베이스를 점검했다"}),
        ("온실", {"온실데이터베이스를 점검했다"}),
        ("데이터베이스", {"온실데이터베이스를 점검했다"}),
        ("기록", {"회의 기록"}),
        ("ガラス", {"ガラスの温室"}),
        ("カ\u3099ラス", {"ガラスの温室"}),
        ("\u110b\u1169\u11ab\u1109\u1175\u11af", {"온실데이터베이스를 점검했다"}),
    ],
)
def test_parts_of_words_in_scripts_without_spaces(
    store: SqliteIndex, form: str, query: str, wanted: set[str]
) -> None:
    texts = found(store, query, form)
    # Alternatives share bigrams with more texts; all of the words must give exactly these.
    assert texts == wanted if form == "and" else texts >= wanted


def test_a_word_of_several_bigrams_needs_them_side_by_side_when_all_words_must_match(
    store: SqliteIndex,
) -> None:
    assert found(store, "室温", "and") == set()
    assert found(store, "都京", "and") == set()


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("creme", {"crème brûlée à la pistache", "cre\u0300me anglaise"}),
        ("crème", {"crème brûlée à la pistache", "cre\u0300me anglaise"}),
        ("cre\u0300me", {"crème brûlée à la pistache", "cre\u0300me anglaise"}),
        ("CRÈME", {"crème brûlée à la pistache", "cre\u0300me anglaise"}),
        ("viet", {"Việt Nam"}),
        ("Vie\u0323\u0302t", {"Việt Nam"}),
        ("pump", {"The pumps were running all night"}),
        ("runs", {"The pumps were running all night"}),
        ("E_VALVE_TIMEOUT", {"E_VALVE_TIMEOUT code 7712"}),
        ("e_valve_timeout", {"E_VALVE_TIMEOUT code 7712"}),
        ("valve", {"E_VALVE_TIMEOUT code 7712"}),
        ("7712", {"E_VALVE_TIMEOUT code 7712"}),
        ("backup_greenhouse", {"backup_greenhouse.sh"}),
        ("timeout_valve", set()),
    ],
)
def test_accents_stems_and_identifiers(store: SqliteIndex, query: str, wanted: set[str]) -> None:
    assert found(store, query) == wanted
    assert found(store, query, "and") == wanted


def test_the_plain_index_neither_stems_nor_cuts(store: SqliteIndex) -> None:
    assert found(store, "pump", index="plain") == set()
    assert found(store, "pumps", index="plain") == {"The pumps were running all night"}
    assert found(store, "温室", index="plain") == set()
    assert found(store, "creme", index="plain") >= {"crème brûlée à la pistache"}


def test_stop_words_are_left_out_unless_nothing_else_is_there(store: SqliteIndex) -> None:
    query = build_query("what was the pump", "or", "stemmed")
    assert query is not None
    assert query.words == ("pump",)
    assert found(store, "were the") == {"The pumps were running all night"}
    kept = build_query("what was the pump", "and", "stemmed")
    assert kept is not None
    assert kept.words == ("what", "was", "the", "pump")


def test_without_a_word_there_is_no_query() -> None:
    for text in ("", "  ", "?!", '"*"', "\u0301", "\ud800", "\0"):
        assert build_query(text, "or", "stemmed") is None
        assert build_query(text, "and", "plain") is None
        assert build_keyword_query(text) is None


@settings(max_examples=150, deadline=None)
@given(
    st.text() | st.text(st.sampled_from("\"'*:^(){}[]-+ ANDORNTEa温室ガ가・\u3099_\0\ud800²"), max_size=20)
)
@example('") OR 1')
@example('NEAR("a" "b", 5)')
@example("text: NOT * ^a")
@example("・")
@example("\u3099")
def test_no_text_of_a_user_breaks_a_query(text: str) -> None:
    store = _shared_store()
    for form in ("or", "and"):
        for index in ("stemmed", "plain"):
            query = build_query(text, form, index)
            if query is not None:
                hits = store.lexical(query, 5)
                assert [h.raw for h in hits] == sorted((h.raw for h in hits), reverse=True)
                known = store.lexical_scores(query, [hit.chunk_id for hit in hits])
                assert known == pytest.approx(dict(hits), abs=1e-9)
                lines = store.line_scores(query, {"x": "温室 pump crème\n\n"}, ["x"])
                assert len(lines["x"]) == 3 and min(lines["x"]) >= 0
    keywords = build_keyword_query(text)
    if keywords is not None:
        store.lexical(keywords, 5)


_STORES: list[SqliteIndex] = []


def _shared_store() -> SqliteIndex:
    if not _STORES:
        import atexit
        import tempfile

        folder = tempfile.TemporaryDirectory()
        _STORES.append(new_store(Path(folder.name) / "main.sqlite", NOTES))
        provide_all(_STORES[0])
        atexit.register(folder.cleanup)
        atexit.register(_STORES[0].close)
    return _STORES[0]


def test_operators_are_words_like_others(store: SqliteIndex) -> None:
    # "and" and "not" are stop words, NEAR is a word that one note holds.
    assert found(store, "NEAR") == {'title:"x" AND NOT y* NEAR(a b)'}
    assert found(store, "drop table chunks") == {"-- DROP TABLE chunks; '"}
    assert found(store, "pum*") == set()


@given(st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x4FFF), min_size=1, max_size=12))
def test_every_part_of_a_run_is_among_its_bigrams(run: str) -> None:
    stored = segment(run).split()
    assert stored == [*bigrams(run), run[-1]]
    assert all(any(token.startswith(char) for token in stored) for char in run)


def test_text_of_other_scripts_is_stored_as_it_is() -> None:
    assert segment("plain ascii, kept") == "plain ascii, kept"
    assert segment("naïve Ελλάδα") == "naïve Ελλάδα"
    assert segment("用SQLite保存").split() == ["用", "用", "SQLite", "保存", "存"]


def test_the_best_line_beats_a_longer_one_and_a_phrase_needs_its_order(store: SqliteIndex) -> None:
    query = build_query("E_VALVE_TIMEOUT pump", "or", "stemmed")
    assert query is not None
    scores = store.line_scores(
        query,
        {
            "line": "nothing\nE_VALVE_TIMEOUT pump\nnothing else",
            "spread": "E_VALVE_TIMEOUT " + "word " * 30 + "\npump " + "word " * 30,
            "turned": "TIMEOUT_VALVE_E",
            "none": "温室",
        },
        ["line", "spread"],
    )
    assert scores["line"][0] == scores["line"][2] == 0
    assert scores["line"][1] > max(scores["spread"]) > 0
    assert scores["turned"] == scores["none"] == (0,)


def test_a_word_in_every_chunk_still_scores(tmp_path: Path) -> None:
    with_word = {f"memory/{n}.md": ["pump"] for n in range(40)}
    index = new_store(tmp_path / "i.sqlite", with_word)
    query = build_query("pump", "or", "stemmed")
    assert query is not None
    scores = index.line_scores(query, {"many": "pump\n" * 100, "one": "other"}, ["many"])
    assert scores["many"][0] == scores["many"][99] > scores["one"][0] == 0
    index.close()


def test_the_score_of_a_line_depends_on_the_basis_alone(store: SqliteIndex) -> None:
    query = build_query("pump", "or", "stemmed")
    assert query is not None
    texts = {"a": "the pump\nis old", "b": "word " * 40}
    alone = store.line_scores(query, {"a": texts["a"]}, ["a"])
    assert store.line_scores(query, texts, ["a"])["a"] == alone["a"]
    assert store.line_scores(query, texts, ["a", "b"])["a"] != alone["a"]


def test_where_terms_occur_is_counted_once_a_text() -> None:
    tokenised: list[str] = []

    def tokens_of(text: str) -> list[str]:
        tokenised.append(text)
        return text.split()

    stemmer, terms = Stemmer(tokens_of), [("a", "a"), ("b",)]
    texts = {"x": "a a a b\n\nab", "y": "b"}
    first = stemmer.where(terms, {"x": texts["x"]})
    assert first["x"] == (3, 2, 5, ((0, 4, 0, 2), (0, 4, 1, 1)))
    known, both = first["x"], stemmer.where([*terms], texts)
    assert both["x"] is known and both["y"] == (1, 1, 1, ((0, 1, 1, 1),))
    assert stemmer.where([("ab",)], texts)["x"].found == ((2, 1, 0, 1),)
    assert stemmer.where(terms, texts) == both
    assert [text.split() for text in tokenised] == [["a", "a", "a", "b", "\ue000", "\ue000", "ab"], ["b"]]


def test_the_lines_of_many_texts_are_told_apart_whatever_they_hold() -> None:
    """Tokens of every line are those of the line alone, also beside the mark that ends lines."""
    tokens_of = partial(index_tokens_of, "stemmed")
    texts = [
        "Pumps\n\n- old: \ue000 pump\ue000s",
        "",
        "\n温室 温室のポンプ\n",
        "\ue000\n\ue001",
        "a\x00b\u0301 c",
    ]
    found = [token_lines(text, tokens_of) for text in texts]
    for text, lines in zip(texts, found, strict=True):
        alone = [tokens_of(segment(line)) for line in text.split("\n")]
        for at, tokens in enumerate(alone):
            for token in tokens:
                where = lines.where([(token,)])
                assert (where.lines, where.filled) == (len(alone), sum(map(bool, alone)))
                assert where.total == sum(map(len, alone))
                assert (at, len(tokens), 0, tokens.count(token)) in where.found


def test_scores_of_chosen_chunks_are_those_of_the_search(store: SqliteIndex) -> None:
    query = build_query("温室 pump", "or", "stemmed")
    assert query is not None
    hits = dict(store.lexical(query, 50))
    assert len(hits) == 4
    assert store.lexical_scores(query, [*hits, "unknown"]) == pytest.approx(hits, abs=1e-12)
    assert store.lexical_scores(query, []) == {}
