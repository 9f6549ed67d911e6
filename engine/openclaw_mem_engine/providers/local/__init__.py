"""Embeddings from a GGUF file on this machine: llama.cpp in a child process, and the download of a model.

Importing this package imports neither numpy nor llama_cpp, and no network library.
"""

from __future__ import annotations

from openclaw_mem_engine.providers.local.download import download
from openclaw_mem_engine.providers.local.embedder import LocalEmbedder
from openclaw_mem_engine.providers.local.hub import DownloadFailed
from openclaw_mem_engine.providers.local.models import DEFAULT_MODEL, local_path

__all__ = ["DEFAULT_MODEL", "DownloadFailed", "LocalEmbedder", "download", "local_path"]
