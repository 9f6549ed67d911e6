"""The turn of a flush: its prompts, the conversation that it sends, and what of the answer is stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from openclaw_mem_engine.config.groups import MemoryFlushSettings
from openclaw_mem_engine.lifecycle.sessions import SessionEntry, since_compaction
from openclaw_mem_engine.notes.user_time import UserTime
from openclaw_mem_engine.providers.base import BadAnswer, Message
from openclaw_mem_engine.redact import redact

#: What a model answers that has nothing to store.
NO_REPLY = "NO_REPLY"
#: A longer answer is no summary: nothing of it is stored.
MAX_ANSWER_CHARS = 20_000

_DATE = "YYYY-MM-DD"
_HINT = f"\n\nIf no user-visible reply is needed, start with {NO_REPLY}."
_CURRENT_TIME = "Current time:"
_FENCED = re.compile(r"```[a-z]*\n(.*)\n```", re.DOTALL)
#: Control characters, and those that change the order of the text after them on screen.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_THOUGHT = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_SILENT = re.compile(rf"\W*{NO_REPLY}\b")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)]|#+)\s")


def user_prompt(text: str, at: UserTime) -> str:
    """The prompt with the date, the answer for nothing, and the current time as its last line."""
    text = with_no_reply(text).replace(_DATE, at.today.isoformat())
    return text if _CURRENT_TIME in text else f"{text.rstrip()}\n{at.line}"


def system_prompt(text: str, at: UserTime, path: str) -> str:
    """The system prompt, which also says what is different here: the model has no tools."""
    dated = with_no_reply(text).replace(_DATE, at.today.isoformat())
    return (
        f"{dated}\n\nYou have no tools in this turn: answer with the Markdown lines to append to {path} and "
        f"nothing else, or with {NO_REPLY}."
    )


def turn_of(
    said: Iterable[Message], prompts: MemoryFlushSettings, at: UserTime, path: str
) -> tuple[Message, ...]:
    return (
        Message("system", system_prompt(prompts.system_prompt, at, path)),
        *said,
        Message("user", user_prompt(prompts.prompt, at)),
    )


def with_no_reply(text: str) -> str:
    """A prompt that names the answer for nothing."""
    return text if NO_REPLY in text else text + _HINT


def stored_text(answer: str) -> str:
    """What of an answer is stored, secrets masked: "" for NO_REPLY. Thoughts before it, a code fence around
    all of it, the marker after it with the remark on its line, and control characters go. Raises BadAnswer
    for an answer without a letter or digit and for one that is too long."""
    text = _THOUGHT.sub("", answer.replace("\r\n", "\n").replace("\r", "\n"), count=1)
    text = _CONTROL.sub("", text).strip()
    if not _says_something(text):
        raise BadAnswer("The model sent an empty answer: nothing was stored. Try again.")
    text = _unfenced(_without_marker(_unfenced(text)))
    if _SILENT.match(text) or not _says_something(text):
        return ""
    if len(text) > MAX_ANSWER_CHARS:
        raise BadAnswer(
            f"The model sent {len(text):,} characters; a flush stores at most {MAX_ANSWER_CHARS:,}. Nothing "
            "was stored: ask for a summary in compaction.memory_flush.prompt."
        )
    return redact(text)


def _unfenced(text: str) -> str:
    fenced = _FENCED.fullmatch(text)
    return fenced[1].strip() if fenced else text


def _without_marker(text: str) -> str:
    """A text without NO_REPLY as its end, and without what is said on that line, unless it is an item."""
    before, marker, after = text.rpartition(NO_REPLY)
    if not marker or _says_something(after) or before[-1:].isalnum():
        return text
    kept, _, remark = before.rpartition("\n")
    return (before if _ITEM.match(remark) else kept).strip()


def _says_something(text: str) -> bool:
    return any(map(str.isalnum, text))


def window_of(session: SessionEntry, most_chars: int) -> Iterator[Message]:
    """What the model has in its window, newest last, in at most about so many characters; secrets masked.
    Raises NoteRefused."""
    summary, said = since_compaction(session.file)
    kept: list[Message] = []
    left = max(most_chars, 0)
    for one in reversed(said):
        text = redact(one.text)
        left -= len(text)
        if left < 0 and kept:
            break
        kept.append(Message("user" if one.role == "user" else "assistant", text))
    if summary:
        yield Message("user", f"Summary of the conversation so far:\n{redact(summary)}")
    yield from reversed(kept)
