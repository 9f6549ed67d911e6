"""Typed queries, their expansion, and what models are sent, as in QMD 2.8.3."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast, get_args

from openclaw_mem_engine.chunking.break_chunker import OVERLAP_TOKENS, TOKENS
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import Prompted, utf8
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.query_words import STOP_WORDS
from openclaw_mem_engine.sanitize import WHITE

#: How a line is searched: "lex" by full text, "vec" and "hyde" (an invented passage) by vectors.
LineRole = Literal["lex", "vec", "hyde"]
_ROLES = get_args(LineRole)

#: From this score of the first full-text hit, and this distance to the second, nothing is expanded.
STRONG_SCORE: Final = 0.85
STRONG_GAP: Final = 0.15

#: Lines of an expansion that are searched at most: each costs a search of the index.
MOST_LINES: Final = 6

_PREFIX = re.compile(r"(lex|vec|hyde|intent|expand):(.*)", re.IGNORECASE)
_NEGATION = re.compile(rf'(?:^|[{WHITE}])-[\w"]')
_WORD = re.compile(r"[^\W_]+(?:[-./_'@:][^\W_]+)*")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-./_@:]")
_QWEN_EMBEDDING = re.compile(r"qwen.*embed|embed.*qwen", re.IGNORECASE)


class SubQuery(NamedTuple):
    """One line of an expanded or typed query."""

    role: LineRole
    text: str


@dataclass(frozen=True, slots=True)
class QueryDocument:
    """A query as the user wrote it: either one ``text``, which may be expanded, or typed ``lines``.
    ``intent`` says what it is about: it picks passages and is not searched."""

    text: str
    lines: tuple[SubQuery, ...] = ()
    intent: str = ""

    @property
    def primary(self) -> str:
        """The text that reranking and snippets go by: the query, else the first lex, vec or other line."""
        return self.text or min(self.lines, key=lambda line: _ROLES.index(line.role)).text

    @classmethod
    def parse(cls, text: str) -> QueryDocument:
        """One line is a query (``expand:`` before it is dropped); else every line that is not blank starts
        with ``lex:``, ``vec:``, ``hyde:`` or, once, ``intent:``. Raises UsageError with line and reason."""
        numbered = [(number, line.strip(WHITE)) for number, line in enumerate(text.split("\n"), 1)]
        filled = [(number, line, _PREFIX.fullmatch(line)) for number, line in numbered if line]
        if not filled:
            raise UsageError("The query is blank. Write words to search for.")
        lines: list[SubQuery] = []
        intents: list[str] = []
        for number, line, found in filled:
            if found is None:
                if len(filled) == 1:
                    return cls(line)
                raise UsageError(
                    f"Line {number} is missing a lex:/vec:/hyde:/intent: prefix. Each line in a query "
                    "document must start with one."
                )
            kind, value = found[1].lower(), found[2].strip(WHITE)
            if kind == "expand" and len(filled) > 1:
                raise UsageError(
                    f"Line {number} starts with expand:, but query documents cannot mix expand with typed "
                    "lines. Submit a single expand query instead."
                )
            if not value:
                raise UsageError(f"Line {number} ({kind}:) must include text.")
            if kind == "expand":
                return cls(value)
            if kind == "intent":
                if intents:
                    raise UsageError(f"Line {number}: only one intent: line is allowed per query document.")
                intents.append(value)
            else:
                lines.append(checked(SubQuery(cast("LineRole", kind), value), line=number))
        if not lines:
            raise UsageError("intent: cannot appear alone. Add at least one lex:, vec:, or hyde: line.")
        return cls("", tuple(lines), "".join(intents))


def checked(query: SubQuery, *, line: int | None = None) -> SubQuery:
    """The same query, when it can be run. Raises UsageError that names the line, or its role."""
    where = f"Structured search ({query.role})" if line is None else f"Line {line} ({query.role})"
    if "\n" in query.text or "\r" in query.text:
        raise UsageError(f"{where}: queries must be single-line. Remove newline characters.")
    if query.role == "lex" and query.text.count('"') % 2:
        raise UsageError(
            f'{where}: Lex query has an unmatched double quote ("). Add the closing quote or remove it.'
        )
    if query.role != "lex" and _NEGATION.search(query.text):
        raise UsageError(
            f"{where}: Negation (-term) is not supported in vec/hyde queries. Use lex for exclusions."
        )
    return query


def parse_expansion(output: str | None, query: str) -> list[SubQuery]:
    """The lines that a model made of ``query``; ``output`` None: it failed. Lines of another form and those
    that share no word (``[a-z0-9]``) with the query are dropped, and so are copies of the query. When none is
    left, one invented passage is (``Information about …``). At most ``MOST_LINES``, each once."""
    if output is None:
        return []
    words = re.findall("[a-z0-9]+", query.lower())
    lines = []
    for line in output.strip(WHITE).split("\n"):
        role, colon, text = (part.strip(WHITE) for part in line.partition(":"))
        if colon and text and role in _ROLES and (not words or any(word in text.lower() for word in words)):
            lines.append(SubQuery(cast("LineRole", role), text))
    lines = lines or [SubQuery("hyde", f"Information about {query}")]
    return [line for line in dict.fromkeys(lines) if line.text != query][:MOST_LINES]


def lexical_expansion(query: str, n: int = 2) -> list[SubQuery]:
    """Up to ``n`` variants of a query, made without a model: without the words that say nothing (a full-text
    query requires each of its words), identifiers cut into their words, the two longest words. A query with
    quotes or exclusions is exact and has none."""
    if '"' in query or _NEGATION.search(query):
        return []
    words = [word for word in _WORD.findall(query) if word.lower() not in STOP_WORDS] or _WORD.findall(query)
    longest = sorted(words, key=len, reverse=True)[:2]
    variants = (
        words,
        [part for word in words for part in _HUMP.split(word)],
        [word for word in words if word in longest],
    )
    texts = dict.fromkeys(" ".join(filter(None, variant)) for variant in variants)
    plain = " ".join(query.split())
    return [SubQuery("lex", text) for text in texts if text and text != plain][:n]


def is_strong(scores: Sequence[float], intent: str = "") -> bool:
    """Whether the full-text hits of the query itself (best first) are good enough to expand nothing."""
    second = scores[1] if len(scores) > 1 else 0.0
    return bool(scores) and not intent and scores[0] >= STRONG_SCORE and scores[0] - second >= STRONG_GAP


def query_prompt(model: str, text: str) -> Prompted:
    """What a local embedding model is sent for a query. ``model``: its name or URI; Qwen has a prompt of its
    own, every other one gets that of embeddinggemma."""
    if _QWEN_EMBEDDING.search(model):
        return Prompted(f"Instruct: Retrieve relevant documents for the given query\nQuery: {text}")
    return Prompted(f"task: search result | query: {text}")


def document_prompt(model: str, title: str, text: str) -> Prompted:
    """What a local embedding model is sent for a passage of a document with ``title``, which may be ""."""
    if _QWEN_EMBEDDING.search(model):
        return Prompted(f"{title}\n{text}" if title else text)
    return Prompted(f"title: {title or 'none'} | text: {text}")


def fingerprint(model: str) -> str:
    """6 hex digits over what determines the vectors of an index: model, both prompts, chunk sizes. A document
    whose vectors have another one is pending."""
    title, text = "__qmd_embedding_title_probe__", "__qmd_embedding_document_probe__"
    significant = (
        f"model:{model}",
        f"query:{query_prompt(model, '__qmd_embedding_query_probe__')}",
        f"doc:{document_prompt(model, title, text)}",
        f"chunk_tokens:{TOKENS}",
        f"chunk_overlap_tokens:{OVERLAP_TOKENS}",
    )
    return hashlib.sha256(utf8("\n".join(significant))).hexdigest()[:6]


def cache_key(kind: str, body: Mapping[str, str]) -> str:
    """The key of a row of ``llm_cache``: SHA-256 hex of ``kind`` and ``body`` as compact JSON, whose keys
    keep their order. ``expandQuery``: query, model; ``rerank``: query, model, chunk."""
    return hashlib.sha256(
        utf8(kind + json.dumps(body, ensure_ascii=False, separators=(",", ":")))
    ).hexdigest()
