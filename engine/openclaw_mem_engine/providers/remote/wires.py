"""The embedding protocols of OpenAI (and Voyage, Mistral), Gemini and Ollama: requests and answers as data.

Nothing here touches the network. Each wire is the provider of its name in the registry.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.providers.base import BadAnswer

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Purpose

#: Refusals that may mean "too many or too long inputs", however the message words it.
SPLIT_STATUSES = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class Wire(ABC):
    """The protocol of one provider; without state, so one object serves all embedders.

    ``public_host``: the provider's own, which always wants a key; ``key_variable``: the environment variable
    with the key; both are "" when no key is needed. ``max_items``: the most inputs of a request.
    """

    id: str
    default_model: str
    default_base_url: str
    public_host: str = ""
    key_variable: str = ""
    max_items: int = 128
    key_by_endpoint: bool = False

    #: The header that carries the key.
    key_header: ClassVar[str] = "Authorization"
    #: The end of an OpenAI-compatible address, cut off to get the native one.
    compatible_path: ClassVar[str] = ""
    address_advice: ClassVar[str] = "Check the base URL and the model name."
    silence_advice: ClassVar[str] = (
        "Check the base URL, the network and that the server runs, then try again."
    )

    def base_url(self, given: str) -> str:
        """The address that paths are appended to, without a slash at the end; the default for ""."""
        address = given.strip().rstrip("/")
        if self.compatible_path:
            address = address.removesuffix(self.compatible_path).rstrip("/")
        return address or self.default_base_url

    def model_name(self, given: str) -> str:
        """The name that the server knows, without the provider's prefix ("openai/"); the default for ""."""
        return given.strip().removeprefix(f"{self.id}/") or self.default_model

    def key_value(self, api_key: str) -> str:
        return f"Bearer {api_key}"

    def space_key(self, base_url: str, model: str, headers: Mapping[str, str]) -> str:
        """SHA-256 hex over what determines the vector space: the model, and an address that is not the
        provider's own, where another model may have that name. ``key_by_endpoint``: as OpenClaw's
        ``providerKey``, over address, model and all headers but those that carry a key."""
        base_url = base_url.rstrip("/")
        if self.key_by_endpoint:
            found = {"Content-Type": "application/json", **headers}
            without = {"authorization", self.key_header.lower()}
            names = sorted(found, key=lambda name: (name.lower(), name))
            pairs = [[name, found[name]] for name in names if name.lower() not in without]
            return hash_of({"provider": self.id, "baseUrl": base_url, "model": model, "headers": pairs})
        identity = {"provider": self.id, "model": model}
        if base_url != self.default_base_url:
            identity["baseUrl"] = base_url
        return hash_of(identity)

    @abstractmethod
    def request(self, model: str, texts: Sequence[str], purpose: Purpose) -> tuple[str, dict[str, object]]:
        """(path below the base URL, JSON body)."""

    @abstractmethod
    def rows(self, answer: object, expected: int) -> list[object] | None:
        """The embeddings in the order of the texts, not yet checked; None when there are none."""

    @abstractmethod
    def tokens(self, answer: object) -> int:
        """How many tokens the provider counted; 0 when it does not say."""

    def advice(self, status: int | None) -> str:
        """What to do about an HTTP status; None means no answer."""
        if status is None:
            return self.silence_advice
        if status in (401, 403):
            where = "`openclaw-mem providers` shows where it comes from"
            return f"Check the API key ({where}) and that it may use this model."
        if status == 404:
            return self.address_advice
        if status == 429:
            return "Wait and try again, or check quota and rate limit of the account."
        if 300 <= status < 400:
            return "Redirects are not followed; set the base URL to the final address."
        if status in SPLIT_STATUSES:
            return "Check the model name; a text may be too long for this model."
        return "Try again later, or choose another provider."


@dataclass(frozen=True, slots=True)
class OpenAIWire(Wire):
    """``POST {base}/embeddings``, also spoken by Mistral and Voyage. ``says_purpose``: whether a query is
    marked as one."""

    says_purpose: bool = False

    address_advice: ClassVar[str] = "Check the base URL (it usually ends in /v1) and the model name."

    def request(self, model: str, texts: Sequence[str], purpose: Purpose) -> tuple[str, dict[str, object]]:
        body: dict[str, object] = {"model": model, "input": list(texts)}
        if self.says_purpose:
            body["input_type"] = purpose
        return "/embeddings", body

    def rows(self, answer: object, expected: int) -> list[object] | None:
        """In the order of ``index``, which counts from 0 or 1, maybe as text; without it in the order of the
        answer. Raises BadAnswer when it does not say which vector belongs to which text."""
        items = _items(answer, "data", "embedding")
        if items is None:
            return None
        given = [item.get("index") for item in items]
        if len(items) == expected and any(number is not None for number in given):
            numbers = [_whole(number) for number in given]
            if sorted(numbers) not in (list(range(expected)), list(range(1, expected + 1))):
                said = ", ".join(repr(number)[:20] for number in given[:5])
                raise BadAnswer(
                    f"{self.id} embeddings: {expected} texts were sent, and the vectors of the answer are "
                    f"numbered {said}{', …' if expected > 5 else ''}: which belongs to which text is "
                    "unknown, so nothing of it was kept. Check the server, or choose another provider."
                )
            items = [item for _, item in sorted(zip(numbers, items, strict=True), key=itemgetter(0))]
        return [item["embedding"] for item in items]

    def tokens(self, answer: object) -> int:
        usage = field_of(answer, "usage")
        return count_of(field_of(usage, "total_tokens")) or count_of(field_of(usage, "prompt_tokens"))


