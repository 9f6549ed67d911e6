"""The event log: what is kept, how much of it, and by several processes."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from openclaw_mem_engine.api import with_backend
from openclaw_mem_engine.state.database import rows_of
from openclaw_mem_engine.state.events import (
    EVENTS_FILE,
    KEEP_DAYS,
    KEEP_EVENTS,
    KEEP_NEWEST,
    KINDS,
    SCHEMA,
    Event,
    EventLog,
)
from openclaw_mem_engine.sync.events import Journal
from support.memories import settings_for
from support.providers import Clock

ENGINE = Path(__file__).parents[2] / "engine"
DAY_S = 86_400.0
SECRET = "sk-test-0123456789abcdef"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / EVENTS_FILE


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(path: Path, clock: Clock) -> Iterator[EventLog]:
    made = EventLog(path, clock)
    yield made
    made.close()


def sql(path: Path, text: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(text)
    connection.close()


def fill(path: Path, number: int, at: float) -> None:
    """So many events, quicker than by writing each."""
    sql(
        path,
        "INSERT INTO events(at, kind, text, counts, reason, agent, workspace, topic, state) "
        f"WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {number}) "
        f"SELECT {at}, 'watch', i, '{{}}', '', '', '', '', '' FROM n",
    )


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ENGINE)},
        text=True,
    )


# -- what is kept ---------------------------------------------------------------------------------------


def test_reading_makes_no_file(log: EventLog, path: Path) -> None:
    assert log.read() == []
    assert log.last_state("x", well="well") == (None, None)
    assert log.note is None and not path.parent.exists()


def test_everything_is_there_for_the_next_run_and_private(log: EventLog, path: Path, clock: Clock) -> None:
    log.add("sync", "one", seconds=0.5, counts={"files": 3}, reason="r", agent="ops", workspace="/w")
    log.close()
    again = EventLog(path, clock)
    assert again.read() == [Event(1, clock.now, "sync", "one", 0.5, {"files": 3}, "r", "ops", "/w")]
    assert again.read()[0].to_dict()["counts"] == {"files": 3}
    again.close()
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}


def test_stays_first_and_every_filter(log: EventLog, clock: Clock) -> None:
    for number, kind in enumerate(KINDS):
        log.add(kind, f"event {number}", agent="ab"[number % 2], workspace=f"/w{number % 3}")
        clock.forward(10)
    assert [event.kind for event in log.read()] == list(reversed(KINDS))
    assert [event.kind for event in log.read(2)] == list(reversed(KINDS))[:2]
    assert log.read(0) == [] and log.read(-1) == [] and len(log.read(10**30)) == len(KINDS)
    assert [event.kind for event in log.read(kinds=("sync", "doctor"))] == ["doctor", "sync"]
    assert len(log.read(since=clock.now - 30)) == 3
    assert {event.agent for event in log.read(agent="a")} == {"a"}
    assert [event.id for event in log.read(agent="a", workspace="/w0")] == [7, 1]
    assert [event.id for event in log.read(after=6)] == list(range(len(KINDS), 6, -1))


def test_texts_are_one_line_without_secrets_and_controls(log: EventLog) -> None:
    key = f"Authorization: Bearer {SECRET}"
    log.add("sync", f"a\x1b[31m\nb\u202e {key}", reason=f"{key}\r\n" + "x" * 50_000, workspace="/w\udcff\x1b")
    (event,) = log.read(workspace="/w\udcff\x1b")
    assert SECRET not in event.text + event.reason
    assert event.text.startswith("a^[[31m⏎b<U+202E> Authorization")
    assert len(event.reason) == 500 and event.reason.endswith("…")
    for text in (event.text, event.reason, event.workspace):
        assert text.isprintable()
        text.encode()


def test_figures_that_cannot_be_stored_are_left_out(log: EventLog) -> None:
    log.add("sync", "", seconds=math.nan, counts={"a": 10**30, "\udc00": -(10**30)})
    (event,) = log.read()
    assert event.seconds is None
    assert event.counts == {"a": 10**12, "\ufffd": -(10**12)}
    assert log.note is None


def test_it_is_bounded_by_number(log: EventLog, path: Path) -> None:
    log.add("sync", "the first")
    fill(path, KEEP_EVENTS + 500, Clock.now)
    log.add("sync", "the last")
    events = log.read(10**6)
    assert len(events) == KEEP_EVENTS
    assert events[0].text == "the last" and events[-1].text == "502"


def test_it_is_bounded_by_age_also_in_a_process_that_goes_on(log: EventLog, path: Path, clock: Clock) -> None:
    log.add("sync", "old")
    clock.forward(DAY_S)
    log.add("sync", "a day later")
    fill(path, KEEP_NEWEST, clock.now)
    clock.forward((KEEP_DAYS - 0.5) * DAY_S)
    log.add("sync", "new")
    texts = [event.text for event in log.read(10**6)]
    assert (len(texts), texts[0], texts[-1]) == (KEEP_NEWEST + 2, "new", "a day later")
    clock.forward(1000 * DAY_S)
    log.add("sync", "much later")
    ids = [event.id for event in log.read(10**6)]
    assert ids == list(range(KEEP_NEWEST + 4, 4, -1)), "an id is never given twice"


def test_a_clock_that_is_wrong_for_a_minute_does_not_cost_the_history(log: EventLog, clock: Clock) -> None:
    for number in range(20):
        log.add("sync", f"{number}")
    for days in (20_000, -20_000):
        clock.forward(days * DAY_S)
        log.add("sync", "x")
    assert [event.text for event in log.read()][:3] == ["x", "x", "19"]
    assert len(log.read()) == 22


def test_a_clock_that_goes_back_loses_nothing(log: EventLog, clock: Clock) -> None:
    for text in ("now", "before"):
        log.add("sync", text, topic="t", state=text, quiet_s=60)
        clock.forward(-400 * DAY_S)
    assert [event.text for event in log.read()] == ["before", "now"]


def test_the_same_is_said_once_in_a_while(log: EventLog, clock: Clock) -> None:
    def fail(state: str = "down", agent: str = "") -> None:
        log.add("search-failed", state, topic="search", state=state, quiet_s=60, agent=agent)

    fail()
    fail()
    assert len(log.read()) == 1
    fail(agent="ops")
    fail("other")
    fail()
    assert [event.text for event in log.read()] == ["down", "other", "down", "down"]
    clock.forward(61)
    fail()
    assert len(log.read()) == 5
    log.add("sync", "no topic")
    log.add("sync", "no topic")
    assert len(log.read()) == 7


def test_how_a_topic_stands_and_since_when(log: EventLog, clock: Clock) -> None:
    began = clock.now
    for state in ("down", "worse", "well"):
        log.add("fallback", "x", topic="t", state=state, agent="a")
        since = None if state == "well" else began
        assert log.last_state("t", well="well", agent="a") == (state, since)
        clock.forward(5)
    assert log.last_state("t", well="well", agent="b") == (None, None)


# -- trouble with the file ------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["kind = 'nonsense'", "counts = '['", "counts = '[1]'", "at = 1e999"])
def test_an_event_that_nobody_wrote_hides_no_other(log: EventLog, path: Path, change: str) -> None:
    log.add("sync", "one", topic="t", state="x")
    sql(path, f"UPDATE events SET {change}")
    log.add("sync", "two")
    assert [event.text for event in log.read()] == ["two"]
    assert log.last_state("t", well="well")[0] is not None
    assert log.note is None


def test_without_a_file_nothing_is_said_about_it(clock: Clock) -> None:
    log = EventLog(None, clock)
    log.add("sync", "x")
    assert len(log.read()) == 1 and log.note is None


# -- threads and processes ------------------------------------------------------------------------------

WRITE = """
    import sys, time
    from pathlib import Path
    from openclaw_mem_engine.state.events import EventLog
    log = EventLog(Path(sys.argv[1]))
    for number in range(int(sys.argv[2])):
        log.add("sync", f"{number}", agent=sys.argv[3])
        log.add("fallback", "keywords answer", topic="provider x", state="keywords", quiet_s=float("inf"))
        print(number, flush=True)
