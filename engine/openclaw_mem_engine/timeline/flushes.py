"""Which flushes ran before which compactions, from the records of one transcript. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from openclaw_mem_engine.timeline.model import Curve, Found, Moment, State, Write
from openclaw_mem_engine.timeline.records import Record, Scan

#: sessions.json is written this long after a flush at most, seconds.
_RECORDED_WITHIN_S = 120.0
#: No flush takes longer, seconds.
_TURN_S = 3600.0
_STOPPED = ("error", "aborted")
_DID_IT = ("wrote", "no-reply", "nothing", "recorded")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a session beside its transcript: the count at which a flush is due (0 or less: never),
    why none can run ("": it can), why that is not known ("": it is), when the last one ran by sessions.json
    (epoch seconds), when flushes of our own ran, and whether flushes leave no trace in the transcript."""

    flush_threshold: int
    skipped: str = ""
    unread: str = ""
    flushed_at: float | None = None
    own: Sequence[float] = ()
    private: bool = False


@dataclass(slots=True)
class _Turn:
    prompt: Record
    writes: list[Record] = field(default_factory=list)
    reply: dict[str, Any] | None = None


@dataclass(slots=True)
class _Cycle:
    """From one compaction to the next."""

    start: float
    flushes: list[Moment] = field(default_factory=list)


def moments_of(scan: Scan, curve: Curve, session: str, facts: Facts) -> tuple[Moment, ...]:
    """Flushes, compactions, other writes and searches of one transcript, oldest first."""
    return _Walk(scan, curve, session, facts).all()


