"""Results and documents of QMD in its formats: json, csv, md, xml, files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from openclaw_mem_engine.sanitize import inert_json

FORMATS: Final = ("json", "csv", "md", "xml", "files")
#: What XML 1.0 cannot hold, not even escaped; it takes 5 ms to compile.
_NOT_XML = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One result. ``docid`` has no ``#``, ``score`` is 0.0 to 1.0, ``line`` counts from 1. ``text`` is the
    snippet, or the whole document where ``full``. ``more`` are further JSON keys (``explain``)."""

    docid: str
    score: float
    file: str
    line: int
    title: str
    text: str
    context: str = ""
    full: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """One document. ``docid`` is "" where none is shown; ``skipped`` is why it has no ``text``, else ""."""

    file: str
    title: str
    text: str = ""
    context: str = ""
    docid: str = ""
    skipped: str = ""


def results_text(rows: Sequence[ResultRow], kind: str) -> str:
    """The results in a format of ``FORMATS``, without a newline at the end."""
    return _RESULTS[kind](rows)


def documents_text(rows: Sequence[DocumentRow], kind: str) -> str:
    """The documents in a format of ``FORMATS``, without a newline at the end."""
    return _DOCUMENTS[kind](rows)


def _json(rows: Iterable[Mapping[str, Any]]) -> str:
    return inert_json(json.dumps(list(rows), ensure_ascii=False, indent=2))


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    import csv
    import io

    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *rows])
    return out.getvalue().removesuffix("\n")


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace('"', '""'))


def _escaped(text: str) -> str:
    import html

    return html.escape(re.sub(_NOT_XML, "\N{REPLACEMENT CHARACTER}", text)).replace("&#x27;", "&apos;")


def _rounded(score: float) -> float:
    """Two decimals, without any where it is a whole number."""
    rounded = int(score * 100 + 0.5) / 100
    return int(rounded) if rounded.is_integer() else rounded


def _optional(**entries: str) -> dict[str, str]:
    return {key: text for key, text in entries.items() if text}


def _results_json(rows: Sequence[ResultRow]) -> str:
    return _json(
        {
            "docid": f"#{row.docid}",
            "score": _rounded(row.score),
            "file": row.file,
            "line": row.line,
            "title": row.title,
            **_optional(context=row.context),
            "body" if row.full else "snippet": row.text,
            **row.more,
        }
        for row in rows
    )


def _results_csv(rows: Sequence[ResultRow]) -> str:
    return _csv(
        ("docid", "score", "file", "title", "context", "line", "snippet"),
        (
            (f"#{row.docid}", f"{row.score:.4f}", row.file, row.title, row.context, row.line, row.text)
            for row in rows
        ),
    )


def _results_md(rows: Sequence[ResultRow]) -> str:
    return "\n".join(
        f"---\n# {row.title}\n\n**file:** `{row.file}`\n**docid:** `#{row.docid}`\n"
        + (f"**context:** {row.context}\n" if row.context else "")
        + f"\n{row.text}\n"
        for row in rows
    )


def _results_xml(rows: Sequence[ResultRow]) -> str:
    if not rows:
        return "<results></results>"
    return "\n\n".join(
        f'<file docid="#{row.docid}" name="{_escaped(row.file)}" title="{_escaped(row.title)}"'
        + (f' context="{_escaped(row.context)}"' if row.context else "")
        + f">\n{_escaped(row.text)}\n</file>"
        for row in rows
    )


def _results_files(rows: Sequence[ResultRow]) -> str:
    return "\n".join(
        f"#{row.docid},{row.score:.2f},{row.file}" + (f",{_quoted(row.context)}" if row.context else "")
        for row in rows
    )


def _documents_json(rows: Sequence[DocumentRow]) -> str:
    return _json(
        {
            "file": row.file,
            **_optional(docid=row.docid and f"#{row.docid}"),
            "title": row.title,
            **_optional(context=row.context),
            **({"skipped": True, "reason": row.skipped} if row.skipped else {"body": row.text}),
        }
        for row in rows
    )


def _documents_csv(rows: Sequence[DocumentRow]) -> str:
    with_ids = any(row.docid for row in rows)
    return _csv(
        (*["docid"] * with_ids, "file", "title", "context", "skipped", "body"),
        (
            (
                *[f"#{row.docid}"] * with_ids,
                row.file,
                row.title,
                row.context,
                "true" if row.skipped else "false",
                row.skipped or row.text,
            )
            for row in rows
        ),
    )


def _documents_md(rows: Sequence[DocumentRow]) -> str:
    parts = []
    for row in rows:
        lines = [f"## {row.file}"]
        if row.docid:
            lines.append(f"**docid:** `#{row.docid}`")
        lines.append(f"**Title:** {row.title}")
        if row.context:
            lines.append(f"**Context:** {row.context}")
        fence = "`" * max(3, 1 + max(map(len, re.findall("`{3,}", row.text)), default=0))
        lines.append(f"> {row.skipped}" if row.skipped else f"{fence}\n{row.text}\n{fence}")
        parts.append("\n\n".join(lines) + "\n")
    return "\n".join(parts)


def _documents_xml(rows: Sequence[DocumentRow]) -> str:
    def element(name: str, text: str) -> str:
        return f"    <{name}>{_escaped(text)}</{name}>\n" if text else ""

    def document(row: DocumentRow) -> str:
        attribute = f' docid="#{row.docid}"' if row.docid else ""
        inner = (
            "    <skipped>true</skipped>\n" + element("reason", row.skipped)
            if row.skipped
            else f"    <body>{_escaped(row.text)}</body>\n"
        )
        head = element("file", row.file) + element("title", row.title) + element("context", row.context)
        return f"  <document{attribute}>\n{head}{inner}  </document>\n"

    body = "".join(map(document, rows))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<documents>\n{body}</documents>'


def _documents_files(rows: Sequence[DocumentRow]) -> str:
    return "\n".join(
        (f"#{row.docid}," if row.docid else "")
        + row.file
        + (f",{_quoted(row.context)}" if row.context else "")
        + (",[SKIPPED]" if row.skipped else "")
        for row in rows
    )


_RESULTS: dict[str, Callable[[Sequence[ResultRow]], str]] = {
    "json": _results_json,
    "csv": _results_csv,
    "md": _results_md,
    "xml": _results_xml,
    "files": _results_files,
}
_DOCUMENTS: dict[str, Callable[[Sequence[DocumentRow]], str]] = {
    "json": _documents_json,
    "csv": _documents_csv,
    "md": _documents_md,
    "xml": _documents_xml,
    "files": _documents_files,
}
