"""Embeddings from a GGUF file on this machine: llama.cpp in a child process, and the download of a model."""

#: What brings llama-cpp-python.
INSTALL = "pip install 'openclaw-mem-workbench[local]'"