class _Walk:
    def __init__(self, scan: Scan, curve: Curve, session: str, facts: Facts) -> None:
        self._scan, self._curve, self._session, self._facts = scan, curve, session, facts
        self._moments: list[Moment] = []
        self._cycle = _Cycle(scan.start)
        self._turn: _Turn | None = None

    def all(self) -> tuple[Moment, ...]:
        for record in self._scan.records:
            if record.kind == "prompt":
                self._end_turn()
                if record.data["memory"] or self._recorded(record.at, record.at + _RECORDED_WITHIN_S):
                    self._turn = _Turn(record)
            elif record.kind == "end":
                self._end_turn()
            elif record.kind == "reply" and self._turn is not None:
                self._turn.reply = record.data
            elif record.kind == "write":
                if self._turn is not None:
                    self._turn.writes.append(record)
                else:
                    self._moments.append(self._write(record))
            elif record.kind == "search":
                self._moments.append(self._search(record))
            elif record.kind == "compaction":
                self._end_turn()
                self._compaction(record)
        self._end_turn(last=True)
        self._unrecorded(self._scan.at + _RECORDED_WITHIN_S)
        self._skipped(float("inf"), closed=False)
        return tuple(sorted(self._moments, key=lambda moment: moment.at))

    def _moment(self, kind: Any, record: Record, text: str, **more: Any) -> Moment:
        return Moment(
            record.at, kind, text, session=self._session, line=record.line, offset=record.offset, **more
        )

    def _end_turn(self, *, last: bool = False) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        # Without a result a write is only believed when something followed it.
        believed = (True, None) if turn.reply is not None or not last else (True,)
        done = tuple(_write_of(record) for record in turn.writes if record.data["ok"] in believed)
        reply = turn.reply or {}
        error = reply.get("error") or ("its answer was stopped" if reply.get("stop") in _STOPPED else "")
        state: State = "nothing"
        text = "answered, and wrote no memory file"
        if done:
            state, text = "wrote", f"wrote {', '.join(write.text for write in done)}"
        elif any(record.data["ok"] is False for record in turn.writes):
            state, text = "failed", f"failed to write {turn.writes[0].data['path']}"
        elif error:
            state, text = "failed", f"failed: {error}"
        elif turn.reply is None:
            state, text = ("open", "has no answer yet") if last else ("failed", "got no answer")
        elif "NO_REPLY" in reply["text"]:
            state, text = "no-reply", "NO_REPLY, nothing stored"
        tokens = self._curve.before(turn.prompt.at)
        whole = next((write.path for write in done if write.added is not None and write.removed is None), "")
        why = f"the call wrote all of {whole}; it did not append" if whole else ""
        flush = self._moment("flush", turn.prompt, text, state=state, tokens=tokens, writes=done, why=why)
        self._moments.append(flush)
        self._cycle.flushes.append(flush)

    def _compaction(self, record: Record) -> None:
        self._unrecorded(record.at + _RECORDED_WITHIN_S)
        flushes = self._cycle.flushes
        tokens = record.data["tokens"] or self._curve.before(record.at)
        state: State = "missed"
        if any(flush.state in _DID_IT for flush in flushes) or any(
            self._cycle.start <= at <= record.at for at in self._facts.own
        ):
            state = "flushed"
        elif self._facts.private:
            state = "unknown"
        self._skipped(record.at, closed=True)
        text = {
            "missed": "compacted without a flush",
            "flushed": "compacted after a flush",
            "unknown": "compacted; whether a flush ran before it is not in the transcript",
        }[state]
        why = self._why(record.at, tokens) if state == "missed" else ""
        after = self._curve.after(record.at)
        self._moments.append(
            self._moment("compaction", record, text, state=state, why=why, tokens=tokens, tokens_after=after)
        )
        self._cycle = _Cycle(record.at)

    def _why(self, at: float, tokens: int | None) -> str:
        """Why no flush ran, as far as it can be seen."""
        line, failed = self._facts.flush_threshold, self._cycle.flushes
        if failed:
            return f"the flush before it {failed[-1].text}"
        if self._facts.skipped:
            return self._facts.skipped
        if self._facts.unread:
            return self._facts.unread
        if tokens and tokens < line:
            return f"compacted at {tokens:,} tokens, below the flush threshold of {line:,}"
        before = self._curve.before(at)
        if tokens and before is not None and before < line and before >= 0 and not self._curve.estimated:
            return (
                f"one turn went from {before:,} to {tokens:,} tokens: compaction came before a flush could "
                f"run (flush threshold: {line:,})"
            )
        return "no reason is recorded"

    def _recorded(self, start: float, end: float) -> bool:
        at = self._facts.flushed_at
        return at is not None and start <= at <= end

    def _unrecorded(self, end: float) -> None:
        """A flush that sessions.json has and the transcript has not."""
        cycle, at = self._cycle, self._facts.flushed_at
        turns = (moment.at for moment in self._moments if moment.kind == "flush")
        if at is None or not self._recorded(cycle.start, end) or any(0 <= at - t < _TURN_S for t in turns):
            return
        text = "ran; sessions.json has its time, the transcript has no turn of it"
        flush = Moment(at, "flush", text, "recorded", self._session, tokens=self._curve.before(at))
        self._moments.append(flush)
        cycle.flushes.append(flush)

    def _skipped(self, end: float, *, closed: bool) -> None:
        """A flush that was due in this cycle and did not run: with its reason, and without one as long as no
        compaction says the same."""
        line, curve = self._facts.flush_threshold, self._curve
        if self._cycle.flushes or line <= 0 or curve.estimated or (closed and not self._facts.skipped):
            return
        over = [
            (at, int(tokens))
            for at, tokens in zip(curve.times, curve.tokens, strict=True)
            if tokens > line and self._cycle.start < at < end
        ]
        if not over or (len(over) < 2 and not self._facts.skipped):
            return  # the check comes with the next message
        at, tokens = over[0]
        why = self._facts.skipped or self._facts.unread or "no reason is recorded"
        text = f"skipped at {tokens:,} tokens"
        self._moments.append(Moment(at, "flush", text, "skipped", self._session, why=why, tokens=tokens))

    def _write(self, record: Record) -> Moment:
        write, failed = _write_of(record), record.data["ok"] is False
        text = f"failed to write {write.path}" if failed else f"wrote {write.text}"
        writes = () if failed else (write,)
        return self._moment("write", record, text, state="failed" if failed else "", writes=writes)

    def _search(self, record: Record) -> Moment:
        query, rows = record.data["query"], record.data["results"]
        results = tuple(Found(*row) for row in rows or ())
        state: State = "found" if results else "nothing"
        text = f"{len(results)} result{'' if len(results) == 1 else 's'}" if results else "nothing found"
        if rows is None:
            error = record.data.get("error")
            state, text = ("failed", f"failed: {error}") if error else ("open", "no answer in the transcript")
        return self._moment("search", record, text, state=state, query=query, results=results)


def _write_of(record: Record) -> Write:
    data = record.data
    ref = f"{record.offset}:{data['call']}"
    return Write(data["path"], data["added"], data["removed"], "tool call", ref)
