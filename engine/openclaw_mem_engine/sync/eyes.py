"""What sees events of folders: the system's own, through watchfiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Eyes(Protocol):
    """Something that sees events of folders."""

    def changed(self, milliseconds: int) -> set[str]:
        """Paths that changed since the last call; waits for some, that long at most."""

    def close(self) -> None: ...


class NotifyEyes:
    """Events of the system: of ``alone`` folders by themselves, and of ``trees`` with all below them. Raises
    OSError (FileNotFoundError for a folder that is gone) or RuntimeError."""

    def __init__(self, alone: Sequence[str], trees: Sequence[str] = ()) -> None:
        from watchfiles._rust_notify import RustNotify

        self._notifiers: list[RustNotify] = []
        try:
            for folders, recursive in ((alone, False), (trees, True)):
                if folders:
                    # Permissions are not to be ignored: with that, a full table of watches would be, too.
                    self._notifiers.append(RustNotify(list(folders), False, False, 2_000, recursive, False))
        except BaseException:
            self.close()
            raise

    def changed(self, milliseconds: int) -> set[str]:
        found: set[str] = set()
        step = max(1, milliseconds // len(self._notifiers))
        for notifier in self._notifiers:
            seen = notifier.watch(step, step, step, None)
            if isinstance(seen, set):
                found.update(path for _, path in seen)
        return found

    def close(self) -> None:
        for notifier in self._notifiers:
            notifier.close()
