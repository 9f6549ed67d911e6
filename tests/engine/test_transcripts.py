"""Session transcripts: which files count, and what of them is taken."""

from __future__ import annotations

import hashlib
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.chunking.line_chunker import LineChunker
from openclaw_mem_engine.model import text_hash
from openclaw_mem_engine.workspace import transcripts
from openclaw_mem_engine.workspace.listing import list_transcripts
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.transcripts import (
    Growth,
    Transcript,
    cut_at,
    growth_of,
    read_transcript,
)
from support.goldens import golden
from support.transcripts import append, message, messages

RECORDED = golden("sessions")


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    folder = tmp_path / "agents/main/sessions"
    folder.mkdir(parents=True)
    return folder


def read(path: Path, content: str | bytes | None = None, **options: Any) -> Transcript:
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return read_transcript(str(path), **options)


# -- what the original makes of a transcript --------------------------------------------------------------


@pytest.mark.goldens
def test_the_recorded_conversation(sessions: Path) -> None:
    wanted = RECORDED["s1"]["entry"]
    found = read(sessions / "s1.jsonl", RECORDED["s1"]["jsonl"])
    assert (found.text, list(found.line_map), found.hash) == (
        wanted["content"],
        wanted["lineMap"],
        wanted["hash"],
    )
    assert (found.broken, found.settled) == (1, True)
    assert found.size == (sessions / "s1.jsonl").stat().st_size


@pytest.mark.goldens
@pytest.mark.parametrize("content", ["", "\n\n", '{"type":"session","id":"s2"}\n'])
def test_a_transcript_without_talk(sessions: Path, content: str) -> None:
    found = read(sessions / "s2.jsonl", content)
    wanted = RECORDED["empty"]
    assert (found.text, list(found.line_map), found.hash) == ("", [], wanted["hash"])


@pytest.mark.goldens
def test_the_recorded_long_conversation_and_its_chunks(sessions: Path) -> None:
    wanted = RECORDED["s5"]
    found = read(sessions / "s5.jsonl", wanted["jsonl"])
    assert (list(found.line_map), found.hash) == (wanted["lineMap"], wanted["hash"])
    spans = LineChunker().chunks(found.text)
    assert [[s.start_line, s.end_line, text_hash(s.text)] for s in spans] == wanted["chunks_in_text"]
    lines = [[found.line_map[s.start_line - 1], found.line_map[s.end_line - 1]] for s in spans]
    assert lines == wanted["chunks_mapped"]


@pytest.mark.goldens
@pytest.mark.parametrize("case", RECORDED["redaction"])
def test_secrets_are_masked_as_recorded(sessions: Path, case: dict[str, str]) -> None:
    found = read(sessions / "s.jsonl", message(case["in"]))
    # Line ends go before the masking, so a private key on several lines is masked whole.
    wanted = "***" if "PRIVATE KEY" in case["in"] else case["out"]
    assert found.text == f"User: {wanted}"


def test_halves_of_characters_count_and_hash_as_in_utf16(sessions: Path) -> None:
    written = '{"type":"message","message":{"role":"user","content":"a\\ud83d b \\ud83d\\ude00 \\ude00"}}\n'
    found = read(sessions / "s.jsonl", written)
    assert found.text == "User: a\ufffd b \U0001f600 \ufffd"
    assert found.hash == hashlib.sha256(f"{found.text}\n1".encode()).hexdigest()
    # A secret of 20 UTF-16 units keeps 6 and 4 of them, one of 16 nothing.
    assert read(sessions / "s.jsonl", message("KEY=" + "\U0001f511" * 10)).text == (
        "User: KEY=\U0001f511\U0001f511\U0001f511…\U0001f511\U0001f511"
    )
    assert read(sessions / "s.jsonl", message("KEY=" + "\U0001f511" * 8)).text == "User: KEY=***"
    assert read(sessions / "s.jsonl", message("KEY=a" + "\U0001f511" * 10)).text == (
        "User: KEY=a\U0001f511\U0001f511\ufffd…\U0001f511\U0001f511"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a\u00a0\u3000\ufeff\u2028 b", "a b"),  # white space there
        ("a\x1cb\x85c", "a\x1cb\x85c"),  # white space here only
        ([{"type": "text", "text": " a\n\nb "}, {"type": "text", "text": "\n"}, {"type": "text"}], "a b"),
        ([{"type": "text", "text": 7}, {"type": "thinking", "text": "no"}, "c", None, {"text": "d"}], None),
        ({"type": "text", "text": "a"}, None),
        (None, None),
        ("", None),
        ("/new", "/new"),
    ],
)
def test_what_a_message_says(sessions: Path, content: object, said: str | None) -> None:
    found = read(sessions / "s.jsonl", message(content, "assistant"))
    assert found.text == ("" if said is None else f"Assistant: {said}")


