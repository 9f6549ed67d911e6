"""Our ``NamedTuple`` is the standard one, which makes its ``__new__`` later."""

from __future__ import annotations

import copy
import typing
from collections.abc import Callable
from typing import Any

import pytest

from openclaw_mem_engine import named_tuple


class Standard(typing.NamedTuple):
    """A pair."""

    one: int
    two: str = "b"

    @property
    def both(self) -> str:
        return f"{self.one}{self.two}"


def ours() -> Any:
    class Ours(named_tuple.NamedTuple):
        """A pair."""

        one: int
        two: str = "b"

        @property
        def both(self) -> str:
            return f"{self.one}{self.two}"

    return Ours


CASES: list[Callable[[Any], object]] = [
    lambda pair: (pair(1), pair(1, "c").two, pair(two="d", one=3), pair(1).both, pair(1) == (1, "b")),
    lambda pair: (pair._fields, pair._field_defaults, pair.__match_args__, pair.__doc__),
    lambda pair: (pair._make([1, 2]), pair._make([1, 2])._replace(one=5), pair(1)._asdict(), [*pair(1)]),
    lambda pair: (repr(pair(1)).partition("(")[2], copy.copy(pair(1)), hash(pair(1)), type(pair) is type),
    lambda pair: pair._make([1]),
    lambda pair: setattr(pair(1), "one", 2),
    lambda pair: setattr(pair(1), "three", 2),
]
WRONG: list[Callable[[Any], object]] = [
    lambda pair: pair(),
    lambda pair: pair(1, 2, 3),
    lambda pair: pair(1, three=3),
]


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except (TypeError, AttributeError) as error:
        return type(error).__name__


@pytest.mark.parametrize("case", [*CASES, *WRONG])
def test_it_does_what_the_standard_one_does(case: Callable[[Any], object]) -> None:
    made = ours()
    for _ in range(2):  # the first tuple compiles ``__new__``
        assert outcome(lambda: case(made)) == outcome(lambda: case(Standard))


def test_a_subclass_makes_its_own_tuples() -> None:
    class More(ours()):  # type: ignore[misc]
        """More."""

    assert type(More(1)) is More and More(1) == (1, "b")
    assert type(More(1)._replace(one=2)) is More


def test_nothing_is_compiled_for_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    monkeypatch.setattr("builtins.eval", lambda *code: compiled.append(code))
    ours()
    assert not compiled
