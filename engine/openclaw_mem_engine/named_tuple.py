"""``NamedTuple`` without compiling the types of its fields: 4 % of the instructions of a cold search."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Maker(type):
        """Makes the class that ``typing.NamedTuple`` makes."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            names = body.get("__annotations__", {})
            defaults = [body.pop(name) for name in names if name in body]
            made = namedtuple(name, names, defaults=defaults, module=body.pop("__module__"))
            for key, value in body.items():
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Maker):
        """As ``typing.NamedTuple``."""