@pytest.mark.parametrize("role", ["system", "tool", "User", "", None, ["user"], {}])
def test_only_user_and_assistant_speak(sessions: Path, role: Any) -> None:
    assert read(sessions / "s.jsonl", message("hello", role)).text == ""


# -- files that are still written, damaged or hostile -----------------------------------------------------


def test_a_half_written_last_line_is_left_for_later(sessions: Path) -> None:
    path = sessions / "s.jsonl"
    whole, half = message("first"), message("second, with an é")
    for cut in range(1, len(half.encode()) - 1):
        found = read(path, whole.encode() + half.encode()[:cut])
        assert (found.text, found.size, found.broken) == ("User: first", len(whole), 0)
        assert found.settled
    finished = read(path, whole + half.rstrip("\n"))
    assert finished.line_map == (1, 2)
    assert finished.size == path.stat().st_size
    # The same content with its end is the same transcript.
    assert read(path, whole + half).hash == finished.hash


HOSTILE = [
    "[" * 200_000,
    '{"a":' * 200_000,
    "[" * 200_000 + "]" * 200_000,
    '{"type":"message","message":{"role":"user","content":NaN}}',
    '{"type":"message","message":{"role":"user","content":"tab\there"}}',
    '{"type":"message","message":{"role":"user","content":"nul\0here"}}',
    "\ufeff" + message("marked").strip(),
    "\x00\x01\x02",
    "{} {}",
    "undefined",
]


@pytest.mark.parametrize("line", HOSTILE)
def test_broken_lines_are_skipped_and_counted(sessions: Path, line: str) -> None:
    found = read(sessions / "s.jsonl", f"{message('before')}{line}\n{message('after')}")
    assert (found.text, found.line_map, found.broken) == ("User: before\nUser: after", (1, 3), 1)


@pytest.mark.parametrize("number", ["9" * 50_000, "-1e999999999", "0." + "1" * 50_000, "1E400"])
def test_huge_numbers_are_no_trouble(sessions: Path, number: str) -> None:
    line = message("hello").replace('"type"', f'"n":{number},"type"', 1)
    assert read(sessions / "s.jsonl", line).text == "User: hello"


def test_bytes_that_are_not_utf8_are_replaced(sessions: Path) -> None:
    found = read(sessions / "s.jsonl", message("crème").encode("latin-1"))
    assert (found.text, found.broken) == ("User: cr\ufffdme", 0)


def test_a_nul_is_read_as_in_notes(sessions: Path) -> None:
    assert read(sessions / "s.jsonl", message("nul\0here")).text == "User: nul\ufffdhere"


def test_a_line_beyond_the_limit_is_not_kept_in_memory(sessions: Path) -> None:
    path = sessions / "s.jsonl"
    with path.open("w") as file:
        file.write(message("before"))
        file.write('{"type":"message","message":{"role":"toolResult","content":"')
        for _ in range(60):
            file.write("x" * 2**20)
        file.write('"}}\n' + message("after"))
    tracemalloc.start()
    try:
        found = read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.line_map, found.broken, found.too_long) == ((1, 3), 0, 1)
    assert peak < 3 * transcripts.MAX_LINE_BYTES


