"""Temporal decay: what the age of a note does to its score."""

from __future__ import annotations

import math

DAY_SECONDS = 86_400.0


def age_days(now: float, date: float) -> float:
    """Age in days, fractional, never negative. Both arguments are epoch seconds."""
    return max(0.0, (now - date) / DAY_SECONDS)


def decay_multiplier(age: float, half_life_days: float) -> float:
    """``exp(-ln 2 / half-life × age)``: 1 today, 0.5 after one half-life (documented formula)."""
    return math.exp(-math.log(2.0) / half_life_days * age)
