"""Rerankers over HTTP: a rerank endpoint, and a chat model that is asked for a score."""
