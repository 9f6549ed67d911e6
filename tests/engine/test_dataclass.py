"""Our ``dataclass`` is the standard one, whose methods it makes later."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from openclaw_mem_engine.dataclass import dataclass

Make = Callable[..., Any]


def classes(make: Make) -> tuple[Any, Any, Any]:
    """A frozen class, one that is not, and one that inherits from the frozen one."""

    @make(frozen=True, slots=True)
    class Frozen:
        """Frozen."""

        kind: ClassVar[str] = "frozen"
        one: int
        two: str = dataclasses.field(default="b", repr=False)
        three: list[int] = dataclasses.field(default_factory=list, compare=False)
        four: int = dataclasses.field(default=4, kw_only=True)

    @make(slots=True)
    class Open:
        """Open."""

        one: int
        total: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            self.total = self.one + 1

    @make(frozen=True, slots=True, kw_only=True)
    class Inheriting(Frozen):
        """Inheriting."""

        five: int

        def __repr__(self) -> str:
            return "its own"

    return Frozen, Open, Inheriting


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except (TypeError, AttributeError) as error:
        return type(error).__name__, str(error)


CASES: list[Callable[[Any, Any, Any], object]] = [
    lambda frozen, _open, _more: repr(frozen(1, "c", [3], four=5)),
    lambda frozen, _open, _more: (frozen(1).three, frozen(1).three is frozen(1).three, frozen(1).four),
    lambda frozen, _open, _more: (frozen(1) == frozen(1, three=[1]), frozen(1) == frozen(2), frozen(1) == 1),
    lambda frozen, _open, _more: (len({frozen(1), frozen(1), frozen(2)}), frozen.kind, frozen.__match_args__),
    lambda frozen, _open, _more: frozen(),
    lambda frozen, _open, _more: frozen(1, "b", [], 4),
    lambda frozen, _open, _more: frozen(1, six=6),
    lambda frozen, _open, _more: setattr(frozen(1), "one", 2),
    lambda frozen, _open, _more: delattr(frozen(1), "one"),
    lambda frozen, _open, _more: repr(dataclasses.replace(frozen(1), one=3, four=9)),
    lambda frozen, _open, _more: dataclasses.asdict(frozen(1)),
    lambda _frozen, open_, _more: (repr(open_(1)), open_(1) == open_(1), open_.__hash__),
    lambda _frozen, open_, _more: hash(open_(1)),
    lambda _frozen, open_, _more: setattr(open_(1), "other", 2),
    lambda _frozen, _open, more: (
        repr(more(1, five=5)),
        more(1, five=5) == more(1, five=6),
        more(1, five=5).two,
    ),
    lambda frozen, _open, more: (frozen(1) == more(1, five=5), more.__doc__, frozen.__slots__),
]


@pytest.mark.parametrize("case", CASES)
def test_it_does_what_the_standard_one_does(case: Callable[[Any, Any, Any], object]) -> None:
    ours, standard = classes(dataclass), classes(dataclasses.dataclass)
    for _ in range(20):  # also once ``__init__`` is compiled
        assert outcome(lambda: case(*ours)) == outcome(lambda: case(*standard))


def test_nothing_is_compiled_for_a_few_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    run = exec

    def recorded(*arguments: Any) -> None:
        compiled.append(arguments[0])
        run(*arguments)

    monkeypatch.setattr("builtins.exec", recorded)
    frozen, _, _ = classes(dataclass)
    assert frozen(1) == frozen(1, two="b")
    assert not compiled
    assert len({frozen(number) for number in range(20)}) == 20
    assert len(compiled) == 1
