"""``POST {base}/embeddings`` as OpenAI invented it, and as Mistral and Voyage speak it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openclaw_mem_engine.providers.remote.wires.base import (
    Purpose,
    advice,
    count_of,
    field_of,
    hash_of,
    header_pairs,
    plain_space_key,
)


@dataclass(frozen=True, slots=True)
class OpenAIWire:
    """``says_purpose``: whether a query is marked as one. ``key_by_endpoint``: whether address and headers
    are part of the vector space's key, as in OpenClaw's ``providerKey`` of openai."""

    id: str
    default_model: str
    public_host: str
    key_variable: str
    says_purpose: bool = False
    key_by_endpoint: bool = False
    key_header: str = "Authorization"
    #: OpenAI takes 2,048 inputs, Voyage 1,000; compatible servers often far fewer.
    max_items: int = 128

    @property
    def default_base_url(self) -> str:
        return f"https://{self.public_host}/v1"

    def base_url(self, given: str) -> str:
        return given.strip().rstrip("/") or self.default_base_url

    def model_name(self, given: str) -> str:
        """Without blanks round it and without the provider's own prefix ("openai/")."""
        return given.strip().removeprefix(f"{self.id}/") or self.default_model

    def key_value(self, api_key: str) -> str:
        return f"Bearer {api_key}"

    def space_key(self, base_url: str, model: str, headers: Mapping[str, str]) -> str:
        """Formed as OpenClaw does: for openai over address, model and all headers except Authorization."""
        base_url = base_url.rstrip("/")
        if not self.key_by_endpoint:
            return plain_space_key(self.id, base_url, self.default_base_url, model)
        pairs = header_pairs(headers, {"authorization"})
        return hash_of({"provider": self.id, "baseUrl": base_url, "model": model, "headers": pairs})

    def request(self, model: str, texts: Sequence[str], purpose: Purpose) -> tuple[str, dict[str, object]]:
        body: dict[str, object] = {"model": model, "input": list(texts)}
        if self.says_purpose:
            body["input_type"] = purpose
        return "/embeddings", body

    def rows(self, answer: object, expected: int) -> list[object] | None:
        """Put in order by ``index`` when every item has one and together they number all texts; servers
        that leave it out, or send 0 everywhere, answer in order."""
        items = field_of(answer, "data")
        if not isinstance(items, list) or not all(
            isinstance(item, dict) and "embedding" in item for item in items
        ):
            return None
        numbers = [item.get("index") for item in items]
        if all(type(number) is int for number in numbers) and sorted(numbers) == list(range(expected)):
            items = sorted(items, key=lambda item: int(item["index"]))
        return [item["embedding"] for item in items]

    def tokens(self, answer: object) -> int:
        usage = field_of(answer, "usage")
        return count_of(field_of(usage, "total_tokens")) or count_of(field_of(usage, "prompt_tokens"))

    def advice(self, status: int | None) -> str:
        address = "Check the base URL (it usually ends in /v1) and the model name."
        return advice(status, key_variable=self.key_variable, address=address)


OPENAI = OpenAIWire(
    "openai", "text-embedding-3-small", "api.openai.com", "OPENAI_API_KEY", key_by_endpoint=True
)
VOYAGE = OpenAIWire("voyage", "voyage-4-large", "api.voyageai.com", "VOYAGE_API_KEY", says_purpose=True)
MISTRAL = OpenAIWire("mistral", "mistral-embed", "api.mistral.ai", "MISTRAL_API_KEY")
