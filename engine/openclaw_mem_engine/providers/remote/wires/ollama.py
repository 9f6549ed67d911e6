"""Ollama's own protocol: ``POST {base}/api/embed``. No key, the server runs on this machine or nearby."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openclaw_mem_engine.providers.remote.wires.base import (
    Purpose,
    advice,
    count_of,
    field_of,
    plain_space_key,
)


@dataclass(frozen=True, slots=True)
class OllamaWire:
    id: str = "ollama"
    default_model: str = "nomic-embed-text"
    default_base_url: str = "http://127.0.0.1:11434"
    public_host: str = ""
    key_variable: str = ""
    key_header: str = "Authorization"
    max_items: int = 128

    def base_url(self, given: str) -> str:
        """The address of the OpenAI-compatible interface (``…/v1``) is cut to that of the native one."""
        return given.strip().rstrip("/").removesuffix("/v1").rstrip("/") or self.default_base_url

    def model_name(self, given: str) -> str:
        return given.strip().removeprefix("ollama/") or self.default_model

    def key_value(self, api_key: str) -> str:
        return f"Bearer {api_key}"

    def space_key(self, base_url: str, model: str, headers: Mapping[str, str]) -> str:  # noqa: ARG002
        return plain_space_key(self.id, base_url.rstrip("/"), self.default_base_url, model)

    def request(
        self,
        model: str,
        texts: Sequence[str],
        purpose: Purpose,  # noqa: ARG002
    ) -> tuple[str, dict[str, object]]:
        """The same for queries and documents: Ollama has no word for the difference."""
        return "/api/embed", {"model": model, "input": list(texts)}

    def rows(self, answer: object, expected: int) -> list[object] | None:  # noqa: ARG002
        rows = field_of(answer, "embeddings")
        return rows if isinstance(rows, list) else None

    def tokens(self, answer: object) -> int:
        return count_of(field_of(answer, "prompt_eval_count"))

    def advice(self, status: int | None) -> str:
        return advice(
            status,
            key_variable=self.key_variable,
            address="Fetch the model with `ollama pull <model>`, or check the base URL.",
            silence="Start Ollama (`ollama serve`) or check the base URL, then try again.",
        )
