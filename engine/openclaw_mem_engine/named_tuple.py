"""``NamedTuple`` without the work that it does for classes of which no tuple is made.

The standard one compiles every annotation and a ``__new__``: 0.12 ms a class, of which a search loads fifty.
Here annotations remain text (which ``from __future__ import annotations`` makes of them in the file of the
class), and ``__new__`` is compiled for the first tuple.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    # As ``collections.namedtuple`` has it: a descriptor in C, or the same in Python.
    from collections import _tuplegetter as reading

    class _Tuple(tuple):
        __slots__ = ()

        def __new__(cls, /, *values: Any, **named: Any) -> Any:
            owner = next(base for base in cls.__mro__ if "_fields" in base.__dict__)
            fields = ", ".join(owner._fields)
            made = eval(f"lambda _cls, {fields}: _new(_cls, ({fields},))", {"_new": tuple.__new__})
            made.__defaults__ = tuple(owner._field_defaults.values())
            made.__name__, made.__qualname__ = "__new__", f"{owner.__qualname__}.__new__"
            owner.__new__ = staticmethod(made)
            return made(cls, *values, **named)

        @classmethod
        def _make(cls, values: Any) -> Any:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, /, **changes: Any) -> Any:
            return type(self)(**self._asdict() | changes)

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._asdict().items())})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

    class _Class(type):
        def __new__(cls, name: str, _bases: object, namespace: dict[str, Any]) -> type:
            fields = tuple(namespace["__annotations__"])
            defaults = {field: namespace.pop(field) for field in fields if field in namespace}
            namespace |= {"__slots__": (), "_fields": fields, "_field_defaults": defaults}
            namespace |= {field: reading(number, None) for number, field in enumerate(fields)}
            return type(name, (_Tuple,), namespace | {"__match_args__": fields})

    NamedTuple = type.__new__(_Class, "NamedTuple", (), {})
