"""What is remembered about embedding providers between runs: tokens used, failures, batch jobs.

One state database. It holds counts, times, hashes and redacted error messages; never a text, never a key.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import utf8
from openclaw_mem_engine.state.database import Row, Schema, StateDatabase, finite
from openclaw_mem_engine.state.records import StateRecords

if TYPE_CHECKING:
    import apsw

    from openclaw_mem_engine.providers.base import Usage

#: A reason is a message for people; a server that sends a page of text does not fill the file.
REASON_CHARS = 500

#: What is kept at most, in days. No provider keeps the outcome of a batch job longer than a month.
KEEP_DAYS = 400
KEEP_JOBS_DAYS = 60

_TABLES = """
CREATE TABLE usage(
  day TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL, requests INTEGER NOT NULL,
  texts INTEGER NOT NULL, tokens INTEGER NOT NULL, estimated INTEGER NOT NULL,
  PRIMARY KEY(day, provider, model)
) STRICT, WITHOUT ROWID;
CREATE TABLE health(
  key TEXT PRIMARY KEY, failing_since REAL, reason TEXT NOT NULL, failures INTEGER NOT NULL,
  next_retry REAL, last_ok REAL, last_ms REAL, key_tag TEXT NOT NULL, day TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE jobs(
  id TEXT PRIMARY KEY, provider_key TEXT NOT NULL, provider TEXT NOT NULL, state TEXT NOT NULL,
  submitted_at REAL NOT NULL, texts TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""
_DIMS = "ALTER TABLE health ADD COLUMN dims INTEGER"
SCHEMA = Schema(
    (_TABLES, _DIMS),
    "provider-records",
    "warning",
    "usage and failures of embedding providers",
    "counts, times and the state of batch jobs",
)

_SALT_CHARS = 32
#: Beyond any true count; keeps sums of nonsense within SQLite's 64 bits.
_MOST = 10**12


@dataclass(frozen=True, slots=True)
class DayUsage:
    """What one model was used for on one day: ``day`` is a local date (YYYY-MM-DD). ``estimated``: at least
    a part of ``tokens`` was not counted by the provider."""

    day: str
    provider: str
    model: str
    requests: int
    texts: int
    tokens: int
    estimated: bool

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Health:
    """How a provider did lately. Times are epoch seconds. ``failures`` counts those in a row, the first at
    ``failing_since``; ``last_ms`` is how long the last good answer took; ``key_tag`` tells whether it was the
    same API key; ``dims`` is the length of the last vector that came."""

    failing_since: float | None = None
    reason: str = ""
    failures: int = 0
    next_retry: float | None = None
    last_ok: float | None = None
    last_ms: float | None = None
    key_tag: str = ""
    dims: int | None = None


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A batch job that a provider is working on. ``texts`` are the hashes of its texts, in order;
    ``submitted_at`` is epoch seconds."""

    id: str
    provider_key: str
    provider: str
    state: str
    submitted_at: float
    texts: tuple[str, ...]


class ProviderRecords(StateRecords):
    """Those in the file ``path``; without a path they are in memory, and ``note`` says so."""

    def __init__(
        self, path: Path | None, clock: Callable[[], float] = time.time, *, read_only: bool = False
    ) -> None:
        self._file = StateDatabase(path, SCHEMA, clock, tidy=self._tidy, read_only=read_only)

    def add_usage(self, usage: Usage) -> None:
        counts = (_count(usage.requests), _count(usage.texts), _count(usage.tokens), int(usage.estimated))
        self._file.write(
            "INSERT INTO usage VALUES(?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET "
            "requests = min(requests + excluded.requests, 1e15), texts = min(texts + excluded.texts, 1e15), "
            "tokens = min(tokens + excluded.tokens, 1e15), estimated = max(estimated, excluded.estimated)",
            (self._file.today().isoformat(), usage.provider, usage.model, *counts),
        )

    def usage(self, days: int = 30) -> list[DayUsage]:
        """The last ``days`` days including today, newest first; days without any use are left out."""
        first = self._file.today() - timedelta(days=min(max(days, 1), 100_000) - 1)
        return self._file.read(
            "SELECT day, provider, model, requests, texts, tokens, estimated FROM usage WHERE day >= ? "
            "ORDER BY day DESC, provider, model",
            (first.isoformat(),),
            lambda row: replace(DayUsage(*row), estimated=bool(row[-1])),
        )

    def health(self, key: str) -> Health:
        """How the provider with this vector space did; an empty record when nothing is known."""
        found = self._file.read(
            "SELECT failing_since, reason, failures, next_retry, last_ok, last_ms, key_tag, dims FROM health "
            "WHERE key = ?",
            (key,),
            lambda row: Health(*row),
        )
        return found[0] if found else Health()

    def save_health(self, key: str, health: Health) -> None:
        """Replace the record of a vector space. The reason must hold no secret; it is cut to 500
        characters."""
        self._file.write(
            "INSERT OR REPLACE INTO health VALUES(?,?,?,?,?,?,?,?,?,?)",
            (
                key,
                finite(health.failing_since),
                health.reason[:REASON_CHARS],
                _count(health.failures),
                finite(health.next_retry),
                finite(health.last_ok),
                finite(health.last_ms),
                health.key_tag,
                self._file.today().isoformat(),
                health.dims,
            ),
        )

    def jobs(self, key: str) -> list[StoredJob]:
        """The jobs of a vector space, oldest first."""
        return self._file.read(
            "SELECT id, provider_key, provider, state, submitted_at, texts FROM jobs WHERE provider_key = ? "
            "ORDER BY submitted_at, id",
            (key,),
            _job,
        )

    def save_job(self, job: StoredJob) -> None:
        """Remember a job, or its new state."""
        texts = json.dumps(job.texts, separators=(",", ":"))
        row = (job.id, job.provider_key, job.provider, job.state, finite(job.submitted_at) or 0.0, texts)
        self._file.write("INSERT OR REPLACE INTO jobs VALUES(?,?,?,?,?,?)", row)

    def drop_job(self, id: str) -> None:
        """Forget a job whose outcome was fetched, or will never come."""
        self._file.write("DELETE FROM jobs WHERE id = ?", (id,))

    def _tidy(self, connection: apsw.Connection, new_day: bool) -> None:
        if not new_day:
            return
        limit = (self._file.today() - timedelta(days=KEEP_DAYS)).isoformat()
        for table in ("usage", "health"):
            connection.execute(f"DELETE FROM {table} WHERE day < ?", (limit,))
        oldest = self._file.now() - KEEP_JOBS_DAYS * 86_400
        connection.execute("DELETE FROM jobs WHERE submitted_at < ?", (oldest,))


def key_tag(secret: str, *, like: str = "") -> str:
    """What tells an API key (or what else is sent as a secret) from another, and too little to check a guess:
    a random salt and 16 bits of a hash with it. The salt is that of the tag ``like``, if there is one, so
    that the tags of one key are equal. "" for no key."""
    if not secret:
        return ""
    salt = like[:_SALT_CHARS] or os.urandom(_SALT_CHARS // 2).hex()
    return salt + hashlib.blake2b(utf8(f"{salt}{secret}"), digest_size=2).hexdigest()


def _job(row: Row) -> StoredJob:
    texts = json.loads(row[5])
    if not isinstance(texts, list):
        raise ValueError("a job without a list of texts")
    id, key, provider, state = map(str, row[:4])
    return StoredJob(id, key, provider, state, float(row[4]), tuple(map(str, texts)))


def _count(value: int) -> int:
    return max(0, min(int(value), _MOST))
