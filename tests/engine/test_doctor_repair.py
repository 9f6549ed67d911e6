"""Damage of rows of an index: the doctor replaces it by a new one that has its embeddings."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_doctor_index import looked_up, settings, statements

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.doctor import fix
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.sync.report import SyncRequest
from support.damage import alter, codes, indexed, looked, raw, sync
from support.stores import content

__all__ = ["settings"]


def set_vector(settings: Settings, vector: np.ndarray[Any, Any], where: str) -> None:
    alter(settings, f"UPDATE embedding_cache SET embedding = ? WHERE {where}", bound=(vector.tobytes(),))


_LAST = "rowid = (SELECT max(rowid) FROM embedding_cache WHERE embedding IS NOT NULL)"


def nan_in_cache(settings: Settings) -> None:
    set_vector(settings, np.full(256, np.nan, dtype=np.float32), _LAST)


def zeros_in_cache(settings: Settings) -> None:
    set_vector(settings, np.zeros(256, dtype=np.float32), _LAST)


def short_blob(settings: Settings) -> None:
    set_vector(settings, np.ones(11, dtype=np.float32), _LAST)


def other_dims(settings: Settings) -> None:
    vector = np.zeros(16, dtype=np.float32)
    vector[0] = 1
    alter(
        settings,
        f"UPDATE embedding_cache SET embedding = ? WHERE {_LAST}",
        bound=(vector.tobytes(),),
    )


def full_text_lies(settings: Settings) -> None:
    alter(
        settings,
        "DELETE FROM chunks_fts_stemmed WHERE rowid = 1",
        "INSERT INTO chunks_fts_stemmed(rowid, text) VALUES(1, 'nothing of the kind')",
    )


MENDED: dict[str, tuple[str, Callable[[Settings], None]]] = {
    "chunks without full-text rows": (
        "full-text-missing",
        statements("DELETE FROM chunks_fts WHERE rowid < 3"),
    ),
    "chunks without rows with names": (
        "full-text-missing",
        statements("DELETE FROM chunks_fts_named WHERE rowid < 3"),
    ),
    "chunks without stemmed rows": (
        "full-text-missing",
        statements("DELETE FROM chunks_fts_stemmed WHERE rowid < 3"),
    ),
    "full-text rows with other words": ("full-text-lost", full_text_lies),
    "no full-text table": ("full-text-tables", statements("DROP TABLE chunks_fts_stemmed")),
    "a trigger that lets nothing be written": (
        "foreign-schema",
        statements("CREATE TRIGGER t AFTER INSERT ON chunks BEGIN SELECT RAISE(ABORT, 'no'); END"),
    ),
    "an index that lets no two chunks of a file be written": (
        "foreign-schema",
        statements("CREATE UNIQUE INDEX i ON chunks(path, source) WHERE path = 'memory/new.md'"),
    ),
    "NaN in the cache": ("cache-values", nan_in_cache),
    "zeros in the cache": ("cache-values", zeros_in_cache),
    "a vector cut short": ("cache-dims", short_blob),
    "vectors of two lengths": ("cache-dims", other_dims),
    "names that are no text": (
        "cache-names",
        statements("UPDATE spaces SET model = CAST(x'ff41' AS TEXT)"),
    ),
    "one flipped byte in a vector": (
        "cache-bytes",
        statements(
            "UPDATE embedding_cache SET embedding = CAST(x'00' || substr(embedding, 2) AS BLOB) "
            f"WHERE {_LAST}"
        ),
    ),
    "chunks of no file": (
        "chunks-without-file",
        statements("DELETE FROM files WHERE path = 'memory/network.md'"),
    ),
    "a generation that is no number": (
        "generation",
        statements("UPDATE meta SET value = 'many' WHERE key = 'generation'"),
    ),
    "a sync time that is no number": (
        "synced-at",
        statements("UPDATE meta SET value = 'today' WHERE key = 'synced_at'"),
    ),
}


@pytest.mark.parametrize("kind", MENDED)
def test_damage_of_rows_is_mended(kind: str, settings: Settings) -> None:
    whole = content(settings.index_path)
    code, damage = MENDED[kind]
    damage(settings)
    report = looked(settings)
    found = next(finding for finding in report.findings if finding.code == code)
    assert found.severity == "error" and found.fixable
    assert found.repair.startswith("openclaw-mem doctor --fix")
    assert fix(settings, report)
    left = looked(settings)
    assert left.errors == 0, left.findings
    sync(settings)  # which the command does after it
    (aside,) = looked(settings, deep=True).findings
    assert aside.code == "damaged-aside" and aside.text.startswith("1 damaged copy of the index is kept: ")
    assert content(settings.index_path) == whole


def test_a_forced_rebuild_embeds_damaged_vectors_again_and_says_how_many(settings: Settings) -> None:
    """The flipped byte leaves a vector of unit length: only the checksum tells that it is another."""
    whole = content(settings.index_path)
    MENDED["one flipped byte in a vector"][1](settings)
    set_vector(settings, np.full(256, np.nan, dtype=np.float32), "rowid = 1")
    with Memory.open(settings) as memory:
        report = memory.sync(SyncRequest(force=True))
        assert "2 vectors" in next(note.text for note in report.notes if note.code == "cache-damaged")
        assert report.embedded == 2
        again = memory.sync(SyncRequest(force=True))
        assert again.embedded == 0 and "cache-damaged" not in {note.code for note in again.notes}
    assert looked(settings, deep=True).findings == ()
    assert content(settings.index_path) == whole


def test_deep_finds_words_that_a_sample_does_not_miss(settings: Settings) -> None:
    """A row that has its own words and others too: only a comparison of all words can tell."""
    ((text,),) = looked_up(settings, "SELECT text FROM chunks WHERE seq = 1")
    alter(settings, "DELETE FROM chunks_fts WHERE rowid = 1")
    alter(settings, "INSERT INTO chunks_fts(rowid, text) VALUES(1, ?)", bound=(f"{text} and a ghost",))
    assert codes(looked(settings)) == set()
    report = looked(settings, deep=True)
    assert codes(report) == {"full-text-differs"}
    fix(settings, report)
    sync(settings)
    assert codes(looked(settings, deep=True)) == {"damaged-aside"}


def test_deep_finds_rows_with_exchanged_words(tmp_path: Path) -> None:
    """Every word is as often there as it should be: only its place tells."""
    notes = {f"memory/n{n:03}.md": f"note number alpha{n} beta{n} gamma{n}\n" for n in range(300)}
    settings = indexed(tmp_path, notes, provider="none")
    with raw(settings) as connection:
        texts = dict(connection.execute("SELECT seq, text FROM chunks ORDER BY seq"))
        seqs = list(texts)
        sample = {seqs[i * len(seqs) // 200] for i in range(200)}
        one, other = [seq for seq in seqs if seq not in sample][:2]
        for table in ("chunks_fts", "chunks_fts_stemmed"):
            for seq, text in ((one, texts[other]), (other, texts[one])):
                connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (seq,))
                connection.execute(f"INSERT INTO {table}(rowid, text) VALUES(?, ?)", (seq, text))
    assert codes(looked(settings)) == set(), "those that are looked up are none of the two"
    report = looked(settings, deep=True)
    assert codes(report) == {"full-text-differs"}
    (detail,) = [check.detail for check in report.checks if check.name == "BM25 index"]
    assert detail.endswith("every word and its position compared in plain, stemmed and named")


def test_only_what_was_compared_is_told_as_compared(settings: Settings) -> None:
    alter(settings, "DELETE FROM chunks_fts WHERE rowid = 1")
    report = looked(settings, deep=True)
    (detail,) = [check.detail for check in report.checks if check.name == "BM25 index"]
    assert detail.endswith("every word and its position compared in stemmed and named")


def test_no_random_damage_is_overlooked_or_stops_the_doctor(settings: Settings) -> None:
    """Whatever bytes change: either something is found, or every row is still what it was."""
    whole, good = content(settings.index_path), settings.index_path.read_bytes()
    found = 0
    for seed in range(40):
        chance, data = random.Random(seed), bytearray(good)
        for _ in range(chance.choice((1, 3, 20))):
            at, length = chance.randrange(len(data)), chance.choice((1, 8, 200))
            data[at : at + length] = chance.randbytes(length)
        for path in settings.index_path.parent.iterdir():
            path.unlink()
        settings.index_path.write_bytes(data[: len(good)])
        settings.index_path.chmod(0o600)
        if looked(settings, deep=True).findings:
            found += 1
        else:
            assert content(settings.index_path) == whole, seed
    assert found > 5
