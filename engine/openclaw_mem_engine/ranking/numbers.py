"""Scores in words."""

from __future__ import annotations


def apart(value: float, limit: float, digits: int = 3) -> str:
    """The value with ``digits`` decimals, or as many more as show on which side of the limit it is."""
    below = value < limit
    enough = next((many for many in range(digits, 9) if (round(value, many) < limit) is below), 9)
    return f"{value:z.{enough}f}"
