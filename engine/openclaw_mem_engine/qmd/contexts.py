"""Contexts: what the user says of a folder of a collection, shown with every document below it."""

from __future__ import annotations

from collections.abc import Mapping


def context_of(contexts: Mapping[str, str], global_context: str, path: str, *, replaces: bool) -> str:
    """The context of a document at ``path`` in a collection with ``contexts`` by path prefix; "" without any.

    ``replaces`` False, as QMD 2.8.3 does: the global context and that of every prefix add up, general to
    specific, with a blank line between them, and ``memory`` is also a prefix of ``memoryx.md``. True, as
    documented: the context of a folder replaces that of its parents, and only whole names count; the global
    context stays before it."""
    below = {_below_root(prefix, whole=replaces): text for prefix, text in contexts.items()}
    full = _below_root(path, whole=replaces)
    fitting = [
        text
        for prefix, text in sorted(below.items(), key=lambda item: len(item[0]))
        if full.startswith(prefix)
    ]
    return "\n\n".join(filter(None, [global_context, *(fitting[-1:] if replaces else fitting)]))


def _below_root(path: str, *, whole: bool) -> str:
    """``/path``, and ``/path/`` where only whole names are compared."""
    path = path if path.startswith("/") else f"/{path}"
    return f"{path.rstrip('/')}/" if whole else path
