"""``openclaw-mem model``: the file of the local provider."""

from __future__ import annotations

import hashlib
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from openclaw_mem_engine.cli.opening import settings_of
from openclaw_mem_engine.cli.progress import ByteProgress
from openclaw_mem_engine.cli.terminal import aligned, is_terminal, one_line, say, show, stoppable
from openclaw_mem_engine.cli.text_format import byte_size
from openclaw_mem_engine.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings

#: The licence of the models that we propose ourselves.
_PROPOSED, _LICENCE = "hf:ggml-org/embeddinggemma", "Gemma terms of use, https://ai.google.dev/gemma/terms"


class ModelFile(NamedTuple):
    """A model and its file. ``size`` is in bytes, None when there is no such file; ``partial`` are bytes of
    a download that was stopped; ``url`` is empty for a path."""

    model: str
    path: Path
    folder: Path
    url: str
    size: int | None
    partial: int


def run(arguments: Namespace) -> int:
    """Show the state of the model, or download it."""
    if arguments.action != "download" and (arguments.yes or arguments.base_url is not None):
        raise UsageError("--yes and --from belong to `openclaw-mem model download`.")
    settings = settings_of(arguments)
    base_url = _checked_base(arguments.base_url)
    file = _model_file(settings, arguments.model, base_url)
    if arguments.action == "download":
        return _download(file, base_url, yes=arguments.yes, as_json=arguments.json)
    return _status(settings, file, as_json=arguments.json)


def _checked_base(text: str | None) -> str:
    """The host to ask. Raises UsageError for an address that text or file could be read from on the way."""
    from openclaw_mem_engine.providers.local.model_file import HUB

    if text is None:
        return HUB
    from openclaw_mem_engine.providers.local.download import may_ask

    text = text.strip().rstrip("/")
    if not may_ask(text) or any(mark in text for mark in "@?#"):
        raise UsageError(
            "--from takes an https address without user name and query (http only for this machine), for "
            "example https://hf-mirror.example."
        )
    return text


def _model_file(settings: Settings, named: str | None, base_url: str) -> ModelFile:
    """The model in question. Raises UsageError (``--model``) or ConfigError (the settings)."""
    from openclaw_mem_engine.providers.local.model_file import DEFAULT_MODEL, hub_file, is_hub, local_path

    if named is not None and not named.strip():
        raise UsageError("--model is empty: give it hf:organisation/repository/file.gguf or a path.")
    provider = settings.provider
    configured = provider.local_model_cache_dir
    folder = settings.data_dir / "models" if configured is None else Path(configured)
    model = (named or provider.local_model_path or "").strip() or DEFAULT_MODEL
    try:
        path, url = local_path(model, folder), ""
        if is_hub(model):
            hub = hub_file(model)
            url = f"{base_url}/{hub.org}/{hub.repo}/resolve/{hub.revision}/{hub.path}"
    except ConfigError as error:
        if named is None:
            raise
        raise UsageError(str(error)) from error
    return ModelFile(model, path, folder, url, _size(path), _size(Path(f"{path}.part")) or 0)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def _status(settings: Settings, file: ModelFile, *, as_json: bool) -> int:
    from importlib.util import find_spec

    from openclaw_mem_engine.providers.local import INSTALL

    installed = find_spec("llama_cpp") is not None
    used = settings.provider.chosen == "local"
    partial = f"; {byte_size(file.partial)} of a stopped download are" if file.partial else ""
    presence = f"not there yet{partial}" if file.size is None else byte_size(file.size)
    facts: dict[str, Any] = {
        "model": file.model,
        "path": str(file.path),
        "present": file.size is not None,
        "size": file.size,
        "partial": file.partial,
        "folder": str(file.folder),
        "url": file.url or None,
        "installed": installed,
        "install": INSTALL,
        "provider": settings.provider.chosen,
    }
    rows = [
        ("model", one_line(file.model)),
        ("file", f"{one_line(str(file.path))} ({presence})"),
        *([("download from", one_line(file.url))] if file.url else []),
        *([("licence", _LICENCE)] if file.model.startswith(_PROPOSED) else []),
        ("llama.cpp", "installed" if installed else f"not installed; run: {INSTALL} (takes minutes)"),
        ("provider", "local, so this model is used" if used else f"{settings.provider.chosen}, not local"),
    ]
    lines = aligned(rows)
    if file.size is None and file.url:
        lines.append("`openclaw-mem model download` fetches it; it asks first.")
    elif file.size is None:
        lines.append(
            "There is no such file: correct provider.local_model_path, or name a model to download (hf:…)."
        )
    show(facts, lines, as_json=as_json)
    return 0


def _download(file: ModelFile, base_url: str, *, yes: bool, as_json: bool) -> int:
    if not file.url:
        raise UsageError(
            f"{one_line(str(file.path))} is a path, and only a model with an address can be downloaded: "
            "--model hf:organisation/repository/file.gguf."
        )
    if not yes and not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise UsageError(
            f"Downloading {file.model} to {file.folder} needs a yes: run it on a terminal, or add --yes."
        )
    from openclaw_mem_engine.providers.local.download import download

    say(f"{file.url} → {file.path}")
    if file.model.startswith(_PROPOSED):
        say(f"licence: {_LICENCE}")
    with stoppable() as token, ByteProgress() as progress:

        def confirm(size: int) -> bool:
            amount = byte_size(size)
            if file.partial:
                amount += f", {byte_size(file.partial)} of it already here,"
            if yes:
                say(f"downloading {amount} to {file.folder}")
            return yes or _agreed(f"Download {amount} to {file.folder}? [y/N] ")

        path = download(
            file.model, file.folder, progress=progress, cancel=token, base_url=base_url, confirm=confirm
        )
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    size = path.stat().st_size
    data = {"model": file.model, "path": str(path), "size": size, "sha256": digest, "url": file.url}
    lines = [
        f"{one_line(str(path))}: {byte_size(size)} ({size:,} bytes)",
        f"sha256 {digest}",
        'It is used with provider "local" (`--provider local`, or provider.name in the settings).',
    ]
    show(data, lines, as_json=as_json)
    return 0


def _agreed(question: str) -> bool:
    sys.stderr.write(one_line(question) + " ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
