"""How good the rankings are on the demo workspace's judged queries: nDCG@6, MRR, recall@6, empty answers.

    uv run python benchmarks/quality.py [--queries] [--export FOLDER]

A hit answers a judged passage when it is of the same file and their lines overlap; a passage counts once, for
the first hit that covers it. nDCG uses gains of 2^grade - 1 and the discount log2(rank + 1) (Järvelin and
Kekäläinen, 2002, in the form of Burges et al., 2005); 1 cannot always be reached, since two passages may lie
in one chunk. Recall counts every passage that some hit covers. ``--export`` writes TREC files for other
programs: ir-measures gives the same nDCG and MRR. Twenty queries are a smoke test, not a leaderboard: a
difference below 0.05 means nothing.
"""

from __future__ import annotations

import argparse
import datetime
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from _bench import print_table, scratch, settings_for

from openclaw_mem_engine.answer import Hit
from openclaw_mem_engine.demo import JudgedQuery, load_queries, write_demo
from openclaw_mem_engine.demo.workspace import shift_days_for
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.knobs import DOCUMENTED, OPENCLAW_2026_2, WORKBENCH, Knobs

TODAY = datetime.date(2026, 3, 31)
CUT = 6
RUNS: Mapping[str, Knobs] = {
    "documented": DOCUMENTED,
    "documented, decay and MMR": DOCUMENTED.set({"decay": True, "mmr": True}),
    "documented, no keyword rescue": DOCUMENTED.set({"keyword_rescue": "off"}),
    "openclaw-2026.2": OPENCLAW_2026_2,
    "workbench": WORKBENCH,
    "bm25 only": DOCUMENTED.set({"mode": "bm25"}),
    "vector only": DOCUMENTED.set({"mode": "vector", "min_score": 0}),
    "rrf": DOCUMENTED.set({"fusion": "rrf"}),
}


@dataclass(frozen=True, slots=True)
class Passage:
    """A judged passage of a file, by its lines."""

    path: str
    first: int
    last: int
    grade: int

    def covered_by(self, hit: Hit) -> bool:
        return hit.path == self.path and hit.start_line <= self.last and self.first <= hit.end_line


@dataclass(frozen=True, slots=True)
class Score:
    """Measures of one query."""

    ndcg: float
    reciprocal_rank: float
    recall: float
    empty: bool


def passages_of(query: JudgedQuery, workspace: Path) -> list[Passage]:
    found = []
    for grade in query.grades:
        lines = grade.lines_in((workspace / grade.path).read_text("utf-8"))
        found.append(Passage(grade.path, *lines, grade.grade))
    return found


def gains_of(hits: Sequence[Hit], passages: Sequence[Passage]) -> list[int]:
    """The grade of each hit: the best of the passages that it is the first to cover, 0 for none."""
    left = list(passages)
    grades = []
    for hit in hits:
        covered = [passage for passage in left if passage.covered_by(hit)]
        left = [passage for passage in left if passage not in covered]
        grades.append(max((passage.grade for passage in covered), default=0))
    return grades


def score(hits: Sequence[Hit], passages: Sequence[Passage]) -> Score:
    """All measures of one query, over the first six hits."""
    grades = gains_of(hits[:CUT], passages)
    ideal = dcg(sorted((passage.grade for passage in passages), reverse=True)[:CUT])
    first = next((rank for rank, grade in enumerate(grades, 1) if grade), None)
    covered = sum(any(passage.covered_by(hit) for hit in hits[:CUT]) for passage in passages)
    return Score(
        dcg(grades) / ideal, 1 / first if first else 0.0, covered / min(CUT, len(passages)), not hits
    )


def dcg(grades: Sequence[int]) -> float:
    return sum((2.0**grade - 1) / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))


def write_trec(folder: Path, name: str, query: str, hits: Sequence[Hit], passages: Sequence[Passage]) -> None:
    """The same judgements for other programs: a hit is named after the passage it is the first to cover."""
    folder.mkdir(parents=True, exist_ok=True)
    left = list(passages)
    with (folder / f"{name}.run").open("a", encoding="utf-8") as run:
        for rank, hit in enumerate(hits[:CUT], 1):
            covered = sorted((p for p in left if p.covered_by(hit)), key=lambda p: -p.grade)
            left = [passage for passage in left if passage not in covered]
            document = f"p{passages.index(covered[0])}" if covered else f"x{rank}"
            run.write(f"{query} Q0 {document} {rank} {CUT - rank + 1} {name}\n")
    with (folder / f"{name}.qrels").open("a", encoding="utf-8") as judged:
        for number, passage in enumerate(passages):
            judged.write(f"{query} 0 p{number} {passage.grade}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Retrieval quality on the demo's judged queries.")
    parser.add_argument("--queries", action="store_true", help="also print nDCG@6 of every query")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="write TREC run and qrels files")
    options = parser.parse_args()
    days = shift_days_for(TODAY)
    noon = datetime.datetime.combine(TODAY, datetime.time(12), datetime.UTC).timestamp()
    queries = load_queries(days).judged
    scores: dict[str, list[Score]] = {name: [] for name in RUNS}
    with scratch() as folder:
        workspace = write_demo(folder / "demo", TODAY)
        with Memory.open(settings_for(workspace, folder / "home"), clock=lambda: noon) as memory:
            memory.sync()
            for query in queries:
                passages = passages_of(query, workspace)
                for name, knobs in RUNS.items():
                    hits = memory.search(query.query, knobs).hits
                    scores[name].append(score(hits, passages))
                    if options.export:
                        write_trec(options.export, name.replace(" ", "-"), query.id, hits, passages)
    table = [("", f"nDCG@{CUT}", "MRR", f"recall@{CUT}", "nothing returned", "nDCG − documented")]
    base = statistics.mean(s.ndcg for s in scores["documented"])
    for name, found in scores.items():
        ndcg = statistics.mean(s.ndcg for s in found)
        table.append(
            (
                name,
                f"{ndcg:.3f}",
                f"{statistics.mean(s.reciprocal_rank for s in found):.3f}",
                f"{statistics.mean(s.recall for s in found):.3f}",
                f"{statistics.mean(s.empty for s in found):.0%}",
                "baseline" if name == "documented" else f"{ndcg - base:+.3f}",
            )
        )
    print_table(f"Retrieval quality: {len(queries)} judged queries of the demo, static embedder", table)
    if options.queries:
        rows = [("query", *RUNS)]
        for place, query in enumerate(queries):
            rows.append((query.id, *(f"{found[place].ndcg:.2f}" for found in scores.values())))
        print_table(f"nDCG@{CUT} by query", rows)


if __name__ == "__main__":
    main()
