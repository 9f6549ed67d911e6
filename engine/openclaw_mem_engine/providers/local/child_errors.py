"""What is said about a child process: how it ended, what it printed, what may help."""

from __future__ import annotations

import signal

from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.sanitize import visible

INSTALL = "pip install 'openclaw-mem-workbench[local]'"
NO_EMBEDDINGS_ADVICE = "Choose a model made for embeddings, such as embeddinggemma or all-MiniLM."


def quoted(said: object, limit: int = 300) -> str:
    """What a child said, fit to be shown: secrets masked, nothing that acts, only the end of long text."""
    text = " | ".join(visible(redact(str(said or ""))).split("\n")).strip(" |.")
    return text if len(text) <= limit else "…" + text[-limit:]


def ending(code: int | None) -> str:
    if code is None:
        return "it closed its output"
    if code >= 0:
        return f"exit code {code}"
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:
        name = ""
    return f"killed by signal {-code}{name}"


def hint(code: int | None) -> str:
    if code == -9:
        return "The system may have run out of memory: a smaller model needs less."
    if code == -4:
        return (
            "This llama-cpp-python was compiled for another processor: reinstall it with "
            'CMAKE_ARGS="-DGGML_NATIVE=OFF".'
        )
    if code == 1:
        return f"If something is missing, run: {INSTALL}."
    return "If it happens again with the same text, try another model or another llama-cpp-python."
