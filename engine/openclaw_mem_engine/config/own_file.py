"""Writing our ``config.toml``: single values, with comments and order kept, after a diff for people.

The text before the last change is kept in ``<data folder>/settings``, so that it can be taken back. No other
program's file is ever written.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from openclaw_mem_engine.config.sources import is_there, read_config_text, values_of
from openclaw_mem_engine.errors import ConfigError, UsageError
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.state.disk import held, read_file, refused, replace_file, sync_folder

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings

_LAST = "last.json"


@dataclass(frozen=True, slots=True)
class SettingsEdit:
    """A change of our settings file ``path`` from the text ``before`` to ``after``; None: no file. ``kind``:
    whether it takes the last change back, or makes one again that was taken back."""

    path: Path
    before: str | None
    after: str | None
    kind: Literal["write", "undo", "redo"] = "write"

    def diff(self) -> str:
        """The unified diff, credentials masked; "" when nothing changes."""
        old, new = (redact(text or "").splitlines() for text in (self.before, self.after))
        lines = difflib.unified_diff(old, new, "config.toml", "config.toml", lineterm="")
        return "".join(f"{line}\n" for line in lines)

    @property
    def keys(self) -> frozenset[str]:
        """The settings whose value changes. Raises ConfigError where a text is no TOML."""
        old, new = (values_of(text or "", self.path) for text in (self.before, self.after))
        return frozenset(key for key in {*old, *new} if old.get(key) != new.get(key))


def propose_settings(settings: Settings, values: Mapping[str, Any]) -> SettingsEdit:
    """The change that sets these keys (see ``SETTINGS``) in our file, which need not exist yet. Raises
    ConfigError when the file is broken or is not ours to write, UsageError for a key that cannot be set."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    path = _ours(settings)
    before = read_config_text(path) if is_there(path) else None
    wanted = {**values_of(before or "", path), **values}
    try:
        document = tomlkit.parse(before or "")
        for key, value in values.items():
            *tables, name = key.split(".")
            table: Any = document
            for part in tables:
                if part not in table:
                    table[part] = tomlkit.table()
                table = table[part]
            table[name] = value
        after = tomlkit.dumps(document)
    except (TOMLKitError, TypeError, ValueError):
        after = ""
    if not after or values_of(after, path) != wanted:
        keys = ", ".join(values)
        raise UsageError(f"{keys} cannot be set in {path} as it is written. Nothing was written: edit it.")
    return SettingsEdit(path, before, after)


def propose_undo(settings: Settings) -> SettingsEdit:
    """The change that takes the last one back; of an undo, the redo. Raises UsageError when there is none, or
    the file was changed since; ConfigError as above."""
    path = _ours(settings)
    meta: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        meta = json.loads(read_file(_folder(settings) / _LAST))
    if not isinstance(meta, dict) or meta.get("path") != str(path) or "before" not in meta:
        raise UsageError(f"There is no change of {path} to undo.")
    now = read_config_text(path) if is_there(path) else None
    if _digest(now) != meta.get("after"):
        raise UsageError(f"{path} was modified since: undoing the last change would lose that. Edit it.")
    return SettingsEdit(path, now, meta["before"], "redo" if meta.get("kind") == "undo" else "undo")


def write_settings(settings: Settings, edit: SettingsEdit) -> None:
    """Make a change that was proposed: atomically, readable for this user alone. Raises ConfigError when the
    file was changed meanwhile, WorkspaceError when the disk refuses; then nothing is written."""
    folder = _folder(settings)
    with held(folder, str(edit.path)):
        if (read_config_text(edit.path) if is_there(edit.path) else None) != edit.before:
            raise ConfigError(f"{edit.path} was modified meanwhile: nothing was written. Try again.")
        target = edit.path.resolve()
        meta = {
            "path": str(edit.path),
            "before": edit.before,
            "after": _digest(edit.after),
            "kind": edit.kind,
        }
        writing = folder / _LAST
        try:
            replace_file(writing, json.dumps(meta).encode("ascii"), synced=True)
            sync_folder(folder)
            writing = edit.path
            if edit.after is None:
                target.unlink(missing_ok=True)
            else:
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                replace_file(target, edit.after.encode("utf-8"), synced=True)
            sync_folder(target.parent)
        except OSError as error:
            raise refused(str(writing), error) from error


def _ours(settings: Settings) -> Path:
    """Our file. Raises ConfigError for one that is inside of a folder in which we write nothing."""
    from openclaw_mem_engine.config.load import lies_in

    path = settings.own_file
    for folder, what in ((settings.openclaw.state_dir, "OpenClaw's"), (settings.workspace, "of the notes")):
        if lies_in(path, folder):
            raise ConfigError(
                f"{path} is in the folder {what}: nothing is written there. Name another file in "
                "OPENCLAW_MEM_CONFIG."
            )
    return path


def _folder(settings: Settings) -> Path:
    return settings.data_dir / "settings"


def _digest(text: str | None) -> str:
    return "" if text is None else hashlib.sha256(text.encode("utf-8")).hexdigest()
