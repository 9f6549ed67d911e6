"""A program that is called like ``qmd``: it logs its calls and answers what a test wants of each command."""

from __future__ import annotations

import sys
from ast import literal_eval
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PROGRAM = """#!{python} -IS
import os, sys  # json takes as long to import as Python to start: only for answers, the files hold literals
here = os.path.dirname(os.path.abspath(__file__))
argv = sys.argv[1:]
names = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "NO_COLOR", "INDEX_PATH")
with open(os.path.join(here, "calls"), "a") as log:
    env = {{name: os.environ[name] for name in names if name in os.environ}}
    log.write(ascii({{"argv": argv, "cwd": os.getcwd(), "env": env}}) + "\\n")
with open(os.path.join(here, "answers")) as file:
    answers = eval(file.read())
answer = answers.get(" ".join(argv[:2])) or answers.get(argv[0] if argv else "") or {{}}
kept = os.path.join(os.environ.get("XDG_CONFIG_HOME", here), "collections.json")
known = eval(open(kept).read()) if os.path.exists(kept) else {{}}
if answer.get("once"):
    answers[argv[0]] = answer["once"]
    with open(os.path.join(here, "answers"), "w") as file:
        file.write(ascii(answers))
if answer.get("hang"):
    import subprocess, time
    child = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(600)"])
    with open(os.path.join(here, "hanging"), "w") as file:
        file.write(f"{{os.getpid()}} {{child.pid}}")
    time.sleep(600)
if answer.get("code"):
    sys.stderr.write(answer.get("stderr", ""))
    sys.exit(answer["code"])
if argv[:2] == ["collection", "list"]:
    import json
    print(json.dumps([{{"name": name, **facts}} for name, facts in known.items()]))
elif argv[:2] == ["collection", "add"]:
    import sqlite3
    known[argv[4]] = {{"path": argv[2], "pattern": argv[6]}}
    index = os.path.join(os.environ["XDG_CACHE_HOME"], "qmd", "index.sqlite")
    os.makedirs(os.path.dirname(index), exist_ok=True)
    db = sqlite3.connect(index)
    db.execute("CREATE TABLE IF NOT EXISTS documents(collection, path, hash, active)")
    for row in answers.get("documents", []):
        if row[0] == argv[4]:
            db.execute("INSERT INTO documents VALUES (?, ?, ?, 1)", row)
    db.commit()
elif argv[:2] == ["collection", "remove"]:
    known.pop(argv[2], None)
if argv[:1] == ["collection"] and argv[1] != "list":
    with open(f"{{kept}}.{{os.getpid()}}", "w") as file:
        file.write(ascii(known))
    os.replace(f"{{kept}}.{{os.getpid()}}", kept)  # a search may read it now
chosen = [argv[at + 1] for at, word in enumerate(argv) if word == "-c"]
rows = answer.get("rows")
if rows is not None:
    import json
    rows = [row for row in rows if not chosen or type(row) is int or row.get("in", chosen[0]) in chosen]
    print(json.dumps(rows))
sys.stderr.write(answer.get("stderr", ""))
sys.stdout.write(answer.get("stdout", ""))
"""


class FakeQmd:
    """The program in a folder of its own. ``answers``: by command (``search``, ``collection add``) what it
    does: ``rows`` (JSON, those whose ``in`` is a collection that was asked for), ``stdout``, ``stderr``,
    ``code``, ``hang`` with a child of its own; ``once`` is the answer from the next call on. ``documents``
    are (collection, path, hash) of its index."""

    def __init__(self, folder: Path, documents: Sequence[tuple[str, str, str]] = ()) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._documents = documents
        self.path = folder / "qmd"
        self.path.write_text(_PROGRAM.format(python=sys.executable))
        self.path.chmod(0o700)
        self.answers()

    def answers(self, *, version: str = "1.0.7", **answers: Any) -> None:
        answers = {"--version": {"stdout": f"qmd {version}\n"}, "documents": self._documents, **answers}
        (self.folder / "answers").write_text(ascii(answers))

    @property
    def calls(self) -> list[dict[str, Any]]:
        log = self.folder / "calls"
        return [literal_eval(line) for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def commands(self) -> list[str]:
        """The calls since the last time."""
        done = [" ".join(call["argv"]) for call in self.calls]
        (self.folder / "calls").unlink(missing_ok=True)
        return done

    @property
    def hanging(self) -> list[int]:
        """The processes of a call that hangs: its own and its child's."""
        file = self.folder / "hanging"
        return [int(pid) for pid in file.read_text().split()] if file.exists() else []
