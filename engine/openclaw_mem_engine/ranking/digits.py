"""How many decimals show on which side of a limit a score is."""


def decimals(value: float, limit: float, least: int = 3) -> int:
    """So many that the rounded value is on the same side of the limit; ``least`` or more."""
    below = value < limit
    return next((many for many in range(least, 9) if (round(value, many) < limit) is below), 9)


def apart(value: float, limit: float, least: int = 3) -> str:
    """The value with as many decimals as show on which side of the limit it is."""
    return f"{value:z.{decimals(value, limit, least)}f}"
