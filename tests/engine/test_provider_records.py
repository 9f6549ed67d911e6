"""The records of providers: what is counted and kept, and what a damaged or foreign file does."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import apsw
import pytest

from openclaw_mem_engine.providers.base import Usage
from openclaw_mem_engine.providers.records import (
    KEEP_DAYS,
    KEEP_JOBS_DAYS,
    SCHEMA,
    DayUsage,
    Health,
    ProviderRecords,
    StoredJob,
    key_tag,
)
from support.providers import Clock

ENGINE = Path(__file__).parents[2] / "engine"
NOON = datetime(2026, 3, 10, 12, 0).timestamp()
DAY_S = 86_400.0
KEY = "k" * 64
USED = Usage("openai", "text-embedding-3-small", requests=1, texts=10, tokens=500)
SICK = Health(NOON, "openai embeddings failed: 503", 2, NOON + 10, NOON - 60, 12.5, "0badcafe")
JOB = StoredJob("batch_1", KEY, "openai", "in_progress", NOON, ("a" * 64, "b" * 64))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "providers.sqlite"


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def records(path: Path, clock: Clock) -> Iterator[ProviderRecords]:
    made = ProviderRecords(path, clock)
    yield made
    made.close()


def fill(records: ProviderRecords) -> None:
    records.add_usage(USED)
    records.save_health(KEY, SICK)
    records.save_job(JOB)


def sql(path: Path, text: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(text).fetchall()
    finally:
        connection.close()


# -- what is kept ---------------------------------------------------------------------------------------


def test_reading_makes_no_file(records: ProviderRecords, path: Path) -> None:
    assert records.usage() == []
    assert records.health(KEY) == Health()
    assert records.jobs(KEY) == []
    assert records.note is None
    assert not path.parent.exists()


def test_everything_is_there_for_the_next_run(records: ProviderRecords, path: Path, clock: Clock) -> None:
    fill(records)
    records.close()
    again = ProviderRecords(path, clock)
    assert again.usage() == [
        DayUsage("2026-03-10", "openai", "text-embedding-3-small", 1, 10, 500, estimated=False)
    ]
    assert again.health(KEY) == SICK
    assert again.health("other") == Health()
    assert again.jobs(KEY) == [JOB]
    assert again.jobs("other") == []
    assert again.note is None
    again.close()
    again.close()


def test_it_is_private(records: ProviderRecords, path: Path) -> None:
    old = os.umask(0)
    try:
        fill(records)
    finally:
        os.umask(old)
    files = sorted(path.parent.iterdir())
    assert path in files
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert path.parent.stat().st_mode & 0o077 == 0
    assert sql(path, "PRAGMA journal_mode") == [("wal",)]


def test_a_file_that_others_could_read_becomes_private(records: ProviderRecords, path: Path) -> None:
    fill(records)
    records.close()
    path.chmod(0o644)
    records.usage()
    assert path.stat().st_mode & 0o777 == 0o600


def test_usage_adds_up_by_local_day_and_model(records: ProviderRecords, clock: Clock) -> None:
    records.add_usage(USED)
    records.add_usage(Usage("openai", "text-embedding-3-small", 2, 3, 7, estimated=True))
    records.add_usage(Usage("voyage", "voyage-4", 1, 1, 1))
    clock.now = datetime(2026, 3, 11, 0, 0, 1).timestamp()
    records.add_usage(USED)
    clock.now = datetime(2026, 3, 11, 23, 59, 59).timestamp()
    days = [(day.day, day.provider, day.requests, day.tokens, day.estimated) for day in records.usage()]
    assert days == [
        ("2026-03-11", "openai", 1, 500, False),
        ("2026-03-10", "openai", 3, 507, True),
        ("2026-03-10", "voyage", 1, 1, False),
    ]
    assert [day.day for day in records.usage(days=1)] == ["2026-03-11"]
    assert len(records.usage(days=2)) == 3
    assert len(records.usage(days=10**9)) == 3


def test_what_is_old_is_dropped(records: ProviderRecords, path: Path, clock: Clock) -> None:
    fill(records)
    clock.now += (KEEP_JOBS_DAYS + 1) * DAY_S
    records.add_usage(USED)
    assert records.jobs(KEY) == []
    assert len(records.usage(days=1000)) == 2
    clock.now = NOON + KEEP_DAYS * DAY_S
    records.add_usage(USED)
    assert len(records.usage(days=1000)) == 3, "400 days are kept"
    clock.now += DAY_S
    records.add_usage(USED)
    assert (datetime.fromtimestamp(NOON) + timedelta(days=0)).date().isoformat() not in {
        day.day for day in records.usage(days=1000)
    }
    assert records.health(KEY) == Health()


def test_jobs_are_updated_and_dropped(records: ProviderRecords) -> None:
    later = StoredJob("batch_2", KEY, "openai", "validating", NOON + 5, ())
    records.save_job(later)
    records.save_job(JOB)
    assert [job.id for job in records.jobs(KEY)] == ["batch_1", "batch_2"]
    done = StoredJob("batch_1", KEY, "openai", "completed", NOON, JOB.texts)
    records.save_job(done)
    assert records.jobs(KEY) == [done, later]
    records.drop_job("batch_1")
    records.drop_job("never there")
    assert records.jobs(KEY) == [later]


def test_nonsense_does_no_harm(records: ProviderRecords) -> None:
    for _ in range(3):
        records.add_usage(Usage("a\ud800", "m\0", -5, 2**70, 2**70))
    records.save_health(
        KEY, Health(float("nan"), "x" * 2000 + "\udfff", 2**80, float("inf"), float("-inf"), float("nan"))
    )
    (day,) = records.usage()
    assert (day.provider, day.model, day.requests, day.texts) == ("a\ufffd", "m\0", 0, 3 * 10**12)
    health = records.health(KEY)
    assert (health.failing_since, health.next_retry, health.last_ok) == (None, None, None)
    assert len(health.reason) == 500
    assert records.note is None


def test_a_tag_tells_keys_apart_and_tells_no_key() -> None:
    secret = "sk-plantedplantedplantedplanted1234"
    tag = key_tag(secret)
    assert tag == key_tag(secret, like=tag) and secret not in tag
    assert key_tag(secret) != tag, "two files with the same key have nothing in common"
    tag = key_tag(secret, like="5a" * 16)
    others = [f"{secret}{number}" for number in range(300_000)]
    alike = sum(key_tag(other, like=tag) == tag for other in others)
    assert 0 < alike < 30, "most keys differ, and a guess cannot be checked"
    assert key_tag("") == key_tag("", like=tag) == ""


# -- without a usable file ------------------------------------------------------------------------------


def works_in_memory(records: ProviderRecords) -> None:
    fill(records)
    assert [day.tokens for day in records.usage()] == [500]
    assert records.health(KEY) == SICK
    assert records.jobs(KEY) == [JOB]
    assert records.note is not None
    assert records.note.code == "provider-records"


def test_without_a_path_everything_is_in_memory(clock: Clock) -> None:
    records = ProviderRecords(None, clock)
    works_in_memory(records)
    records.close()
    assert records.usage() == []


def damaged(path: Path) -> str:
    path.parent.mkdir()
    path.write_bytes(b"this is no database " * 500)
    return "Remove it"


def newer(path: Path) -> str:
    path.parent.mkdir()
    sql(path, f"CREATE TABLE usage(other TEXT); PRAGMA user_version = {SCHEMA.version + 1}")
    return "newer version of this program"


def foreign(path: Path) -> str:
    path.parent.mkdir()
    sql(path, "CREATE TABLE recipes(cake TEXT)")
    return "another program"


def without_tables(path: Path) -> str:
    path.parent.mkdir()
    sql(path, f"PRAGMA user_version = {SCHEMA.version}")
    return "is damaged"


def a_folder(path: Path) -> str:
    path.mkdir(parents=True)
    return "cannot be used"


def below_a_file(path: Path) -> str:
    path.parent.write_text("in the way")
    return "OPENCLAW_MEM_HOME"


@pytest.mark.parametrize("trouble", [damaged, newer, foreign, without_tables, a_folder, below_a_file])
@pytest.mark.parametrize("reads_first", [True, False])
def test_an_unusable_file_is_left_alone(path: Path, clock: Clock, trouble: object, reads_first: bool) -> None:
    assert callable(trouble)
    advice = trouble(path)
    content = path.read_bytes() if path.is_file() else None
    records = ProviderRecords(path, clock)
    if reads_first:
        assert records.usage() == []
        assert records.health(KEY) == Health()
    works_in_memory(records)
    assert records.note is not None
    assert records.note.level == "warning"
    assert advice in records.note.text
    assert str(path) in records.note.text
    records.close()
    if content is not None:
        assert path.read_bytes() == content


def test_an_empty_file_is_taken(records: ProviderRecords, path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    assert records.usage() == []
    fill(records)
    assert records.note is None
    assert sql(path, "SELECT count(*) FROM usage") == [(1,)]


def test_every_damaged_byte_is_survived(path: Path, clock: Clock) -> None:
    """Pages overwritten with noise, at every place of the file, never raise."""
    first = ProviderRecords(path, clock)
    for number in range(30):
        first.add_usage(Usage("openai", f"model {number}", 1, 1, 1))
        first.save_health(f"{number:064}", SICK)
    fill(first)
    first.close()
    whole = path.read_bytes()
    chance = random.Random(3)
    for _ in range(150):
        broken = bytearray(whole)
        at = chance.randrange(len(broken))
        broken[at : at + 64] = chance.randbytes(64)
        path.write_bytes(broken[: len(whole)])
        records = ProviderRecords(path, clock)
        records.usage()
        records.health(KEY)
        records.jobs(KEY)
        fill(records)
        assert [day.tokens for day in records.usage() if day.model == USED.model] != []
        records.close()


#: Values that no version ever wrote.
BAD_VALUES = [
    "UPDATE jobs SET texts = '{' WHERE id = 'batch_1'",
    "UPDATE jobs SET texts = '7' WHERE id = 'batch_1'",
    "UPDATE jobs SET texts = replace(hex(zeroblob(50000)), '0', '[') WHERE id = 'batch_1'",
    "UPDATE jobs SET state = cast(x'ff41' AS TEXT) WHERE id = 'batch_1'",
    f"UPDATE health SET reason = cast(x'ff41' AS TEXT) WHERE key = '{KEY}'",
    "UPDATE usage SET day = cast(x'3939ff' AS TEXT) WHERE model = 'bad'",
    "UPDATE usage SET tokens = 9223372036854775807 WHERE model = 'bad'",
]


@pytest.mark.parametrize("statement", BAD_VALUES)
@pytest.mark.parametrize("in_memory", [False, True])
def test_a_bad_row_is_left_out_and_the_others_are_there(
    records: ProviderRecords, path: Path, clock: Clock, statement: str, in_memory: bool
) -> None:
    other = StoredJob("batch_2", KEY, "openai", "in_progress", NOON + 1, ("c" * 64,))
    bad = Usage("openai", "bad", 1, 1, 1)
    fill(records)
    records.save_job(other)
    records.save_health("h" * 64, SICK)
    records.add_usage(bad)
    records.close()
    sql(path, statement)
    again = ProviderRecords(path, clock)
    if in_memory:  # as when the file gets lost on the way
        again.usage()
        again._file._go_on_in_memory(OSError("gone"), path)
    for _ in range(2):
        assert again.jobs(KEY) == ([other] if "jobs" in statement else [JOB, other])
        assert again.health(KEY) == (Health() if "health" in statement else SICK)
        assert again.health("h" * 64) == SICK
        assert [day.tokens for day in again.usage() if day.model == USED.model] == [500]
        again.add_usage(bad)
    again.add_usage(USED)
    again.save_health(KEY, SICK)
    again.save_job(JOB)
    assert again.health(KEY) == SICK
    assert again.jobs(KEY) == [JOB, other]
    assert [day.tokens for day in again.usage() if day.model == USED.model] == [1000]
    assert (again.note is not None) is in_memory
    again.close()


def test_what_fails_in_memory_too_is_not_remembered(clock: Clock) -> None:
    records = ProviderRecords(None, clock)
    fill(records)
    connection = records._file._connection
    assert connection is not None
    connection.execute("DROP TABLE health; DROP TABLE jobs")
    records.save_health(KEY, SICK)
    records.save_job(JOB)
    assert (records.health(KEY), records.jobs(KEY)) == (Health(), [])


def test_what_could_be_read_goes_along_into_memory(records: ProviderRecords, path: Path) -> None:
    fill(records)
    blocker = apsw.Connection(str(path))
    blocker.execute("CREATE TRIGGER full BEFORE INSERT ON usage BEGIN SELECT raise(abort, 'no'); END")
    records.add_usage(USED)  # fails in the file, whatever the cause
    assert records.note is not None
    assert [day.tokens for day in records.usage()] == [1000]
    assert records.health(KEY) == SICK
    assert records.jobs(KEY) == [JOB]
    blocker.close()


def test_a_lock_that_is_never_given_up(
    records: ProviderRecords, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_mem_engine.state.database.BUSY_TIMEOUT_MS", 100)
    fill(records)
    records.close()
    holder = apsw.Connection(str(path))
    holder.execute("BEGIN IMMEDIATE")
    assert records.health(KEY) == SICK, "reading never waits"
    assert records.note is None
    records.add_usage(USED)
    assert records.note is not None
    assert "locked" in records.note.text
    assert [day.requests for day in records.usage()] == [2]
    holder.execute("ROLLBACK")
    holder.close()