def test_tool_output_does_not_count_against_the_limit_but_talk_does(sessions: Path) -> None:
    path = sessions / "s.jsonl"
    content = message("x" * 5_000, "toolResult") * 10 + message("short")
    assert read(path, content, max_bytes=100).text == "User: short"
    found = read(path, content + message("y" * 200), max_bytes=100)
    assert found.text == "User: short\nUser: " + "y" * 81
    assert (found.line_map, found.settled, cut_at(found.hash)) == ((11, 12), True, 100)


def test_what_is_taken_of_a_long_conversation_stays_the_same_while_it_grows(sessions: Path) -> None:
    path = sessions / "s.jsonl"
    whole = read(path, messages("one", "two"), max_bytes=60)
    assert cut_at(whole.hash) is None
    append(path, messages("crème brûlée for everybody", "three", "four"))
    cut = read(path, max_bytes=60)
    assert cut.text == "User: one\nAssistant: two\nUser: crème brûlée for everybod"
    assert cut.size < path.stat().st_size, "what follows is not read"
    for more in ("five", "six" * 50_000):
        append(path, messages(more, "and more"))
        assert read(path, max_bytes=60)[:3] == cut[:3]
    assert read(path, max_bytes=60, until=cut.size).hash == cut.hash
    assert read(path, max_bytes=61).hash != cut.hash
    assert len(cut.text.encode()) == 59
    assert read(path, max_bytes=35).text == "User: one\nAssistant: two\nUser: cr", "no half of a character"


@pytest.mark.parametrize("most", range(1, 40))
def test_any_limit_is_kept(sessions: Path, most: int) -> None:
    found = read(sessions / "s.jsonl", messages("äöü €", "\U0001f511 key"), max_bytes=most)
    assert len(found.text.encode()) <= most
    assert found.text.count("\n") + bool(found.text) == len(found.line_map)
    assert (cut_at(found.hash) is None) == (most >= 37)


def test_only_the_first_bytes_are_taken_when_asked(sessions: Path) -> None:
    path = sessions / "s.jsonl"
    first = read(path, messages("one", "two"))
    append(path, messages("three"))
    assert read(path).hash != first.hash
    assert read(path, until=first.size).hash == first.hash


