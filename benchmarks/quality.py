"""How good the rankings are on the demo workspace's judged queries: nDCG@6, MRR, recall@6, empty answers, and
whether the agent is shown the passage.

    uv run python benchmarks/quality.py [--queries] [--export FOLDER]

A hit answers a judged passage when it is of the same file and their lines overlap; a passage counts once, for
the first hit that covers it. nDCG uses gains of 2^grade - 1 and the discount log2(rank + 1) (Järvelin and
Kekäläinen, 2002, in the form of Burges et al., 2005); 1 cannot always be reached, since two passages may lie
in one chunk. Recall counts every passage that some hit covers. *Quote shown* is the share of a query's
passages all of whose lines are in the text that the agent receives. ``--export`` writes TREC files for
other programs: ir-measures gives the same nDCG and MRR.

The queries of lessons were chosen because rankings fail on them, those of the long notes because their
answers stand late in a chunk: both are reported apart from the ordinary ones. Ten queries are a
smoke test, not a leaderboard: a difference below 0.05 means nothing.
"""

from __future__ import annotations

import datetime
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from _bench import given, print_table, scratch, settings_for

from openclaw_mem_engine.answer import Hit
from openclaw_mem_engine.demo import Group, JudgedQuery, load_queries, write_demo
from openclaw_mem_engine.demo.workspace import shift_days_for
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.profiles import DOCUMENTED, OPENCLAW_2026_2, WORKBENCH

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
#: The ways of making snippets, with the same ranking and the same most characters in all.
SNIPPETS: Mapping[str, Knobs] = {
    f"{knobs.profile}, {how}": knobs.set({"snippet": how})
    for knobs in (DOCUMENTED, WORKBENCH)
    for how in ("head", "best-line", "packed")
}
GROUPS: Mapping[str, Group] = {"ordinary queries": "ordinary", "lessons": "lesson", "long notes": "long"}


@dataclass(frozen=True, slots=True)
class Passage:
    """A judged passage of a file, by its lines."""

    path: str
    first: int
    last: int
    grade: int

    def covered_by(self, hit: Hit) -> bool:
        return hit.path == self.path and hit.start_line <= self.last and self.first <= hit.end_line

    def shown_in(self, hit: Hit) -> bool:
        """Whether the agent is shown every line of it."""
        return hit.path == self.path and any(
            first <= self.first and self.last <= last for first, last in hit.shown
        )


@dataclass(frozen=True, slots=True)
class Score:
    """Measures of one query."""

    ndcg: float
    reciprocal_rank: float
    recall: float
    empty: bool
    shown: float
    characters: int


def passages_of(query: JudgedQuery, workspace: Path) -> list[Passage]:
    found = []
    for grade in query.grades:
        text = (workspace / grade.path).read_text("utf-8")
        first = text.count("\n", 0, text.index(grade.quote)) + 1
        found.append(Passage(grade.path, first, first + grade.quote.count("\n"), grade.grade))
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
        dcg(grades) / ideal,
        1 / first if first else 0.0,
        covered / min(CUT, len(passages)),
        not hits,
        statistics.mean(any(map(passage.shown_in, hits)) for passage in passages),
        sum(len(hit.snippet) for hit in hits),
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


def mean(found: Sequence[Score], groups: Sequence[Group], group: Group, measure: str) -> float:
    """The mean of a measure over the queries of one group."""
    return statistics.mean(getattr(s, measure) for s, of in zip(found, groups, strict=True) if of == group)


def ranked(scores: Mapping[str, Sequence[Score]], groups: Sequence[Group]) -> list[tuple[str, ...]]:
    """Rows of every run: nDCG by group, then the other measures over the ordinary queries."""
    rows = [("", *GROUPS, "MRR", f"recall@{CUT}", "nothing returned", "ordinary − documented")]
    base = mean(scores["documented"], groups, "ordinary", "ndcg")
    for name in RUNS:
        ordinary = {
            measure: mean(scores[name], groups, "ordinary", measure)
            for measure in ("ndcg", "reciprocal_rank", "recall", "empty")
        }
        rows.append(
            (
                name,
                *(f"{mean(scores[name], groups, group, 'ndcg'):.3f}" for group in GROUPS.values()),
                f"{ordinary['reciprocal_rank']:.3f}",
                f"{ordinary['recall']:.3f}",
                f"{ordinary['empty']:.0%}",
                "baseline" if name == "documented" else f"{ordinary['ndcg'] - base:+.3f}",
            )
        )
    return rows


def shown(scores: Mapping[str, Sequence[Score]], groups: Sequence[Group]) -> list[tuple[str, ...]]:
    """Rows of every way of making snippets: quote shown by group, and the characters of a mean answer."""
    rows = [("", *GROUPS, "characters")]
    for name in SNIPPETS:
        parts = [f"{mean(scores[name], groups, group, 'shown'):.3f}" for group in GROUPS.values()]
        rows.append((name, *parts, f"{statistics.mean(s.characters for s in scores[name]):,.0f}"))
    return rows


def main() -> None:
    options = given(
        queries=(False, "also print nDCG@6 of every query"), export=(Path, "write TREC run and qrels files")
    )
    days = shift_days_for(TODAY)
    noon = datetime.datetime.combine(TODAY, datetime.time(12), datetime.UTC).timestamp()
    queries = load_queries(days).judged
    scores: dict[str, list[Score]] = {name: [] for name in (*RUNS, *SNIPPETS)}
    with scratch() as folder:
        workspace = write_demo(folder / "demo", TODAY)
        with Memory.open(settings_for(workspace, folder / "home"), clock=lambda: noon) as memory:
            memory.sync()
            for query in queries:
                passages = passages_of(query, workspace)
                for name, knobs in (*RUNS.items(), *SNIPPETS.items()):
                    hits = memory.search(query.query, knobs).hits
                    scores[name].append(score(hits, passages))
                    if options.export and name in RUNS:
                        write_trec(options.export, name.replace(" ", "-"), query.id, hits, passages)
    groups = [query.group for query in queries]
    judged = ", ".join(f"{groups.count(group)} {name}" for name, group in GROUPS.items())
    print_table(
        f"Retrieval quality on the demo, static embedder: nDCG@{CUT} of {judged}", ranked(scores, groups)
    )
    print_table("Quote shown, and characters that the agent receives", shown(scores, groups))
    if options.queries:
        rows = [("query", *RUNS)]
        for place, query in enumerate(queries):
            rows.append((query.id, *(f"{scores[name][place].ndcg:.2f}" for name in RUNS)))
        print_table(f"nDCG@{CUT} by query", rows)


if __name__ == "__main__":
    main()
