"""Rerankers: a GGUF model on this machine, an HTTP endpoint, and a chat model that is asked for a score."""
