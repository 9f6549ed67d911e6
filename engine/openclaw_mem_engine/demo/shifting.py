"""Moving every date of the demo by a number of days, in file names and in texts alike.

The demo was written with a fixed last day. Shown with its real dates it would age, and temporal decay
would bury all of it; so it is moved, as a whole, until its last day is the day of the reader.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from pathlib import Path

#: The last day of the demo as it was written.
ANCHOR = datetime.date(2026, 3, 31)

#: Where the authored files lie.
DATA = Path(__file__).parent / "data"

_ISO_DATE = re.compile(r"(?<!\d)(20\d\d-[01]\d-[0-3]\d)(?!\d)")

# Thirteen digits from 2020 to 2026: nothing else in the demo looks like this, and the tests keep it so.
_EPOCH_MS = re.compile(r"(?<![\w.])(1[67]\d{11})(?![\w.])")

_MS_A_DAY = 86_400_000


def shift_days_for(today: datetime.date) -> int:
    """How many days the demo must move so that its last day is ``today``. May be negative."""
    return (today - ANCHOR).days


def shift_dates(text: str, days: int) -> str:
    """``text`` with every ISO date moved. Times after a date stay; what is no real date stays."""
    if days == 0:
        return text
    delta = datetime.timedelta(days=days)

    def moved(match: re.Match[str]) -> str:
        try:
            return (datetime.date.fromisoformat(match[1]) + delta).isoformat()
        except ValueError:
            return match[1]

    return _ISO_DATE.sub(moved, text)


def shift_epochs(text: str, days: int) -> str:
    """``text`` (JSON or JSONL) with every epoch in milliseconds moved by whole days."""
    return _EPOCH_MS.sub(lambda match: str(int(match[1]) + days * _MS_A_DAY), text)


def dates_in(text: str) -> Iterator[datetime.date]:
    """Every real ISO date in a text, in order of appearance."""
    for match in _ISO_DATE.finditer(text):
        try:
            yield datetime.date.fromisoformat(match[1])
        except ValueError:
            continue
