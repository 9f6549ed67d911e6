"""Which model file the local provider uses, and where downloaded ones lie."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from openclaw_mem_engine.config.layers import Chosen
from openclaw_mem_engine.config.settings import Origin
from openclaw_mem_engine.model import Note


class LocalModel(NamedTuple):
    """``model``: an absolute path or a URI as written; ``found``: it is the path of a file. ``folder`` is for
    downloads. Both are None when nobody has named one."""

    model: str | None = None
    folder: str | None = None
    found: bool = False


def local_model(chosen: Chosen, cwd: Path, taken: Sequence[Path], notes: list[Note]) -> LocalModel:
    """The configured model. Relative paths of OpenClaw's start at ``cwd``, as there.

    A folder for downloads inside of one of ``taken`` is refused with a note: nothing of ours is written
    there. Raises ConfigError for a placeholder whose variable is not set.
    """
    key = "provider.local_model_path"
    model = chosen.text(key)
    if model is not None and not is_uri(model):
        model = str(chosen.place(key, model, cwd))
    key = "provider.local_model_cache_dir"
    folder = chosen.place(key, chosen.text(key), cwd)
    foreign = next((place for place in taken if folder and lies_in(folder, place)), None)
    if foreign is not None:
        where = chosen.origins[key].where
        text = f"{where} lies in {foreign}, where we write nothing: models are kept in our data folder."
        notes.append(Note("model-folder-refused", text, "warning"))
        chosen.origins[key] = Origin("default", "built in")
        folder = None
    found = model is not None and _is_file(Path(model))
    if found and find_spec("llama_cpp") is None:
        told = (
            f"The model file {model} is there, but not what loads it: "
            "pip install 'openclaw-mem-workbench[local]'. Without it, auto passes local over."
        )
        notes.append(Note("local-extra-missing", told, "warning"))
        found = False
    return LocalModel(model, str(folder) if folder else None, found)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a folder that cannot be looked into
        return False


def is_uri(model: str) -> bool:
    """True for the address of a model, which is downloaded when someone asks for it, and is no path."""
    return model.lower().startswith(("hf:", "http:", "https:"))


def lies_in(path: Path, folder: Path) -> bool:
    """True for the folder itself and everything below it, whatever links lead there."""
    real, taken = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    return real == taken or taken in real.parents
