"""Models that judge and write, for the child process only: yes/no logits, rank heads, and text by a grammar.

Text of others never becomes a control token: only the words of a template are read with control tokens.
"""

from __future__ import annotations

import ctypes
import math
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.local.native import (
    Aborted,
    LoadedModel,
    NativeFile,
    NativeModel,
    Unusable,
    lists_of,
)

#: As the makers of Qwen3-Reranker give it; the query and the document go between the parts.
_QWEN_RERANK = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    'Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
    "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
    "<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)
_SLOTS = re.compile(r"\{(query|document)\}")
_USER_DEFINED = 1 << 4
_MARK = re.compile(rb"<[^<>\s]+>")
_TEMPLATE_BYTES = 1 << 16
#: So that the same question gets the same answer.
_SEED = 42


class Sampling(NamedTuple):
    """How the next token is chosen: ``presence`` is taken from the score of each of the last 64 tokens."""

    temperature: float
    top_k: int = 20
    top_p: float = 0.8
    presence: float = 0.5


class _Prompted(LoadedModel):
    """Makes tokens of a template and of texts of others."""

    def __init__(
        self, file: NativeFile, *, threads: int, limit: int, should_stop: Callable[[], bool]
    ) -> None:
        super().__init__(file, threads=threads, limit=limit, should_stop=should_stop)
        self.should_stop = should_stop
        lib, vocab = self._lib, self._vocab
        size = int(lib.llama_vocab_n_tokens(vocab))
        marked = (i for i in range(size) if lib.llama_vocab_get_attr(vocab, i) & _USER_DEFINED)
        words = {lib.llama_vocab_get_text(vocab, i) or b"" for i in marked}
        # They are found in any text, whatever is asked for, so they must not be in a text of others.
        self._marks_of_model = sorted(filter(_MARK.fullmatch, words), key=len, reverse=True)

    def plain(self, text: bytes) -> list[int]:
        """Tokens of a text of others."""
        for mark in self._marks_of_model:
            text = text.replace(mark, b" ")
        return self._tokenized(text, marks=False)

    def own(self, text: str) -> list[int]:
        """Tokens of a part of a template."""
        return self._tokenized(text.encode(), marks=False, special=True)

    def filled(self, template: str, query: bytes, document: bytes) -> tuple[list[int], bool]:
        """The tokens of a prompt, and whether text was cut to fit: the query at half of the room."""
        parts = _SLOTS.split(template)
        fixed = [self.own(part) for part in parts[::2]]
        room = self.window - sum(map(len, fixed))
        if room < 2:
            raise Unusable("unfit", f"its context of {self.window} tokens is too small for its prompt")
        asked, text = self.plain(query), self.plain(document)
        kept = {"query": asked[: room // 2]}
        kept["document"] = text[: room - len(kept["query"])]
        tokens = list(fixed[0])
        for name, after in zip(parts[1::2], fixed[1:], strict=True):
            tokens += kept[name] + after
        return tokens, len(asked) + len(text) > sum(map(len, kept.values()))

    def _read(self, tokens: Sequence[int]) -> Any:
        """Calculates these tokens after those before; the logits that follow the last one."""
        lib = self._lib
        array = (lib.llama_token * len(tokens))(*tokens)
        self._decode(lib.llama_batch_get_one(array, len(tokens)))
        return lib.llama_get_logits_ith(self._context, -1)


class YesNoModel(_Prompted):
    """A Qwen3-style reranker: the score is the probability of "yes" against "no" as the next token."""

    kind = "chat"

    def __init__(
        self, file: NativeFile, *, threads: int, limit: int, should_stop: Callable[[], bool]
    ) -> None:
        super().__init__(file, threads=threads, limit=limit, should_stop=should_stop)
        needed = [self.own(word) for word in ("yes", "no", "<|im_start|>", "<|im_end|>")]
        if any(len(tokens) != 1 for tokens in needed):
            raise Unusable("unfit", "it does not know the words of a Qwen3 reranker (yes, no, <|im_start|>)")
        (self._yes,), (self._no,) = needed[:2]

    def scores(self, query: bytes, texts: Sequence[bytes]) -> tuple[list[float], int]:
        """One score per text, and how many were cut. Raises Aborted, Unusable."""
        found, cut = [], 0
        for text in texts:
            if self.should_stop():
                raise Aborted
            tokens, was_cut = self.filled(_QWEN_RERANK, query, text)
            self._lib.llama_memory_clear(self._memory, True)
            logits = self._read(tokens)
            found.append(_sigmoid(logits[self._yes] - logits[self._no]))
            cut += was_cut
        return found, cut


class RankModel(NativeModel, _Prompted):
    """A reranker with a rank head: one number a text (its sigmoid is the score), or one per label."""

    kind = "rank"

    def _width(self) -> int:
        return int(self._lib.llama_model_n_cls_out(self._model))

    def scores(self, query: bytes, texts: Sequence[bytes]) -> tuple[list[float], int]:
        """One score per text, and how many were cut. Raises Aborted, Unusable."""
        pairs = [self._pair(query, text) for text in texts]
        found: list[float] = []
        for positions in lists_of([len(tokens) for tokens, _ in pairs], self.window):
            if self.should_stop():
                raise Aborted
            rows = self.vectors([pairs[position][0] for position in positions])
            found += [self._score(memoryview(row).cast("f").tolist()) for row in rows]
        return found, sum(was_cut for _, was_cut in pairs)

    def _pair(self, query: bytes, text: bytes) -> tuple[list[int], bool]:
        lib, vocab = self._lib, self._vocab
        template = lib.llama_model_chat_template(self._model, b"rerank")
        if template:
            return self.filled(template.decode("utf-8", "replace"), query, text)
        end = lib.llama_vocab_eos(vocab)
        end = lib.llama_vocab_sep(vocab) if end < 0 else end
        first = [lib.llama_vocab_bos(vocab)] if lib.llama_vocab_get_add_bos(vocab) else []
        last = [end] if lib.llama_vocab_get_add_eos(vocab) else []
        between = [lib.llama_vocab_sep(vocab)] if lib.llama_vocab_get_add_sep(vocab) else []
        asked, found = self.plain(self.decomposed(query)), self.plain(self.decomposed(text))
        room = self.window - len(first + last + between + last)
        kept = asked[: room // 2]
        tokens = [*first, *kept, *last, *between, *found[: room - len(kept)], *last]
        return tokens, len(asked) + len(found) > room

    def _score(self, row: Sequence[float]) -> float:
        if len(row) == 1:
            return _sigmoid(row[0])
        names = [self._lib.llama_model_cls_label(self._model, i) or b"" for i in range(len(row))]
        at = names.index(b"yes") if b"yes" in names else 0
        if not (all(0.0 <= value <= 1.0 for value in row) and math.isclose(sum(row), 1.0, abs_tol=1e-3)):
            top = max(row)
            row = [math.exp(value - top) for value in row]
        return row[at] / sum(row)


class WritingModel(_Prompted):
    kind = "chat"

    def complete(
        self, messages: Sequence[tuple[str, str]], most: int | None, sampling: Sampling, grammar: str
    ) -> str:
        """The answer to messages (role, text), at most ``most`` tokens; ``grammar`` is GBNF or "". Raises
        Aborted, Unusable."""
        tokens = self._prompt(messages)
        room = self.window - len(tokens)
        if room < 1:
            raise Unusable("failed", f"the messages are longer than its window of {self.window} tokens")
        lib = self._lib
        chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        try:
            for sampler in self._samplers(sampling, grammar):
                lib.llama_sampler_chain_add(chain, sampler)
            lib.llama_memory_clear(self._memory, True)
            logits = self._read(tokens)
            if not math.isfinite(logits[0]):
                raise Unusable("failed", "its numbers are not finite: the file may be damaged")
            text = bytearray()
            for _ in range(min(room, most or room)):
                if self.should_stop():
                    raise Aborted
                token = int(lib.llama_sampler_sample(chain, self._context, -1))
                if lib.llama_vocab_is_eog(self._vocab, token):
                    break
                text += self._piece(token)
                self._read([token])
        finally:
            lib.llama_sampler_free(chain)
        return text.decode("utf-8", "replace")

    def _samplers(self, sampling: Sampling, grammar: str) -> Iterator[Any]:
        lib = self._lib
        if grammar:
            self._file.log.clear()
            # An invalid grammar in a chain ends the process.
            rules = lib.llama_sampler_init_grammar(self._vocab, grammar.encode(), b"root")
            if not rules:
                raise Unusable("failed", "the grammar is not valid GBNF")
            yield rules
        if sampling.temperature <= 0:
            yield lib.llama_sampler_init_greedy()
            return
        penalties: tuple[float, ...] = (64, 1.0, 0.0, sampling.presence)
        if len(lib.llama_sampler_init_penalties.argtypes) > len(penalties):  # since 2026
            penalties = (lib.llama_vocab_n_tokens(self._vocab), *penalties)
        yield lib.llama_sampler_init_penalties(*penalties)
        yield lib.llama_sampler_init_top_k(sampling.top_k)
        yield lib.llama_sampler_init_top_p(sampling.top_p, 1)
        yield lib.llama_sampler_init_temp(sampling.temperature)
        yield lib.llama_sampler_init_dist(_SEED)

    def _prompt(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """Tokens of the messages in the chat template of the file, each text without control tokens."""
        lib = self._lib
        slot = uuid.uuid4().hex
        chat = (lib.llama_chat_message * len(messages))()
        for at, (role, _) in enumerate(messages):
            chat[at] = lib.llama_chat_message(role.encode(), f"{slot}{at:04}".encode())
        template = lib.llama_model_chat_template(self._model, None) or b"chatml"
        buffer = ctypes.create_string_buffer(_TEMPLATE_BYTES)
        size = lib.llama_chat_apply_template(template, chat, len(messages), True, buffer, len(buffer))
        if not 0 < size <= len(buffer):
            raise Unusable("unfit", "its chat template is not known to llama.cpp")
        tokens: list[int] = []
        parts = re.split(rf"{slot}(\d{{4}})", buffer.raw[:size].decode("utf-8", "replace"))
        for at, part in enumerate(parts):
            tokens += self.plain(messages[int(part)][1].encode()) if at % 2 else self.own(part)
        return tokens

    def _piece(self, token: int) -> bytes:
        buffer = ctypes.create_string_buffer(256)
        size = self._lib.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, False)
        return buffer.raw[: max(size, 0)]


def _sigmoid(value: float) -> float:
    """NaN stays NaN, for the caller to refuse."""
    if value < 0:
        return 1.0 - _sigmoid(-value)
    return 1.0 / (1.0 + math.exp(-value))


def model_class(use: str, kind: str) -> type[LoadedModel]:
    """For the use that a parent asks for, and the kind of the file: a reranker has a rank head, or is a chat
    model that answers yes or no."""
    if use == "rank":
        return RankModel if kind == "rank" else YesNoModel
    return WritingModel if use == "chat" else NativeModel
