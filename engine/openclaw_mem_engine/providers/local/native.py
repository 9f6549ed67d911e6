"""llama.cpp itself, for the child process only: every call that can end the process is guarded here.

Through the C functions of ``llama_cpp`` instead of its ``Llama`` class: that one takes no token lists, cuts
inputs without their end mark, reserves memory for logits that no embedding has, and compiles the chat
template of the file.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
import unicodedata
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

#: Texts per call of the library, and their tokens together: more of them attend to each other's padding.
LIST_TEXTS = 8
LIST_TOKENS = 256
#: A window below this holds little more than the marks at both ends, and no full list.
MIN_WINDOW = LIST_TEXTS
#: Tokens per step of a model that gives logits: 256 rows of 150,000 numbers are 155 MB.
_LOGIT_ROWS = 256

_ABORTED = 2
_LOG_WARN, _LOG_ERROR, _LOG_CONT = 3, 4, 5


class Unusable(Exception):
    """``kind``: "missing" (llama_cpp, or a library that it needs), "model" (the library does not accept the
    file), "unfit" (a model, but not one for this use), "failed" (a failure for these texts)."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Aborted(Exception):
    """Stopped on request; the model goes on working."""


class NativeFile:
    """The weights, the vocabulary and the header of a file. ``kind``: what a model makes of a text, a vector
    ("embed"), a score ("rank") or the next token ("chat"). Raises Unusable."""

    def __init__(self, path: str) -> None:
        try:
            lib = _bindings()
        except (ImportError, OSError, RuntimeError) as exc:  # all three are raised by the bindings
            raise Unusable("missing", f"{type(exc).__name__}: {exc}") from exc

        self.lib: Any = lib
        self.log: deque[str] = deque(maxlen=20)
        # ctypes callbacks must outlive their use, so they are kept here.
        self._log_callback = lib.llama_log_callback(self._keep_log)
        lib.llama_log_set(self._log_callback, ctypes.c_void_p(0))
        lib.llama_backend_init()

        params = lib.llama_model_default_params()
        params.n_gpu_layers = 0  # a calculation on a GPU cannot be stopped half-way, nor repeated to the bit
        if hasattr(params, "use_extra_bufts"):
            params.use_extra_bufts = False  # repacked weights end a processor with AMX in a SIGSEGV
        self.model = lib.llama_model_load_from_file(path.encode("utf-8", "surrogateescape"), params)
        if not self.model:
            raise Unusable("model", self.said() or "the library gave no reason")
        self.architecture = self._fact("general.architecture")
        pooling = self._fact(f"{self.architecture}.pooling_type")
        none, rank = lib.LLAMA_POOLING_TYPE_NONE, lib.LLAMA_POOLING_TYPE_RANK
        self.kind = {"": "chat", str(none): "chat", str(rank): "rank"}.get(pooling, "embed")

    def said(self) -> str:
        """The last errors of the library."""
        return "; ".join(line for line in self.log if line)

    def _fact(self, key: str) -> str:
        """A value of the header; "" when there is none."""
        buffer = ctypes.create_string_buffer(256)
        self.lib.llama_model_meta_val_str(self.model, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace")

    def _keep_log(self, level: int, text: bytes, _data: object) -> None:
        """Called by the library for every line of its log; the parent reads warnings and errors there."""
        if level in (_LOG_WARN, _LOG_ERROR):
            line = text.decode("utf-8", "replace")
            if level == _LOG_ERROR:
                self.log.append(line.strip())
            print(line, end="", file=sys.stderr, flush=True)


#: Why a model of one kind is not for the use of another.
_UNFIT = {
    "embed": "it makes embeddings",
    "rank": "it is a reranker",
    "chat": "it declares no pooling, as chat models do",
}


class LoadedModel:
    """One loaded model and its context. ``window`` is the longest input in tokens.

    ``should_stop`` is called by the library between two steps of a calculation, from any thread.
    Raises Unusable, for a file of another kind as well.
    """

    #: Of the file. A "chat" model gives logits, the others vectors or what a rank head makes of them.
    kind = "embed"

    def __init__(
        self, file: NativeFile, *, threads: int, limit: int, should_stop: Callable[[], bool]
    ) -> None:
        if file.kind != self.kind:
            raise Unusable("unfit", _UNFIT[file.kind])
        self._file, self._lib, self._model = file, file.lib, file.model
        lib = self._lib
        self._vocab = lib.llama_model_get_vocab(self._model)
        self.wordpiece: bool = lib.llama_vocab_type(self._vocab) == lib.LLAMA_VOCAB_TYPE_WPM

        self.window = min(int(lib.llama_model_n_ctx_train(self._model)), limit)
        if self.window < MIN_WINDOW:
            raise Unusable("unfit", f"its context of {self.window} tokens is too small for any text")
        # The library tries its buffers with full lists; mean pooling aborts when they do not come out even.
        self.window -= self.window % LIST_TEXTS
        self._context = self._new_context(threads)
        self._abort_callback = lib.ggml_abort_callback(lambda _data: should_stop())
        lib.llama_set_abort_callback(self._context, self._abort_callback, None)
        self._memory = lib.llama_get_memory(self._context)  # None for encoders

    def _new_context(self, threads: int) -> Any:
        lib = self._lib
        params = lib.llama_context_default_params()
        # One value for all three: an encoder aborts when n_batch exceeds n_ubatch or its positions. Logits
        # are of decoders, and their buffer takes n_ubatch rows as long as the vocabulary.
        params.n_ctx = params.n_batch = params.n_ubatch = self.window
        embeddings = self.kind != "chat"
        if not embeddings:
            params.n_ubatch = min(self.window, _LOGIT_ROWS)
        params.n_seq_max = LIST_TEXTS if embeddings else 1
        params.kv_unified = True
        params.n_threads = params.n_threads_batch = threads
        params.embeddings = embeddings
        params.pooling_type = lib.LLAMA_POOLING_TYPE_UNSPECIFIED  # as the file says
        for attention in (lib.LLAMA_FLASH_ATTN_TYPE_ENABLED, lib.LLAMA_FLASH_ATTN_TYPE_DISABLED):
            params.flash_attn_type = attention  # a third faster; a few architectures refuse it
            context = lib.llama_init_from_model(self._model, params)
            if context:
                return context
        raise Unusable("model", self._file.said() or "the library made no context and gave no reason")

    def _decode(self, batch: Any) -> None:
        """Calculates a batch. Raises Aborted, Unusable."""
        self._file.log.clear()
        code = int(self._lib.llama_decode(self._context, batch))
        if code == _ABORTED:
            raise Aborted
        if code != 0:
            raise Unusable("failed", f"llama_decode returned {code}. {self._file.said()}".strip())

    def _tokenized(self, text: bytes, *, marks: bool = True, special: bool = False) -> list[int]:
        """With ``marks`` those that the model wants at both ends; ``special``: text that looks like a control
        token is one."""
        lib = self._lib
        room = len(text) + 16
        for _ in range(2):
            tokens = (lib.llama_token * room)()
            count = int(lib.llama_tokenize(self._vocab, text, len(text), tokens, room, marks, special))
            if count >= 0:
                return list(tokens[:count])
            room = -count
        raise Unusable("failed", "a text cannot be cut into tokens")


def _bindings() -> Any:
    """The module with the C functions, without what ``llama_cpp`` imports for its classes (numpy, jinja2 and
    more: half of the time until a model is loaded). Raises what the module raises."""
    spec = importlib.util.find_spec("llama_cpp")
    if spec is not None and "llama_cpp" not in sys.modules:
        sys.modules["llama_cpp"] = importlib.util.module_from_spec(spec)  # a package, not executed
        try:
            return importlib.import_module("llama_cpp.llama_cpp")
        except (ImportError, AttributeError):
            pass  # the functions need the package itself
        finally:
            del sys.modules["llama_cpp"]
    return importlib.import_module("llama_cpp.llama_cpp")


class NativeModel(LoadedModel):
    """A model that makes one row of ``dims`` numbers of a text. Raises Unusable."""

    def __init__(
        self, file: NativeFile, *, threads: int, limit: int, should_stop: Callable[[], bool]
    ) -> None:
        super().__init__(file, threads=threads, limit=limit, should_stop=should_stop)
        lib = self._lib
        self.dims = self._width()
        self._batch = lib.llama_batch_init(self.window, 0, 1)
        self._marks = self._tokenized(b"")

    def _width(self) -> int:
        """Numbers of a row."""
        lib = self._lib
        return int(getattr(lib, "llama_model_n_embd_out", lib.llama_model_n_embd)(self._model))

    def tokens(self, text: bytes) -> tuple[list[int], bool]:
        """Tokens that fit the window, and whether some were cut. Empty for a text without any of its own.

        A cut keeps the mark at the end ([SEP]). Text that looks like a mark counts as text.
        """
        tokens = self._tokenized(self.decomposed(text))
        if len(tokens) <= len(self._marks):
            return [], False
        if len(tokens) <= self.window:
            return tokens, False
        end = tokens[-1:] if self._marks and tokens[-1] == self._marks[-1] else []
        return tokens[: self.window - len(end)] + end, True

    def decomposed(self, text: bytes) -> bytes:
        """The text as the tokeniser of this model needs it."""
        if not self.wordpiece or text.isascii():
            return text
        # The library keeps one code point of a decomposed character, right for accents alone: Hangul
        # would lose its vowels. Decomposed beforehand, the tokens are those of the original tokeniser.
        decomposed = unicodedata.normalize("NFD", text.decode("utf-8", "replace"))
        return "".join(c for c in decomposed if unicodedata.category(c) != "Mn").encode()

    def vectors(self, lists: Sequence[Sequence[int]]) -> list[bytes]:
        """float32 values of one vector per token list, in one call of the library.

        At most LIST_TEXTS lists, none empty, ``window`` tokens together. Raises Aborted, Unusable.
        """
        lib, batch = self._lib, self._batch
        if not (0 < len(lists) <= LIST_TEXTS and all(lists) and sum(map(len, lists)) <= self.window):
            # It would abort the process.
            raise Unusable("failed", "a list of texts that the model cannot take at once")
        flat = [(number, *item) for number, tokens in enumerate(lists) for item in enumerate(tokens)]
        for at, (number, position, token) in enumerate(flat):
            batch.token[at] = token
            batch.pos[at] = position
            batch.seq_id[at][0] = number
            batch.n_seq_id[at] = batch.logits[at] = 1
        batch.n_tokens = len(flat)
        if self._memory:
            lib.llama_memory_clear(self._memory, True)
        self._decode(batch)
        found: list[bytes] = []
        for number in range(len(lists)):
            values = lib.llama_get_embeddings_seq(self._context, number)
            if not values:
                raise Unusable("failed", "the library has no vector for a text")
            found.append(ctypes.string_at(values, 4 * self.dims))
        return found


def lists_of(sizes: Sequence[int], window: int) -> list[list[int]]:
    """Which texts go into one call: neighbours, as long as they are short together; a long one goes alone.

    ``sizes`` are tokens per text, none above ``window``. Returns positions in ``sizes``.
    """
    most = min(LIST_TOKENS, window)
    lists: list[list[int]] = []
    total = 0
    for position, size in enumerate(sizes):
        if lists and lists[-1] and len(lists[-1]) < LIST_TEXTS and total + size <= most:
            lists[-1].append(position)
            total += size
        else:
            lists.append([position])
            total = size
    return lists
