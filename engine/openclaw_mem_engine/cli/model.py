"""``openclaw-mem model``: the files of local models, for vectors, reranking and query expansion."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from openclaw_mem_engine.cli.opening import settings_of
from openclaw_mem_engine.cli.progress import ByteProgress
from openclaw_mem_engine.cli.terminal import (
    agreed,
    can_ask,
    facts,
    hanging,
    one_line,
    say,
    show,
    stoppable,
    strong,
)
from openclaw_mem_engine.commands import advice
from openclaw_mem_engine.errors import ConfigError, UsageError
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.sanitize import byte_size

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings

#: The licence of the models that we propose ourselves.
_PROPOSED, _LICENCE = "hf:ggml-org/embeddinggemma", "Gemma terms of use, https://ai.google.dev/gemma/terms"
#: The settings of each use: its provider, and its model.
_PROVIDERS = {
    "embedding": ("provider.name", "provider.local_model_path"),
    "rerank": ("rerank.provider", "rerank.model"),
    "expansion": ("expansion.provider", "expansion.model"),
}


class ModelFile(NamedTuple):
    """A model and its file. ``size`` is in bytes, None when there is no such file; ``partial`` are bytes of
    a download that was stopped; ``url`` is empty for a path."""

    use: str
    model: str
    path: Path
    folder: Path
    url: str
    size: int | None
    partial: int


def run_download(arguments: Namespace) -> int:
    """Download the file of a model."""
    settings, base_url = settings_of(arguments), _checked_base(arguments.base_url)
    file = _model_file(settings, arguments.use, arguments.model, base_url)
    return _download(file, base_url, yes=arguments.yes, as_json=arguments.json)


def run(arguments: Namespace) -> int:
    """Show the state of the model."""
    settings, base_url = settings_of(arguments), _checked_base(None)
    file = _model_file(settings, arguments.use, arguments.model, base_url)
    others = [] if arguments.model is not None else [use for use in _PROVIDERS if use != file.use]
    files = [file, *(_model_file(settings, use, None, base_url) for use in others)]
    return _status(settings, files, as_json=arguments.json)


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


def _model_file(settings: Settings, use: str, named: str | None, base_url: str) -> ModelFile:
    """The model for a use. Raises UsageError (``--model``) or ConfigError (the settings)."""
    from openclaw_mem_engine.providers.local import model_file as files
    from openclaw_mem_engine.providers.resolve import model_folder

    configured, default = {
        "embedding": (settings.provider.local_model_path, files.DEFAULT_MODEL),
        "rerank": (settings.rerank.provider == "local" and settings.rerank.model, files.RERANK_MODEL),
        "expansion": (
            settings.expansion.provider == "local" and settings.expansion.model,
            files.EXPANSION_MODEL,
        ),
    }[use]
    folder = model_folder(settings)
    model = (named or configured or "").strip() or default
    try:
        path, url = files.local_path(model, folder), ""
        if files.is_hub(model):
            hub = files.hub_file(model)
            url = f"{base_url}/{hub.org}/{hub.repo}/resolve/{hub.revision}/{hub.path}"
    except ConfigError as error:
        if named is None:
            raise
        raise UsageError(str(error)) from error
    partial = sum(_size(part) or 0 for part in files.parts_of(path)) if url else 0
    return ModelFile(use, model, path, folder, url, _size(path), partial)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def _status(settings: Settings, files: list[ModelFile], *, as_json: bool) -> int:
    """The first file in full, the others in short."""
    from importlib.util import find_spec

    from openclaw_mem_engine.providers.local import INSTALL

    installed = find_spec("llama_cpp") is not None
    file = files[0]
    data: dict[str, Any] = {
        **_facts(settings, file),
        "installed": installed,
        "install": INSTALL,
        "models": [_facts(settings, file) for file in files],
    }
    rows = [
        *_rows(settings, file),
        ("llama.cpp", "installed" if installed else f"not installed; run: {INSTALL} (takes minutes)"),
    ]
    lines = facts(rows)
    for other in files[1:]:
        lines += ["", strong(f"for {other.use}"), *facts(_rows(settings, other))]
    missing = [file for file in files if file.size is None]
    for use in (file.use for file in missing if file.url):
        option = "" if use == "embedding" else f" --for {use}"
        text = f"`openclaw-mem model download{option}` fetches the model for {use}; it asks first."
        lines += hanging(advice(text), 2)
    for file in missing:
        if not file.url:
            setting = _PROVIDERS[file.use][1]
            text = f"There is no such file: correct {setting}, or name a model to download (hf:…)."
            lines += hanging(text, 2)
    show(data, lines, as_json=as_json)
    return 0


def _rows(settings: Settings, file: ModelFile) -> list[tuple[str, str]]:
    partial = f"; {byte_size(file.partial)} of a stopped download are kept" if file.partial else ""
    presence = (
        _with_size(file, "not on this machine") + partial if file.size is None else byte_size(file.size)
    )
    provider = _provider(settings, file.use)
    used = "local, so this model is used" if provider == "local" else f"{provider}, not local"
    return [
        ("model", one_line(file.model)),
        ("file", f"{one_line(str(file.path))} ({presence})"),
        *([("download from", one_line(file.url))] if file.url else []),
        *([("licence", _LICENCE)] if file.model.startswith(_PROPOSED) else []),
        ("provider" if file.use == "embedding" else _PROVIDERS[file.use][0], used),
    ]


def _with_size(file: ModelFile, text: str) -> str:
    """``text`` with the size of the file, where that is known without asking."""
    from openclaw_mem_engine.providers.local.model_file import SIZES

    return ", ".join(filter(None, (text, SIZES.get(file.model))))


def _facts(settings: Settings, file: ModelFile) -> dict[str, Any]:
    return {
        "use": file.use,
        "model": file.model,
        "path": str(file.path),
        "present": file.size is not None,
        "size": file.size,
        "partial": file.partial,
        "folder": str(file.folder),
        "url": file.url or None,
        "provider": _provider(settings, file.use),
    }


def _provider(settings: Settings, use: str) -> str:
    """What is asked for a use now."""
    chosen: str = settings.provider.chosen if use == "embedding" else getattr(settings, use).provider
    return chosen


def _download(file: ModelFile, base_url: str, *, yes: bool, as_json: bool) -> int:
    if not file.url:
        raise UsageError(
            f"{one_line(str(file.path))} is a path, and only a model with an address can be downloaded: "
            "--model hf:organisation/repository/file.gguf."
        )
    if not yes and not can_ask():
        of = _with_size(file, urlsplit(file.url).netloc)
        raise UsageError(
            f"Downloading {file.model} ({of}) to {file.folder} needs confirmation: "
            "use a terminal, or add --yes."
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
            return yes or agreed(f"Download {amount} to {file.folder}?")

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
        f'It is used when {_PROVIDERS[file.use][0]} is "local".'
        if file.use != "embedding"
        else 'It is used with provider "local" (`--provider local`, or provider.name in the settings).',
    ]
    show(data, lines, as_json=as_json)
    return 0