def test_growing_while_it_is_read_is_no_unrest_but_a_cut_is(
    sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sessions / "s.jsonl"
    path.write_text(messages("one", "two"))
    size, lines = path.stat().st_size, transcripts.lines_between

    def then(act: Any) -> Any:
        def reading(*arguments: Any) -> Any:
            act()
            return lines(*arguments)

        return reading

    monkeypatch.setattr(transcripts, "lines_between", then(lambda: append(path, message("three"))))
    found = read(path)
    assert (found.line_map, found.size, found.settled) == ((1, 2), size, True)
    monkeypatch.setattr(transcripts, "lines_between", then(lambda: os.truncate(path, 20)))
    found = read(path)
    assert (found.line_map, found.settled) == ((), False)


@given(st.binary(max_size=2_000))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    found = read(path, content)
    assert found.text.count("\n") + bool(found.text) == len(found.line_map)
    assert found.size <= len(content)
    found.text.encode()


@given(st.recursive(st.none() | st.text() | st.integers() | st.floats(), lambda inner: st.lists(inner)))
@settings(max_examples=200, deadline=None)
def test_any_content_is_one_line_of_text(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    path = tmp_path_factory.getbasetemp() / "content.jsonl"
    line = json.dumps({"type": "message", "message": {"role": "user", "content": content}})
    assert "\n" not in read(path, line + "\n").text


# -- growth ---------------------------------------------------------------------------------------------


def growth(path: Path, start: int, most_bytes: int = 10**9, most_lines: int = 10**9) -> Growth:
    (file,) = list_transcripts(path.parent).files
    return growth_of(file, start, Growth(most_bytes, most_lines))


def test_growth_counts_whole_lines_only(sessions: Path) -> None:
    path = sessions / "s.jsonl"
    path.write_text(message("one"))
    start = path.stat().st_size
    assert growth(path, start) == Growth(0, 0)
    append(path, '{"type":"mess')
    assert growth(path, start) == Growth(0, 0)
    append(path, 'age"}')  # whole by now, though its line has no end
    assert growth(path, start) == Growth(18, 1)
    append(path, "\n" + messages("two", "three"))
    assert growth(path, start) == Growth(path.stat().st_size - start, 3)
    assert growth(path, start, most_lines=2).lines == 2
    assert growth(path, start, most_bytes=1).lines == 1


# -- which files ------------------------------------------------------------------------------------------


def test_what_is_listed_and_what_is_left_out(sessions: Path, tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "sessions.json", "a.jsonl.lock", "C.JSONL"):
        (sessions / name).write_text(message("hello"))
    for name in ("a.jsonl.reset.2026-01-01", "b.jsonl.reset.2026-01-02", "c.jsonl.deleted.2026-01-01"):
        (sessions / name).write_text(message("archived"))
    (sessions / "deep.jsonl").mkdir()
    (sessions / "deep").mkdir()
    (sessions / "deep/inner.jsonl").write_text(message("inner"))
    (tmp_path / "other.jsonl").write_text(message("of another agent"))
    (sessions / "link.jsonl").symlink_to(tmp_path / "other.jsonl")
    os.mkfifo(sessions / "pipe.jsonl")
    os.link(sessions / "a.jsonl", sessions / "z.jsonl")
    listing = list_transcripts(sessions)
    assert [file.path for file in listing.files] == ["sessions/a.jsonl", "sessions/b.jsonl"]
    assert {file.source for file in listing.files} == {"sessions"}
    assert {s.path: (s.reason, s.by_rule) for s in listing.excluded} == {
        "sessions/*.jsonl.deleted.*": ("1 archived; the transcripts of ended sessions are not indexed", True),
        "sessions/*.jsonl.reset.*": ("2 archived; the transcripts of ended sessions are not indexed", True),
        "sessions/C.JSONL": ('ends in another spelling of ".jsonl"; only lower case counts', False),
        "sessions/deep.jsonl": ("is a folder, not a plain file", False),
        "sessions/link.jsonl": ("is a link; links are not followed", False),
        "sessions/pipe.jsonl": ("is a FIFO, not a plain file", False),
        "sessions/z.jsonl": ("the same file as sessions/a.jsonl", False),
    }
    (sessions / b"\xff.jsonl".decode("utf-8", "surrogateescape")).write_text(message("x"))
    listing = list_transcripts(sessions, max_bytes=10)
    reasons = {s.reason for s in listing.excluded}
    assert any("too large" in reason for reason in reasons)
    assert not listing.files


def test_a_folder_that_is_not_there_or_is_a_link(sessions: Path) -> None:
    (missing,) = list_transcripts(sessions / "none").excluded
    assert (missing.path, missing.by_rule) == ("sessions", True)
    assert "does not exist" in missing.reason
    linked = sessions.with_name("linked")
    linked.symlink_to(sessions)
    (sessions / "a.jsonl").write_text(message("hello"))
    listing = list_transcripts(linked)
    assert (listing.files, listing.excluded[0].by_rule) == ((), False)
    assert "is a link" in listing.excluded[0].reason
    (sessions / "file").write_text("")
    assert "is not a folder" in list_transcripts(sessions / "file").excluded[0].reason


@pytest.mark.parametrize("planted", ["file", "folder"])
def test_a_link_planted_after_the_listing_is_not_followed(sessions: Path, planted: str) -> None:
    path = sessions / "a.jsonl"
    path.write_text(message("mine"))
    (file,) = list_transcripts(sessions).files
    elsewhere = sessions.parent / "elsewhere"
    if planted == "file":
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
    else:
        sessions.rename(elsewhere)
        sessions.symlink_to(elsewhere)
    with pytest.raises(NoteRefused, match="link"):
        read_transcript(file.absolute)


def test_a_transcript_that_vanished(sessions: Path) -> None:
    with pytest.raises(NoteRefused) as no:
        read(sessions / "gone.jsonl")
    assert no.value.kind == "missing"
