"""Names of chunks that stay the same in every store."""

from __future__ import annotations

import hashlib

from openclaw_mem_engine.model import Source


def chunk_id_of(
    source: Source, path: str, start_line: int, end_line: int, content_hash: str, model: str
) -> str:
    """SHA-256 hex of ``source:path:start:end:hash:model`` (the documented form): content-addressed, so the
    same text at the same place has the same id in any index."""
    return hashlib.sha256(
        f"{source}:{path}:{start_line}:{end_line}:{content_hash}:{model}".encode("utf-8", "replace")
    ).hexdigest()
