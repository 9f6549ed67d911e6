"""Tiny GGUF models made on the spot, and what tells whether llama-cpp-python is there.

Weights are random from a fixed seed. Those of the BERT layers are small, so a vector is close to the sum of
its word pieces: texts that share words rank first. They say nothing else about quality.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MEAN, CLS, LAST, RANK = 1, 2, 3, 4
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

#: For whole test files that load models.
needs_llama_cpp = [
    pytest.mark.local,
    pytest.mark.skipif(
        importlib.util.find_spec("llama_cpp") is None,
        reason="llama-cpp-python is not installed: uv pip install '.[local]'",
    ),
]

_MINILM = "all-MiniLM-L6-v2-Q8_0.gguf"


def minilm() -> Path | None:
    """The real MiniLM file: named by OPENCLAW_MEM_TEST_MINILM, or beside the repository; None without one."""
    named = os.environ.get("OPENCLAW_MEM_TEST_MINILM")
    beside = Path(__file__).parents[3] / "shared" / "models" / _MINILM
    path = Path(named) if named else beside
    return path if path.is_file() else None


needs_minilm = pytest.mark.skipif(
    minilm() is None, reason=f"no {_MINILM}: name it in OPENCLAW_MEM_TEST_MINILM"
)


def bert(
    path: Path,
    *,
    pooling: int | None = MEAN,
    context: int = 512,
    dims: int = 64,
    layers: int = 1,
    seed: int = 0,
    value: float | None = None,
) -> Path:
    """A WordPiece encoder that knows letters, digits, punctuation and all pairs of letters.

    ``value`` replaces all token rows (NaN: corrupt weights, 0: no meaning at all).
    """
    pairs = [a + b for a in _LETTERS for b in _LETTERS]
    signs = [chr(code) for code in range(33, 127) if not chr(code).isalpha()]
    words = [*_LETTERS, *pairs, *signs]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens += ["\u2581" + word for word in words] + [*_LETTERS, *pairs]
    draw = np.random.default_rng(seed)

    def normal(*shape: int, std: float) -> np.ndarray:
        return (draw.standard_normal(shape) * std).astype(np.float32)

    tensors: dict[str, np.ndarray] = {
        "token_embd.weight": normal(len(tokens), dims, std=1.0),
        "position_embd.weight": normal(context, dims, std=0.02),
        "token_types.weight": normal(2, dims, std=0.02),
    }
    if value is not None:
        tensors["token_embd.weight"][:] = value
    norms = ["token_embd_norm"]
    wide = dims * 2
    for layer in range(layers):
        block = f"blk.{layer}."
        norms += [block + "attn_output_norm", block + "layer_output_norm"]
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensors[f"{block}{name}.weight"] = normal(dims, dims, std=0.05)
            tensors[f"{block}{name}.bias"] = np.zeros(dims, np.float32)
        tensors[f"{block}ffn_up.weight"] = normal(wide, dims, std=0.05)
        tensors[f"{block}ffn_up.bias"] = np.zeros(wide, np.float32)
        tensors[f"{block}ffn_down.weight"] = normal(dims, wide, std=0.05)
        tensors[f"{block}ffn_down.bias"] = np.zeros(dims, np.float32)
    for name in norms:
        tensors[f"{name}.weight"] = np.ones(dims, np.float32)
        tensors[f"{name}.bias"] = np.zeros(dims, np.float32)
    if pooling == RANK:
        tensors |= {"cls.weight": normal(dims, dims, std=0.1), "cls.bias": np.zeros(dims, np.float32)}
        tensors |= {"cls.output.weight": normal(1, dims, std=0.1), "cls.output.bias": np.zeros(1, np.float32)}
    keys: dict[str, Any] = {
        "block_count": layers,
        "context_length": context,
        "embedding_length": dims,
        "feed_forward_length": wide,
        "attention.head_count": 4,
        "attention.layer_norm_epsilon": 1e-12,
        "attention.causal": False,
    }
    if pooling is not None:
        keys["pooling_type"] = pooling
    tokenizer = {
        "model": "bert",
        "pre": "bert-bge",
        "tokens": tokens,
        "token_type": [3] * 5 + [1] * (len(tokens) - 5),
        "token_type_count": 2,
        "padding_token_id": 0,
        "unknown_token_id": 1,
        "cls_token_id": 2,
        "bos_token_id": 2,
        "seperator_token_id": 3,
        "eos_token_id": 3,
        "mask_token_id": 4,
    }
    return _write(path, "bert", keys, tokenizer, tensors)


def causal(
    path: Path,
    *,
    pooling: int | None = None,
    context: int = 4096,
    name: str = "tiny-causal",
    splitter: str = "qwen2",
    chat: bool = False,
    value: float | None = None,
    labels: tuple[str, str] = ("no", "yes"),
) -> Path:
    """A decoder (qwen3) with a byte vocabulary: a chat model, or an embedding model when it pools.

    ``splitter`` is llama.cpp's name of the rules that split text into words; with ``chat`` it knows the words
    of a Qwen3 reranker; ``value`` replaces all token rows. With RANK it has one row for each of ``labels``
    and a template.
    """
    dims, layers, heads, kv_heads, head = 64, 2, 4, 2, 16
    words = ["yes", "no", "<think>", "</think>", "<|im_start|>", "<|im_end|>"] if chat else []
    tokens = [*_byte_letters(), "ye", *words, "<|endoftext|>"]
    draw = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return (draw.standard_normal(shape) * 0.15).astype(np.float32)

    tensors: dict[str, np.ndarray] = {
        "token_embd.weight": normal(len(tokens), dims),
        "output_norm.weight": np.ones(dims, np.float32),
    }
    if value is not None:
        tensors["token_embd.weight"][:] = value
    for layer in range(layers):
        block = f"blk.{layer}."
        for norm, width in (
            ("attn_norm", dims),
            ("ffn_norm", dims),
            ("attn_q_norm", head),
            ("attn_k_norm", head),
        ):
            tensors[f"{block}{norm}.weight"] = np.ones(width, np.float32)
        tensors[block + "attn_q.weight"] = normal(heads * head, dims)
        tensors[block + "attn_k.weight"] = normal(kv_heads * head, dims)
        tensors[block + "attn_v.weight"] = normal(kv_heads * head, dims)
        tensors[block + "attn_output.weight"] = normal(dims, heads * head)
        tensors[block + "ffn_gate.weight"] = normal(128, dims)
        tensors[block + "ffn_up.weight"] = normal(128, dims)
        tensors[block + "ffn_down.weight"] = normal(dims, 128)
    keys: dict[str, Any] = {
        "block_count": layers,
        "context_length": context,
        "embedding_length": dims,
        "feed_forward_length": 128,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": head,
        "attention.value_length": head,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 1e6,
    }
    if pooling is not None:
        keys["pooling_type"] = pooling
    if pooling == RANK:
        keys["classifier.output_labels"] = list(labels)
        tensors["cls.output.weight"] = normal(2, dims)
    end = len(tokens) - 1
    tokenizer = {
        "model": "gpt2",
        "pre": splitter,
        "tokens": tokens,
        "token_type": [*[1] * (end - len(words)), *[1, 1, 4, 4, 3, 3][: len(words)], 3],
        "merges": ["y e", *(["ye s", "n o"] if chat else [])],
        "eos_token_id": end,
        "padding_token_id": end,
        "bos_token_id": end,
        "add_bos_token": False,
        "add_eos_token": pooling == LAST,
    }
    if pooling == RANK:
        tokenizer["tokenizer.chat_template.rerank"] = "<|im_start|>{query}\n{document}<|im_end|>\n"
    return _write(path, "qwen3", keys, tokenizer, tensors, name)


def truncated(source: Path, path: Path, size: int) -> Path:
    """The first ``size`` bytes of a model (negative: all but so many)."""
    path.write_bytes(source.read_bytes()[:size])
    return path


def _byte_letters() -> list[str]:
    """GPT-2's letter for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def _write(
    path: Path,
    architecture: str,
    keys: Mapping[str, Any],
    tokenizer: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    name: str = "tiny",
) -> Path:
    from gguf import GGUFWriter

    writer = GGUFWriter(path, architecture)
    writer.add_name(name)
    for key, value in keys.items():
        _add(writer, f"{architecture}.{key}", value)
    for key, value in tokenizer.items():
        _add(writer, key if key.startswith("tokenizer.") else f"tokenizer.ggml.{key}", value)
    for tensor, values in tensors.items():
        writer.add_tensor(tensor, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: Any, key: str, value: bool | int | float | str | Sequence[Any]) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)
