"""Every kind of damage to the index file: found, and told with its repair."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from openclaw_mem_engine.commands import FIX, INDEX
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.doctor import CHECKS, examine, fix
from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.providers.factory import ProviderSet
from openclaw_mem_engine.stores.findings import Outcome
from openclaw_mem_engine.stores.sqlite.snapshot import check_version
from openclaw_mem_engine.sync.lock import SyncBusy, SyncLock
from support.damage import alter, codes, indexed, looked, named, raw, sync, type_in, zero
from support.stores import content


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return indexed(tmp_path)


def test_a_whole_index_has_no_findings(settings: Settings) -> None:
    for deep in (False, True):
        report = looked(settings, deep=deep)
        assert report.findings == ()
        assert all(check.ok for check in report.checks)
    assert len(report.checks) == 24
    assert [check.name for check in report.checks] == [name for name in CHECKS if name != "qmd"]
    names = {path.name for path in settings.index_path.parent.iterdir()}
    assert names <= {"main.sqlite", "main.sqlite.lock"}, "looking leaves nothing behind"


def test_an_index_that_was_edited_often_has_no_findings(settings: Settings) -> None:
    for turn in range(5):
        (settings.workspace / "memory/long.md").write_text(
            "\n".join(f"Turn {turn} line {n}" for n in range(90))
        )
        (settings.workspace / "memory/network.md").unlink(missing_ok=True)
        sync(settings)
    sync(settings, force=True)
    (settings.workspace / "memory/2026-02-20.md").write_text("The pump is new.\n")
    sync(settings)
    assert looked(settings, deep=True).findings == ()


def test_no_index_is_no_error_and_none_is_made(settings: Settings) -> None:
    elsewhere = replace(settings, index_path=settings.index_path.with_name("other.sqlite"))
    report = looked(elsewhere)
    assert codes(report) == {"not-there"} and report.errors == 0
    assert not elsewhere.index_path.exists()


# -- damage that the notes repair --------------------------------------------------------------------


def overwrite_pages(settings: Settings) -> None:
    with settings.index_path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        for place in range(4096 * 8, size - 4096, 4096 * 3):
            file.seek(place + 100)
            file.write(b"\xa5" * 1500)


def not_a_database(settings: Settings) -> None:
    settings.index_path.write_bytes(b"these are no pages at all" * 400)


def cut_off(settings: Settings) -> None:
    with settings.index_path.open("r+b") as file:
        file.truncate(4096 * 5)


#: Tables and indexes a page of which the integrity check reports, or cannot even get past.
PAGES = (
    "chunks",
    "chunks_fts_data",
    "embedding_cache",
    "line_tokens",
    "unshown",
    "idx_chunks_path",
    "spaces",
)


def statements(*sql: str, bound: tuple[Any, ...] = ()) -> Callable[[Settings], None]:
    return lambda settings: alter(settings, *sql, bound=bound)


def full_text_holes(settings: Settings) -> None:
    """The inner table that holds the words loses what it has."""
    alter(settings, "DELETE FROM chunks_fts_data WHERE id > 10")


def two_of_one_id(settings: Settings) -> None:
    with raw(settings) as connection:
        ((sql,),) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'chunks'")
        connection.execute("ALTER TABLE chunks RENAME TO old_chunks")
        connection.execute(sql.replace(" UNIQUE", ""))
        connection.execute("INSERT INTO chunks SELECT * FROM old_chunks")
        connection.execute(
            """INSERT INTO chunks SELECT max(seq) + 1, id, path, source, start_line, end_line, hash, text,
            shared FROM old_chunks"""
        )
        connection.execute("DROP TABLE old_chunks")


NEEDS_REBUILD: dict[str, tuple[str, Callable[[Settings], None]]] = {
    "overwritten pages": ("damaged", overwrite_pages),
    "another file": ("damaged", not_a_database),
    "a file cut off": ("damaged", cut_off),
    "a full-text table with holes": ("damaged", full_text_holes),
    **{f"a page of {name} zeroed": ("damaged", partial(zero, name)) for name in PAGES},
    "no chunks table": ("tables-missing", statements("DROP TABLE chunks")),
    "no fingerprint": ("no-fingerprint", statements("DELETE FROM meta WHERE key = 'fingerprint'")),
    "an unreadable fingerprint": (
        "fingerprint-unreadable",
        statements("UPDATE meta SET value = '{\"model\": 7' WHERE key = 'fingerprint'"),
    ),
    "an altered text": (
        "altered-chunks",
        statements("UPDATE chunks SET text = text || 'x' WHERE path = 'memory/network.md'"),
    ),
    "altered lines": (
        "altered-chunks",
        statements("UPDATE chunks SET end_line = end_line + 1 WHERE seq = 2"),
    ),
    "two chunks of one id": ("duplicate-ids", two_of_one_id),
    "a file without its chunks": (
        "full-text-orphans",
        statements("DELETE FROM chunks WHERE path = 'memory/network.md'"),
    ),
}


@pytest.mark.parametrize("kind", NEEDS_REBUILD)
def test_damage_that_only_a_rebuild_mends(kind: str, settings: Settings) -> None:
    whole = content(settings.index_path)
    code, damage = NEEDS_REBUILD[kind]
    damage(settings)
    report = looked(settings, deep=True)
    assert code in codes(report)
    found = next(finding for finding in report.findings if finding.code == code)
    assert found.severity == "error"
    assert found.repair == (INDEX if code == "no-fingerprint" else FIX)
    assert report.findings[0].severity == "error", "the worst stands first"
    type_in(settings, found.repair)
    sync(settings)
    assert codes(looked(settings, deep=True)) <= {"damaged-aside"}
    assert content(settings.index_path) == whole


@pytest.mark.parametrize("more", ["", ', "dialect": "new"'])
def test_a_newer_schema_is_told_and_left_alone(more: str, settings: Settings) -> None:
    alter(
        settings,
        f"""UPDATE meta SET value = replace(value, '"schema": 5', '"schema": 99{more}')
        WHERE key = 'fingerprint'""",
    )
    before = settings.index_path.read_bytes()
    report = looked(settings)
    found = named(report, "newer-schema")
    assert found.severity == "error" and "99" in found.text and "uv tool install --force" in found.repair
    assert fix(settings, report) == []
    assert settings.index_path.read_bytes() == before


#: Every text has a vector of another model, too.
OTHER_SPACE = (
    "INSERT INTO spaces(provider, model, provider_key) VALUES('openai', 'text-embedding-3-small', 'k')",
    "INSERT INTO embedding_cache(space, hash, embedding, checksum, updated_at) "
    "SELECT (SELECT max(id) FROM spaces), hash, embedding, checksum, updated_at FROM embedding_cache",
)


def test_an_unreadable_fingerprint_does_not_cost_the_embeddings(settings: Settings) -> None:
    """Those may have been paid for: the repair keeps them, though nobody can tell what they were made for."""
    alter(
        settings,
        *OTHER_SPACE,
        "UPDATE meta SET value = '[]' WHERE key = 'fingerprint'",
    )
    entries = looked_up(settings, "SELECT count(*) FROM embedding_cache")
    type_in(settings, named(looked(settings), "fingerprint-unreadable").repair)
    sync(settings)
    assert codes(looked(settings, deep=True)) == {"dead-spaces", "damaged-aside"}
    assert looked_up(settings, "SELECT count(*) FROM embedding_cache") == entries


def looked_up(settings: Settings, sql: str) -> list[tuple[Any, ...]]:
    with raw(settings) as connection:
        return list(connection.execute(sql))


# -- what is no damage, and is told ----------------------------------------------------------------------


def test_another_provider_is_told_as_another_fingerprint(settings: Settings, tmp_path: Path) -> None:
    other = replace(settings, chunking=replace(settings.chunking, tokens=200))
    found = named(looked(other), "other-fingerprint")
    assert found.severity == "warning" and "400 → 200" in found.text
    assert found.repair == "openclaw-mem index"
    sync(other)
    assert looked(other, deep=True).findings == ()


@pytest.mark.parametrize("resident", [False, True])
def test_lost_vectors_are_said_everywhere_and_made_by_the_next_sync(
    settings: Settings, resident: bool
) -> None:
    """They were lost while the memory was open, too."""
    whole = content(settings.index_path)
    with Memory.open(settings, resident=resident) as memory:
        assert memory.freshness().state == "fresh" and memory.notes == ()
        alter(settings, "DELETE FROM embedding_cache WHERE hash = (SELECT hash FROM chunks WHERE seq = 1)")
        found = named(looked(settings), "vectors-awaited")
        assert (found.severity, found.repair) == ("warning", "openclaw-mem index")
        status = memory.status()
        assert status.freshness.state == "partial"
        assert "vectors-awaited" in {note.code for note in status.notes}
        assert "vectors-awaited" in {note.code for note in memory.search("router").trace.notes}
        assert memory.sync().embedded == 1
        assert memory.freshness().state == "fresh" and memory.notes == ()
    assert looked(settings).findings == ()
    assert content(settings.index_path) == whole


def test_an_index_without_its_build_settings_is_rebuilt_by_the_next_sync(settings: Settings) -> None:
    whole = content(settings.index_path)
    alter(settings, "DELETE FROM meta WHERE key = 'fingerprint'")
    assert named(looked(settings), "no-fingerprint").repair == "openclaw-mem index"
    with Memory.open(settings) as memory:
        assert memory.freshness().state == "stale"
        assert memory.sync().rebuilt and memory.notes == ()
    assert looked(settings).findings == ()
    assert content(settings.index_path) == whole


def test_an_index_whose_first_sync_was_killed_is_told(settings: Settings) -> None:
    alter(settings, "DELETE FROM meta WHERE key = 'synced_at'")
    type_in(settings, named(looked(settings), "never-synced").repair)
    assert looked(settings).findings == ()


def test_vectors_of_models_that_are_gone_are_a_remark(settings: Settings) -> None:
    alter(
        settings,
        *OTHER_SPACE,
    )
    found = named(looked(settings), "dead-spaces")
    assert found.severity == "info" and found.evidence[0].startswith("openai text-embedding-3-small")
    assert found.repair == "" and "Pruning removes 0 whose text is deleted" in found.text, (
        "pruning would spare them all"
    )
    alter(
        settings,
        "UPDATE embedding_cache SET hash = CAST(x'00' || substr(hash, 2) AS BLOB) WHERE space = 2",
    )
    type_in(settings, named(looked(settings), "dead-spaces").repair)
    assert looked(settings, deep=True).findings == ()


def test_an_index_without_vectors_by_choice_has_no_findings(tmp_path: Path) -> None:
    settings = indexed(tmp_path, provider="none")
    assert looked(settings, deep=True).findings == ()


def test_an_old_sqlite_is_told() -> None:
    out = Outcome()
    check_version(out, (3, 51, 2))
    assert [finding.code for finding in out.findings] == ["sqlite-old"]
    out = Outcome()
    check_version(out)
    assert not out.findings and out.detail.startswith(f"SQLite {apsw.sqlite_lib_version()}")


def test_an_index_with_damaged_pages_is_set_aside_as_it_is(settings: Settings) -> None:
    alter(settings, "UPDATE meta SET value = 'x' WHERE key = 'generation'")
    zero("chunks_fts_data", settings)
    before = settings.index_path.read_bytes()
    report = looked(settings)
    assert codes(report) == {"damaged"}, "what else such an index says of itself is not asked"
    (done,) = fix(settings, report)
    entries = looked_up(settings, "SELECT count(*) FROM embedding_cache")[0][0]
    assert f"a new index replaces the damaged one. The new one took {entries} embeddings from it." in done
    assert f"is kept as {settings.index_path}.damaged; you can delete it." in done
    assert settings.index_path.with_name("main.sqlite.damaged").read_bytes() == before
    with Memory.open(settings) as memory:
        assert memory.sync().embedded == 0 < entries


# -- how it is done --------------------------------------------------------------------------------------


def test_nothing_is_mended_while_another_process_writes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_mem_engine.doctor.LOCK_WAIT_S", 0.1)
    alter(settings, "DELETE FROM chunks_fts WHERE rowid = 1")
    report = looked(settings)
    with SyncLock(settings.index_path, "indexing").holding(), pytest.raises(SyncBusy):
        fix(settings, report)
    assert "full-text-missing" in codes(looked(settings))


def test_looking_can_be_stopped(settings: Settings) -> None:
    class Asked:
        def __init__(self, after: int) -> None:
            self.left = after

        def is_set(self) -> bool:
            self.left -= 1
            return self.left < 0

    lineup = ProviderSet(settings)
    before = content(settings.index_path)
    try:
        for after in (0, 3, 7, 15):
            with pytest.raises(Cancelled):
                examine(settings, lineup.embedders, deep=True, cancel=Asked(after))
    finally:
        lineup.close()
    assert content(settings.index_path) == before


def test_evidence_cannot_act_on_a_terminal(tmp_path: Path) -> None:
    settings = indexed(tmp_path, {"memory/a\x1b[31m.md": "One line.\n"})
    alter(settings, "DELETE FROM chunks_fts")
    found = named(looked(settings), "full-text-missing")
    assert found.evidence == ("memory/a^[[31m.md:1-2", "table chunks_fts")


def test_every_finding_and_check_is_plain_data(settings: Settings) -> None:
    import json

    alter(settings, "DELETE FROM chunks_fts")
    data = json.loads(json.dumps(looked(settings).to_dict()))
    assert data["errors"] == 1 and data["findings"][0]["code"] == "full-text-missing"
    assert set(data["findings"][0]) == {"code", "severity", "text", "evidence", "repair", "fixable"}
    assert {check["name"] for check in data["checks"]} > {"integrity", "cache", "files"}
