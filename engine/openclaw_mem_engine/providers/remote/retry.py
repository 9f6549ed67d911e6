"""When a request is sent again: waiting times, which refusals are worth it, and the rate gate."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

#: Worth another try besides every 5xx: request timeout, too early, too many requests.
_RETRY_STATUSES = frozenset({408, 425, 429})
#: Server errors that no waiting repairs: not implemented, HTTP version not supported.
_HOPELESS_STATUSES = frozenset({501, 505})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Waiting times in seconds.

    ``base_s`` doubles with every try up to ``cap_s``, plus up to ``jitter`` of itself so that many clients do
    not retry at the same time. A server's own Retry-After counts when it is longer; one beyond ``max_hint_s``
    ends the tries. ``max_silent_retries`` limits the retries without an answer, since the server may have
    acted on such a request.
    """

    max_retries: int = 5
    base_s: float = 0.5
    cap_s: float = 8.0
    jitter: float = 0.2
    max_hint_s: float = 60.0
    max_silent_retries: int = 1

    def wait_s(self, retry: int, hint_s: float | None, random: Callable[[], float]) -> float | None:
        """Seconds before retry number ``retry`` (from 1); None when there is no point in waiting.

        ``random`` gives numbers in [0, 1).
        """
        if retry > self.max_retries or (hint_s is not None and hint_s > self.max_hint_s):
            return None
        backoff: float = min(self.cap_s, self.base_s * 2 ** (retry - 1)) * (1 + self.jitter * random())
        return backoff if hint_s is None else max(backoff, hint_s)


def is_worth_retrying(status: int) -> bool:
    """Whether the same request may succeed later."""
    return status in _RETRY_STATUSES or (status >= 500 and status not in _HOPELESS_STATUSES)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that a server asks to wait, or None.

    Reads ``retry-after-ms`` (milliseconds) and ``retry-after`` (seconds or an HTTP date, RFC 9110, 10.2.3).
    ``headers`` must find lower-case names; ``now`` is in seconds since 1970.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


class RateGate:
    """Shut while a server refuses all requests of this account; shared by all requests to it. Times are on
    a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._until = -math.inf
        self._lock = threading.Lock()

    def shut_until(self, time: float) -> None:
        """Shut until then; a later end that is already set stays."""
        with self._lock:
            self._until = max(self._until, time)

    def left_s(self, now: float) -> float:
        """For how many more seconds it is shut; 0 when it is open."""
        return max(0.0, self._until - now)