@dataclass(frozen=True, slots=True)
class GeminiWire(Wire):
    """Gemini's own protocol: ``{base}/models/<model>:embedContent`` and ``:batchEmbedContents``."""

    key_header: ClassVar[str] = "x-goog-api-key"
    compatible_path: ClassVar[str] = "/openai"
    address_advice: ClassVar[str] = "Check the base URL (it usually ends in /v1beta) and the model name."

    def model_name(self, given: str) -> str:
        return re.sub(r"^(models/)?((gemini|google)/)?", "", given.strip()) or self.default_model

    def key_value(self, api_key: str) -> str:
        return api_key

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
        items = _items(answer, "embeddings", "values")
        return None if items is None else [item["values"] for item in items]

    def tokens(self, answer: object) -> int:
        return count_of(field_of(answer, "usageMetadata", "promptTokenCount"))


def _content(text: str) -> dict[str, object]:
    return {"content": {"parts": [{"text": text}]}}


@dataclass(frozen=True, slots=True)
class OllamaWire(Wire):
    """Ollama's own protocol: ``POST {base}/api/embed``. No key; the server runs on this machine or nearby."""

    compatible_path: ClassVar[str] = "/v1"
    address_advice: ClassVar[str] = "Fetch the model with `ollama pull <model>`, or check the base URL."
    silence_advice: ClassVar[str] = "Start Ollama (`ollama serve`) or check the base URL, then try again."

    def request(self, model: str, texts: Sequence[str], _: Purpose) -> tuple[str, dict[str, object]]:
        return "/api/embed", {"model": model, "input": list(texts)}

    def rows(self, answer: object, expected: int) -> list[object] | None:  # noqa: ARG002
        rows = field_of(answer, "embeddings")
        return rows if isinstance(rows, list) else None

    def tokens(self, answer: object) -> int:
        return count_of(field_of(answer, "prompt_eval_count"))


OPENAI = OpenAIWire(
    "openai",
    "text-embedding-3-small",
    "https://api.openai.com/v1",
    "api.openai.com",
    "OPENAI_API_KEY",
    key_by_endpoint=True,
)
VOYAGE = OpenAIWire(
    "voyage",
    "voyage-4-large",
    "https://api.voyageai.com/v1",
    "api.voyageai.com",
    "VOYAGE_API_KEY",
    says_purpose=True,
)
MISTRAL = OpenAIWire(
    "mistral", "mistral-embed", "https://api.mistral.ai/v1", "api.mistral.ai", "MISTRAL_API_KEY"
)
GEMINI = GeminiWire(
    "gemini",
    "gemini-embedding-001",
    "https://generativelanguage.googleapis.com/v1beta",
    "generativelanguage.googleapis.com",
    "GEMINI_API_KEY",
    max_items=100,
    key_by_endpoint=True,
)
OLLAMA = OllamaWire("ollama", "nomic-embed-text", "http://127.0.0.1:11434")

_WIRES: dict[str, Wire] = {wire.id: wire for wire in (OPENAI, GEMINI, VOYAGE, MISTRAL, OLLAMA)}


def wire_of(provider: str) -> Wire:
    """The protocol of "openai", "gemini", "voyage", "mistral" or "ollama". Raises ConfigError for others."""
    wire = _WIRES.get(provider)
    if wire is None:
        raise ConfigError(f"{provider!r} is not a remote embedding provider. Known: {', '.join(_WIRES)}.")
    return wire


def parsed(body: bytes, label: str, api: str = "an embeddings API") -> object:
    """The JSON of an answer. ``label`` names provider and host, ``api`` what was asked. Raises BadAnswer."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise BadAnswer(
            f"{label} sent something that is not JSON ({len(body):,} bytes). "
            f"Check that the base URL is that of {api}."
        ) from None


def field_of(answer: object, *names: str) -> object:
    """The value at a path of keys, or None when the answer has another shape."""
    for name in names:
        if not isinstance(answer, dict):
            return None
        answer = answer.get(name)
    return answer


def _items(answer: object, name: str, key: str) -> list[dict[str, Any]] | None:
    """The list ``name`` of an answer, when all its items have ``key``."""
    items = field_of(answer, name)
    is_good = isinstance(items, list) and all(isinstance(item, dict) and key in item for item in items)
    return items if is_good else None  # type: ignore[return-value]


def _whole(value: object) -> int:
    """A whole number, also given as text or as 1.0; -1 for anything else."""
    try:
        number = float(value) if type(value) in (int, float, str) else -1.0  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return -1
    return int(number) if number.is_integer() else -1


def count_of(value: object) -> int:
    """``value`` when it is a count, else 0."""
    return value if type(value) is int and value > 0 else 0


def hash_of(identity: Mapping[str, object]) -> str:
    """SHA-256 hex of compact JSON with the keys in the given order."""
    text = json.dumps(identity, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
