"""The index of the QMD backend for the commands of ``openclaw-mem qmd``, and what they share."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.opening import open_memory, warned_settings
from openclaw_mem_engine.cli.qmd_formats import FORMATS
from openclaw_mem_engine.cli.terminal import out, say
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.sanitize import visible

if TYPE_CHECKING:
    from openclaw_mem_engine.memory import Memory
    from openclaw_mem_engine.retrieval.qmd import QmdBackend
    from openclaw_mem_engine.stores.qmd.searching import Document


@contextmanager
def opened(arguments: Namespace) -> Iterator[tuple[Memory, QmdBackend]]:
    """A memory that searches with QMD in this process, whatever ``memory.backend`` is, with the collections
    of the configuration. Raises what ``open_memory`` raises."""
    settings = warned_settings(arguments)
    if settings.qmd_process:
        say(
            f"Searches ask the program {settings.qmd.command} (memory.qmd.command). This command is about "
            "the index of openclaw-mem itself."
        )
    if not settings.qmd_in_process:
        from openclaw_mem_engine.config.load import with_backend

        settings = with_backend(settings, "qmd", in_process=True)
    with open_memory(settings) as memory:
        from openclaw_mem_engine.retrieval.qmd import QmdBackend

        assert isinstance(memory.backend, QmdBackend)
        yield memory, memory.backend


class Contexts:
    """The contexts of documents: a folder's own one replaces that of its parents, except with the profile
    ``qmd-2.8``, where they add up."""

    def __init__(self, memory: Memory, backend: QmdBackend) -> None:
        self._replaces = memory.knobs.profile != "qmd-2.8"
        self._contexts = {one.name: one.contexts for one in backend.store.collections()}
        self._global = backend.store.global_context()

    def of(self, document: Document) -> str:
        from openclaw_mem_engine.qmd.collections import context_of

        contexts = self._contexts[document.collection]
        return context_of(contexts, self._global, document.path, replaces=self._replaces)


def format_of(arguments: Namespace) -> str:
    """The output format. Raises UsageError for options that contradict each other."""
    asked = [kind for kind in FORMATS if getattr(arguments, kind)]
    named = list(dict.fromkeys([*filter(None, [arguments.format]), *asked]))
    if len(named) > 1:
        raise UsageError(f"The formats {' and '.join(named)} contradict each other: leave one out.")
    return named[0] if named else "cli"


def out_formatted(text: str, kind: str) -> None:
    """Print results in a format; nothing that acts on a terminal. Nothing for no rows of md and files."""
    if text or kind not in ("md", "files"):
        out(text if kind == "json" else visible(text))