"""


def test_several_processes_and_threads_lose_nothing_and_say_once_what_is_one_thing(path: Path) -> None:
    log = EventLog(path)
    processes = [child(WRITE, path, 60, f"p{number}") for number in range(4)]

    def write() -> None:
        for turn in range(50):
            log.add("watch", f"{turn}")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    kinds = Counter(event.kind for event in log.read(10_000))
    assert kinds == {"sync": 240, "watch": 200, "fallback": 1}
    assert log.note is None
    log.close()


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_what_was_acknowledged_survives_a_kill(path: Path) -> None:
    for turn in range(5):
        with child(WRITE, path, 100_000, f"turn {turn}") as process:
            assert process.stdout is not None
            printed = [process.stdout.readline() for _ in range(20 + 13 * turn)]
            process.send_signal(signal.SIGKILL)
            printed += process.stdout.readlines()
            process.wait(10)
        acknowledged = int([line for line in printed if line.endswith("\n")][-1])
        log = EventLog(path)
        assert len(log.read(10**6, agent=f"turn {turn}")) >= min(acknowledged + 1, KEEP_EVENTS)
        assert log.note is None and isinstance(rows_of(path, SCHEMA, "events"), int)
        log.close()


def test_the_events_of_the_index_of_another_backend_are_not_those_of_this_one(tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "ws", tmp_path / "home", OPENCLAW_MEM_PROVIDER="none")
    for name in ("builtin", "qmd"):
        with closing(Journal(with_backend(settings, name))) as journal:
            journal.watched(f"of {name}")
    with closing(EventLog(settings.data_dir / EVENTS_FILE)) as log:
        log.add("flush", "of no index", agent=settings.agent, workspace=str(settings.workspace))
        assert [event.backend for event in log.read()] == ["", "qmd", "builtin"]
    with closing(Journal(settings)) as journal:
        assert [event.text for event in journal.read(9)] == ["of no index", "of builtin"]


def test_events_of_a_version_that_knew_no_backend_are_still_shown(path: Path) -> None:
    path.parent.mkdir()
    sql(path, f"{SCHEMA.migrations[0]}; PRAGMA user_version = 1")
    columns = "at, kind, text, counts, reason, agent, workspace, topic, state"
    sql(path, f"INSERT INTO events({columns}) VALUES(1, 'sync', 'old', '{{}}', '', 'main', '/w', '', '')")
    with closing(EventLog(path)) as log:
        assert [(event.text, event.backend) for event in log.read(backend="builtin")] == [("old", "")]
