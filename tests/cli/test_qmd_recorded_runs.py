"""``openclaw-mem qmd`` against recorded runs of the program (2.8.3), in their order. What ours does otherwise
on purpose is named here, and why in tests/differences.md."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from support.commands import Call, Said, World
from support.goldens import qmd_golden
from support.qmd import write_files

pytestmark = pytest.mark.goldens

#: Commands and options that are not ours (tests/differences.md), by a word of the command line.
_NOT_OURS = {"bogus", "--version", "trust", "mcp", "--index", "check", "--full-path", "--timeout"}
_NOT_OURS |= {"--chunk-strategy"}
#: The kinds of difference of single runs, each in tests/differences.md.
_OTHERWISE = {
    25: "without a command ours refuses",
    **dict.fromkeys((0, 126), "the status has no parts on languages, examples, tips"),
    32: "the root of a collection is called so, however it was written",
    43: "Markdown keeps the blank line after a title",
    50: "a line of a snippet has its number in the document",
    74: "a number that is none is refused",
    80: "no line with a number is shown after the last one",
    90: "get has a JSON form",
    121: "scores are explained by their arithmetic",
}


def normal(text: str, root: Path) -> str:
    """What differs in every run by design: marks, the name of the program, the XML and JSON of scores."""
    text = text.replace(str(root), "<ROOT>").replace("✓ ", "").replace("—", ":")
    text = re.sub(r"`openclaw-mem .*?\bqmd (.*?)`", r"'qmd \1'", text)
    text = re.sub(r"(Score: +\d+%)( \(.*\))", r"\1", text)
    text = re.sub(r"Feb 1\d  2026", "<DAY>", text)  # the files of the recording have three dates
    text = re.sub(r"(Updated: +|updated )[\d.]+ \w+ ago", r"\1<AGO>", text)
    return text.rstrip("\n")


def without_ours(rows: Any) -> Any:
    """JSON without the keys that QMD has not, and what explains a score in another form."""
    return [{key: row[key] for key in row if key not in ("band", "weak", "explain")} for row in rows]


@pytest.fixture
def recorded(bare: Call, world: World, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The corpus below ``docs``, no other collection, and the numbers of 2.8.3."""
    for file in qmd_golden("corpus")["files"]:
        path = world.root / "docs" / file["collection"] / file["path"]
        write_files(path.parent, {path.name: file["text"]})
        os.utime(path, (1770700000, 1770700000))
    folder = world.home / ".openclaw"
    folder.mkdir()
    qmd = {"includeDefaultMemory": False}
    (folder / "openclaw.json").write_text(json.dumps({"memory": {"backend": "qmd", "qmd": qmd}}))
    monkeypatch.setenv("OPENCLAW_MEM_PROFILE", "qmd-2.8")
    return bare


def test_recorded_runs(recorded: Call, world: World) -> None:
    differing = []
    compared = 0
    for number, case in enumerate(qmd_golden("cli")["cases"][:127]):
        argv = [word.replace("<ROOT>", str(world.root)) for word in case["argv"]]
        if not argv or _NOT_OURS & set(argv):
            continue
        if argv[0] in ("search", "vsearch", "query"):
            argv.insert(1, "--no-sync")  # ours would look for changes, and make vectors
        said = recorded("--workspace", str(world.workspace), "qmd", *argv)
        if number in _OTHERWISE:
            continue
        compared += 1
        if (problem := difference(case, said, world.root)) is not None:
            differing.append((number, " ".join(case["argv"]), problem))
    for row in differing:
        print(*row)
    assert not differing and compared >= 110


def difference(case: dict[str, Any], said: Said, root: Path) -> str | None:
    if (case["exit"] == 0) != (said.code == 0):
        return f"exit {case['exit']} is {said.code}: {said.err}"
    wanted, given = case["stdout"], said.out
    if case["exit"] == 0 and wanted.startswith("["):
        wanted, given = (json.dumps(without_ours(json.loads(text))) for text in (wanted, given))
    if case["argv"][0] == "multi-get" and "*" in "".join(case["argv"]):
        given = given.replace("qmd://notes/", "")  # there a glob gives paths that may be ambiguous
    return None if normal(wanted, root) == normal(given, root) else given
