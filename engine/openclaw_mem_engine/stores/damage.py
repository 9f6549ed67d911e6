"""Searches over an index that may be damaged, where each kind of list fails by itself, or changed since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import Cancelled, IndexChanged, IndexLocked, IndexUnavailable
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.ranking.pool import Ranks
from openclaw_mem_engine.stores.base import IndexStore, SearchStore
from openclaw_mem_engine.stores.query import CandidateRows, LexicalQuery

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Floats


@dataclass(frozen=True, slots=True)
class Damage:
    """What one kind of list could not read. ``space``: that of vectors that were searched, else None."""

    kind: Literal["lexical", "vector"]
    error: IndexUnavailable
    space: Space | None = None

    @property
    def reason(self) -> str:
        """``(cause). repair``: what SQLite or numpy reported, and what repairs this kind of list: the message
        of the error names the repair of a whole index."""
        return f"({self.error.__cause__ or self.error}). {self.error.repair}"


class DamageTolerantSearch:
    """The searches of a store for one retrieval, in one thread. Methods as in ``SearchStore``, but a search
    whose rows cannot be read gives None (no list, no ranks) or nothing (no scores); the damage is kept in
    ``damages`` and given to ``report``. IndexLocked, IndexChanged and Cancelled, which are no damage, are
    raised."""

    def __init__(self, store: SearchStore, report: Callable[[Damage], None] = lambda _: None) -> None:
        self._store = store
        self._report = report
        self.damages: list[Damage] = []

    @contextmanager
    def tolerating(self, kind: Literal["lexical", "vector"], space: Space | None = None) -> Iterator[None]:
        """Leave the body where the index is too damaged for it, and record the damage."""
        try:
            yield
        except (IndexLocked, IndexChanged):
            raise
        except IndexUnavailable as error:
            damage = Damage(kind, error, space)
            self.damages.append(damage)
            self._report(damage)

    def lexical(self, query: LexicalQuery, limit: int) -> CandidateRows | None:
        with self.tolerating("lexical"):
            return self._store.lexical(query, limit)
        return None

    def vector(self, vector: Floats, limit: int, space: Space) -> CandidateRows | None:
        with self.tolerating("vector", space):
            return self._store.vector(vector, limit, space=space)
        return None

    def lexical_scores(self, query: LexicalQuery, ids: Sequence[str]) -> dict[str, float]:
        with self.tolerating("lexical"):
            return self._store.lexical_scores(query, ids)
        return {}

    def line_scores(
        self, query: LexicalQuery, texts: Mapping[str, str], basis: Iterable[str]
    ) -> Mapping[str, tuple[float, ...]]:
        with self.tolerating("lexical"):
            return self._store.line_scores(query, texts, basis)
        return {}

    def cosines(self, vector: Floats, ids: Sequence[str], space: Space) -> dict[str, float]:
        with self.tolerating("vector", space):
            return self._store.cosines(vector, ids, space)
        return {}


def version_of(store: IndexStore, *, follow: bool = True) -> tuple[int, int]:
    """The state of what a store has opened: equal versions have equal content. Raises as ``follow``, without
    which nothing is waited for and the index that was opened last is read, whatever is at its path now."""
    return store.generation(), store.follow(make=False) if follow else store.opened


class LateRanks:
    """Exact ranks, looked up when they are first read, in the ``version`` of the index that was searched."""

    def __init__(
        self, store: IndexStore, version: tuple[int, int], look_up: Callable[[], Mapping[str, int]]
    ) -> None:
        self._store = store
        self._version = version
        self._look_up = look_up
        self._known: Mapping[str, int] | None = None

    def __call__(self) -> Ranks:
        if self._known is None:
            try:
                # Without following it: what draws a screen reads this, and is not to wait for a writer.
                if version_of(self._store, follow=False) == self._version:
                    found = self._look_up()
                    # Nor may it have changed meanwhile.
                    self._known = found if version_of(self._store, follow=False) == self._version else None
            except (IndexUnavailable, Cancelled):
                return "; its exact rank could not be read"
        return (
            "; its exact rank is not known any more: the index has changed since"
            if self._known is None
            else self._known
        )
