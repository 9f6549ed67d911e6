"""Gemini's own protocol: ``{base}/models/<model>:embedContent`` and ``:batchEmbedContents``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from openclaw_mem_engine.providers.remote.wires.base import (
    Purpose,
    advice,
    count_of,
    field_of,
    hash_of,
    header_pairs,
)


@dataclass(frozen=True, slots=True)
class GeminiWire:
    id: str = "gemini"
    default_model: str = "gemini-embedding-001"
    public_host: str = "generativelanguage.googleapis.com"
    default_base_url: str = "https://generativelanguage.googleapis.com/v1beta"
    key_variable: str = "GEMINI_API_KEY"
    key_header: str = "x-goog-api-key"
    max_items: int = 100

    def base_url(self, given: str) -> str:
        """The address of the OpenAI-compatible interface (``…/openai``) is cut to that of the native one."""
        return given.strip().rstrip("/").removesuffix("/openai").rstrip("/") or self.default_base_url

    def model_name(self, given: str) -> str:
        name = given.strip().removeprefix("models/")
        for prefix in ("gemini/", "google/"):
            if name.startswith(prefix):
                name = name.removeprefix(prefix)
                break
        return name or self.default_model

    def key_value(self, api_key: str) -> str:
        return api_key

    def space_key(self, base_url: str, model: str, headers: Mapping[str, str]) -> str:
        """Formed as OpenClaw does: over address, model and all headers except those that carry a key."""
        pairs = header_pairs(headers, {"authorization", "x-goog-api-key"})
        return hash_of(
            {"provider": self.id, "baseUrl": base_url.rstrip("/"), "model": model, "headers": pairs}
        )

    def request(self, model: str, texts: Sequence[str], purpose: Purpose) -> tuple[str, dict[str, object]]:
        address = f"/models/{quote(model, safe='')}"
        if purpose == "query":
            (text,) = texts
            return f"{address}:embedContent", {**_content(text), "taskType": "RETRIEVAL_QUERY"}
        requests = [
            {"model": f"models/{model}", **_content(text), "taskType": "RETRIEVAL_DOCUMENT"} for text in texts
        ]
        return f"{address}:batchEmbedContents", {"requests": requests}

    def rows(self, answer: object, expected: int) -> list[object] | None:  # noqa: ARG002
        single = field_of(answer, "embedding", "values")
        if single is not None:
            return [single]
        items = field_of(answer, "embeddings")
        if not isinstance(items, list) or not all(
            isinstance(item, dict) and "values" in item for item in items
        ):
            return None
        return [item["values"] for item in items]

    def tokens(self, answer: object) -> int:
        return count_of(field_of(answer, "usageMetadata", "promptTokenCount"))

    def advice(self, status: int | None) -> str:
        address = "Check the base URL (it usually ends in /v1beta) and the model name."
        return advice(status, key_variable=self.key_variable, address=address)


def _content(text: str) -> dict[str, object]:
    return {"content": {"parts": [{"text": text}]}}
