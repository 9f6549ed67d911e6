"""Embeddings from a GGUF model on this machine."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from openclaw_mem_engine.model import Note, Prompted, utf8
from openclaw_mem_engine.providers.base import BadAnswer, check_vectors
from openclaw_mem_engine.providers.base_embedder import BaseEmbedder
from openclaw_mem_engine.providers.local.model_file import is_hub, prompts_for
from openclaw_mem_engine.providers.local.shared_model import LocalService, ModelOptions, bounded

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.base import Purpose, Vector
    from openclaw_mem_engine.providers.local.process import Answer, ModelProcess

#: Counted up when the same text and file would give other vectors: cutting, normalising, decomposing.
ENCODING_VERSION = 1
#: As documented for local models; longer texts are cut at the model's window and counted.
MAX_INPUT_BYTES = 2048

#: 16 bytes a token of the largest window; that cuts again, unless most of a text is white space.
_LONGEST_BYTES = 32_768


class LocalEmbedder(LocalService, BaseEmbedder):
    """Embeds with llama.cpp in a child process. Nothing is read or started before the first text.

    Options are those of ``SharedModel``; an empty ``model`` means the default one. Timeouts are in seconds.
    """

    max_input_bytes: int | None = MAX_INPUT_BYTES
    # A second's work, so that a query does not wait long for its turn.
    batch_texts = 32
    batch_chars = 6144

    def __init__(
        self,
        model: str = "",
        *,
        query_timeout_s: float = 300.0,
        batch_timeout_s: float = 600.0,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(model, "embed", **options)
        self._file = self._shared.file
        self._query_timeout_s = query_timeout_s
        self._batch_timeout_s = batch_timeout_s
        #: Texts that were longer than the model's window and lost their end, since the start.
        self.cut_texts = self._reported_cut = 0

    @property
    def key(self) -> str:
        """SHA-256 hex over the model file (size and samples of its content) and what we do to a text; over
        the model's name as long as there is no file. Prompts that only the file decides follow from its
        content."""
        prompts = prompts_for(self.model)
        identity = {
            "provider": self.id,
            "encoding": ENCODING_VERSION,
            "model": self._file.digest() or (self.model if is_hub(self.model) else str(self._file.path)),
            "prompts": [prompts.query, prompts.document],
        }
        return hashlib.sha256(utf8(json.dumps(identity, separators=(",", ":")))).hexdigest()

    @property
    def pid(self) -> int | None:
        return self._shared.pid

    def embed_batch(
        self, texts: Sequence[str], purpose: Purpose, cancel: CancelToken | None
    ) -> list[Vector | None]:
        """Unit float32 (dims,), or None for a text without words. Blocks while other texts use the model.

        Raises NotConfigured (no file, no llama_cpp, no embedding model), RequestFailed (the process died or
        did not answer in time), BadAnswer (the model gave no usable numbers), Cancelled within about 0.3 s.
        """
        vectors: list[Vector | None] = [None] * len(texts)
        query = purpose == "query"
        used = [position for position, text in enumerate(texts) if text.strip()]
        if not used:
            return vectors

        def embed(process: ModelProcess, deadline: float) -> tuple[Answer, int]:
            prompts = prompts_for(self.model, process.architecture)
            prompt = prompts.query if query else prompts.document
            sent = [
                bounded(text if isinstance(text, Prompted) else prompt + text, _LONGEST_BYTES)
                for text in (texts[position] for position in used)
            ]
            answer = process.embed(sent, deadline=deadline, cancel=cancel)
            self.cut_texts += answer.cut
            return answer, process.dims

        answer, dims = self._shared.run(
            embed,
            takes_s=self._batch_timeout_s,
            # A query counts the time that it waits for its turn, documents do not.
            waits_s=self._query_timeout_s if query else math.inf,
            urgent=query,
            cancel=cancel,
        )
        self.dims, name = dims, f"local model {self.model}"
        try:
            found = check_vectors(list(answer.rows), expected=len(answer.full), dims=dims, provider=name)
        except BadAnswer as exc:
            raise BadAnswer(
                f"{exc} The file {self._file.path} may be damaged: compare its SHA-256 with the "
                "publisher's, or fetch it again."
            ) from exc
        for position, vector in zip(answer.full, found, strict=True):
            vectors[used[position]] = vector
        return vectors

    def take_notes(self) -> tuple[Note, ...]:
        """Texts that are longer than the model's window: their ends have no part in the vectors."""
        cut, self._reported_cut = self.cut_texts - self._reported_cut, self.cut_texts
        if not cut:
            return ()
        texts = "1 text is" if cut == 1 else f"{cut:,} texts are"
        message = f"{texts} longer than the window of {self.model}: what is beyond it is not in the vectors."
        return (Note("texts-cut", message, "warning"),)
