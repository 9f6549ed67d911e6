"""What differs in the walk of a whole document of QMD: which parts of a query it holds, and what to change in
it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.qmd.lexical import Term
from openclaw_mem_engine.ranking.pool import Candidate
from openclaw_mem_engine.ranking.trace import Trace
from openclaw_mem_engine.why_not import TextChange
from openclaw_mem_engine.why_not.changes import Search
from openclaw_mem_engine.why_not.text_changes import undated
from openclaw_mem_engine.why_not.walk import ListFact

#: Knobs that the lists are made with.
MADE_WITH = frozenset({"expansion", "strong_signal", "lexical_index"})
#: Characters of the text of a list that its label has.
_LABEL = 60


class Parts(NamedTuple):
    """The parts of a query that a document holds in its text, only elsewhere, or not; and those that it holds
    and must not."""

    words: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


def parts_of(terms: Sequence[Term], held: Mapping[str, tuple[bool, bool]]) -> Parts:
    """``held`` says for each expression whether the document matches it, and whether its text does."""
    unique = [*{(term.expression, term.wanted): term for term in reversed(terms)}.values()][::-1]
    wanted = [(term.text, *held[term.expression]) for term in unique if term.wanted]
    return Parts(
        tuple(text for text, _, in_text in wanted if in_text),
        tuple(text for text, anywhere, _ in wanted if not anywhere),
        tuple(text for text, anywhere, in_text in wanted if anywhere and not in_text),
        tuple(term.text for term in unique if not term.wanted and held[term.expression][0]),
    )


def label_of(label: str, text: str) -> str:
    """The label of a list with what it searched for."""
    return f"{label} “{text[:_LABEL]}{'…' if len(text) > _LABEL else ''}”"


def document_changes(
    search: Search, passage: Candidate | None, trace: Trace, stage: str, lists: Sequence[ListFact]
) -> Iterator[TextChange]:
    """Changes of the document that would help, as far as they can be tried; and the words that keep the first
    list of full text from finding it, of which it requires each."""
    yield from undated(search, passage, trace)
    if stage == "snippet":
        if trace.knobs.snippet != "packed":
            most = f"A snippet is at most {trace.knobs.snippet_chars:,} characters of a document"
            yield TextChange("split", f"{most}: move the rest to its own note.")
        return
    fact = next((fact for fact in lists if fact.lexical and fact.fused), None)
    if fact is None or fact.rank is not None:
        return
    if fact.excluded:
        held = ", ".join(f"“{word}”" for word in fact.excluded)
        yield TextChange("word", f"The document holds {held}, which the query excludes.")
    elif fact.missing:
        lacked = " and ".join(f"“{word}”" for word in fact.missing)
        also = "also " if fact.words or fact.named else ""
        yield TextChange("word", f"If the document {also}held {lacked}, {fact.label} would find it.")
