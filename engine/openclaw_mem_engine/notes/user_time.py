"""The date and time of the user: daily logs are named by them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

_ZONE_FOLDER = "zoneinfo/"


@dataclass(frozen=True, slots=True)
class UserTime:
    """A moment in the zone of the user. ``note`` says why that is another one than configured ("" if not)."""

    moment: datetime
    zone: str
    note: str = ""

    @property
    def today(self) -> date:
        return self.moment.date()

    @property
    def yesterday(self) -> date:
        return self.today - timedelta(days=1)

    @property
    def line(self) -> str:
        """``Current time: Saturday, February 28th, 2026 — 7:00 PM (UTC)``, in English whatever the locale."""
        at, day = self.moment, self.moment.day
        suffix = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
        clock = f"{at.hour % 12 or 12}:{at.minute:02d} {'PM' if at.hour >= 12 else 'AM'}"
        days = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
        months = (
            "January February March April May June July August September October November December".split()
        )
        weekday, month = days[at.weekday()], months[at.month - 1]
        return f"Current time: {weekday}, {month} {day}{suffix}, {at.year} — {clock} ({self.zone})"


def user_time(zone: str | None, now: float, environ: Mapping[str, str] = os.environ) -> UserTime:
    """The moment ``now`` (epoch seconds) in ``zone``; None, and a zone that is not known, mean that of this
    machine."""
    note = ""
    if zone is not None:
        if (found := _zone(zone)) is not None:
            return UserTime(datetime.fromtimestamp(now, found), zone)
        note = f"user_timezone {zone[:60]!r} is not known here: the time zone of this machine is used."
    name = (environ.get("TZ", "").lstrip(":") or _of_machine()).replace("Etc/UTC", "UTC")
    if (found := _zone(name)) is not None:
        return UserTime(datetime.fromtimestamp(now, found), name, note)
    local = datetime.fromtimestamp(now, UTC).astimezone()
    return UserTime(local, local.tzname() or "UTC", note)


def _zone(name: str) -> tzinfo | None:
    if name == "UTC":  # also where there is no table of zones
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        return None


def _of_machine() -> str:
    """The name of the zone that ``/etc/localtime`` leads to; "" where that is not a link."""
    real = os.path.realpath(Path("/etc/localtime"))
    return real.partition(_ZONE_FOLDER)[2]
