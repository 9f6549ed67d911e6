"""What is saved of a damaged index: embeddings up to the first damage, and nothing that is none."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from zlib import crc32

import apsw
import numpy as np
import pytest

from openclaw_mem_engine.model import Space, text_hash
from openclaw_mem_engine.stores.sqlite.files import set_aside
from openclaw_mem_engine.stores.sqlite.repair import readable_embeddings, save_embeddings
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from support.stores import FINGERPRINT, Vector, unit

OTHER = Space("openai", "m", "key")
PAGE = 16_384


def filled(path: Path, number: int, dims: int = 384) -> dict[str, Vector]:
    """An index that holds so many embeddings in two spaces; those of the first one, by hash."""
    rng = np.random.default_rng(7)
    vectors = {text_hash(f"text {n}"): unit(rng.standard_normal(dims)) for n in range(number)}
    with closing(SqliteIndex(path)) as store:
        store.begin(FINGERPRINT)
        store.cache_vectors(vectors, FINGERPRINT.space)
        store.cache_vectors({text_hash("refused"): None, text_hash("taken"): unit([1.0, 1.0])}, OTHER)
    return vectors


def damage(path: Path, pages: list[int], rng: random.Random) -> None:
    """Pages, counted from 1, of which nothing is left."""
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(rng.randbytes(PAGE))


def pages_of(path: Path, kind: str = "%") -> list[int]:
    """Pages of the cache in the order of its rows, the root first. A ``leaf`` holds rows."""
    sql = "SELECT pageno FROM dbstat WHERE name = 'embedding_cache' AND pagetype LIKE ?"
    with closing(apsw.Connection(str(path))) as connection:
        return [row[0] for row in connection.execute(sql, (kind,))]


def saved_from(path: Path, vectors: dict[str, Vector]) -> int:
    """Set the index aside, save what there is into a new one; how much, after a look at each vector."""
    with_rest = save_embeddings(set_aside(path), path)
    with closing(SqliteIndex(path)) as store:
        found = store.cached_vectors(vectors, FINGERPRINT.space)
        for key, vector in found.items():
            assert vector is not None and np.array_equal(vector, vectors[key]), "as it was, bit by bit"
        assert store.counts().cached == with_rest
        assert store.fingerprint() is None, "the sync that follows begins it"
    return len(found)


def test_of_a_whole_index_everything_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    vectors = filled(path, 2500)
    assert saved_from(path, vectors) == 2500
    with closing(SqliteIndex(path)) as store:
        found = store.cached_vectors([text_hash("refused"), text_hash("taken")], OTHER)
        assert found[text_hash("refused")] is None, "a text that has none is not sent again"
        assert np.allclose(found[text_hash("taken")], unit([1.0, 1.0]))  # type: ignore[arg-type]


@pytest.mark.parametrize("dims", [8, 384, 1536])
def test_what_comes_before_the_first_damaged_page_is_saved(tmp_path: Path, dims: int) -> None:
    path = tmp_path / "main.sqlite"
    vectors = filled(path, 3000, dims)
    leaves = pages_of(path, "leaf")
    damage(path, [leaves[len(leaves) // 2], leaves[-1]], random.Random(1))
    assert saved_from(path, vectors) == pytest.approx(1500, abs=2 * 3000 / len(leaves))


@pytest.mark.parametrize("how", ["root", "first page", "header", "no database", "empty", "cut", "no file"])
def test_where_nothing_can_be_read_nothing_is_saved(tmp_path: Path, how: str) -> None:
    path = tmp_path / "main.sqlite"
    vectors = filled(path, 50)
    if how in ("root", "first page"):
        page = 1 if how == "first page" else pages_of(path)[0]
        damage(path, [page], random.Random(1))
    elif how == "no file":
        path.unlink()
    else:
        whole = path.read_bytes()
        left = {"no database": b"this is none " * 900, "empty": b"", "cut": whole[:5000]}
        path.write_bytes((left | {"header": bytes(100) + whole[100:]})[how])
    assert saved_from(path, vectors) == 0


def test_what_is_no_embedding_is_left_out(tmp_path: Path) -> None:
    """Bytes that changed where SQLite does not notice, and rows that we never wrote."""
    path = tmp_path / "main.sqlite"
    filled(path, 20)
    key = bytes.fromhex(text_hash("x"))
    vector = unit([3.0, 4.0]).tobytes()
    nan = np.array([np.nan, 1.0], dtype=np.float32).tobytes()
    wrong = [
        (1, key, vector, crc32(key + vector) ^ 1),
        (1, key, None, crc32(key) ^ 1),
        *((1, key, blob, crc32(key + blob)) for blob in (vector[:-1], nan, bytes(8), b"")),
        (1, key, "text", crc32(key + b"text")),
        (1, key[:-1], vector, crc32(key[:-1] + vector)),
        (1, key.hex(), vector, crc32(key + vector)),
        (99, key, vector, crc32(key + vector)),
    ]
    connection = sqlite3.connect(path)
    for row in wrong:
        connection.execute("DELETE FROM embedding_cache WHERE id = 1000")
        connection.execute("INSERT INTO embedding_cache VALUES(1000, ?, ?, ?, ?, 1.0)", row)
        connection.commit()
        new = tmp_path / "new.sqlite"
        assert save_embeddings(path, new) == 22, row
        new.unlink()
    connection.close()


def test_what_was_set_aside_stays_as_it_was(tmp_path: Path) -> None:
    """And what is still in its log is read."""
    path, copy = tmp_path / "main.sqlite", tmp_path / "copy.sqlite"
    with closing(SqliteIndex(path)) as store:
        store.begin(FINGERPRINT)
        store.cache_vectors({text_hash("a"): unit([1.0, 2.0])})
        for ending in ("", "-wal"):
            (tmp_path / f"copy.sqlite{ending}").write_bytes((tmp_path / f"main.sqlite{ending}").read_bytes())
    before = copy.read_bytes()
    assert save_embeddings(copy, tmp_path / "new.sqlite") == 1
    assert copy.read_bytes() == before


def test_what_a_repair_saves_is_counted_before_it(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    vectors = filled(path, 400)
    assert readable_embeddings(path) == (402, 402)
    assert readable_embeddings(path, most_s=-1.0) is None, "not known in time"
    assert readable_embeddings(path, of_qmd=True) == (0, None), "they are not taken over"
    damage(path, pages_of(path, "leaf")[-1:], random.Random(3))
    counted = readable_embeddings(path)
    assert counted is not None and 0 < counted[0] < 402
    assert counted[0] == saved_from(path, vectors)
