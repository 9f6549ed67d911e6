"""The whole command line as one table: commands, their options and help. Parsing only; it loads nothing."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NamedTuple, NoReturn

from openclaw_mem_engine import __version__
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.sanitize import visible

_FIRST_STEPS = """\
first steps:
  openclaw-mem demo                      see it work on a workspace of its own
  openclaw-mem search "vpn certificate"  search the workspace of your agent
  openclaw-mem search gateway --explain  ... and see why each passage is where it is
  openclaw-mem tui                       the same, live, in a full-screen workbench
  openclaw-mem providers                 whose vectors answer, and where your text goes

Without options the workspace is the one of OpenClaw's configuration (~/.openclaw/openclaw.json),
or ~/.openclaw/workspace. `openclaw-mem config` shows every value and where it came from.

exit codes: 0 done (also when nothing is relevant), 2 wrong usage, 3 configuration, 4 refused path,
5 workspace, 6 index, 7 provider, 130 stopped, 1 anything unexpected, or (search --exit-status)
nothing, or only weak results
"""

#: One argument as ``ArgumentParser.add_argument`` takes it.
_Option = tuple[tuple[str, ...], dict[str, Any]]


class _Command(NamedTuple):
    """One command: its help, and the module of ``cli`` and the function that run it (default: NAME:run)."""

    name: str
    summary: str
    example: str
    details: str = ""
    options: tuple[_Option, ...] = ()
    runner: str = ""


def _option(*names: str, **how: Any) -> _Option:
    return names, how


def _many(name: str, metavar: str, text: str) -> _Option:
    return _option(name, metavar=metavar, action="append", default=[], help=f"{text}; may be repeated")


def _flag(name: str, text: str) -> _Option:
    return _option(name, action="store_true", help=text)


_COMMON = (
    _option("--workspace", metavar="DIR", help="the folder that holds MEMORY.md and memory/"),
    _option("--config", metavar="FILE", help="an OpenClaw configuration (JSON5) instead of the usual one"),
    _option("--agent", metavar="ID", help="whose memory (default: the default agent)"),
    _option(
        "--provider",
        metavar="NAME",
        help="embeddings: static (built in), local, openai, gemini, voyage, mistral, ollama, none, auto",
    ),
    _many("--include", "GLOB", "further notes of the workspace, for example '**/*.md'"),
    _flag("--json", "the answer as JSON on stdout"),
)
#: The names are those of ``providers.faults``, which would cost time to load for a help text.
_FAULT = _many(
    "--fault",
    "NAME",
    "break something on purpose, to see what follows (on a copy of the index): embeddings-401, "
    "embeddings-429, embeddings-timeout, embeddings-garbage, zero-vector, wrong-dimension, no-sqlite-vec, "
    "no-fts5",
)
#: How to rank, and from which index.
_RANKING = (
    _option("--profile", metavar="P", help="ranking: documented, openclaw-2026.2, workbench"),
    _option("--max-results", metavar="N", help="how many passages (default 6)"),
    _option("--min-score", metavar="X", help="cut below this score (default 0.35)"),
    _many("--set", "KNOB=VALUE", "change one ranking knob"),
    _flag("--no-sync", "answer from the index as it is, without looking for changes"),
)
#: In the order of the help.
_COMMANDS = (
    _Command(
        "index",
        "bring the index up to date with the notes on disk",
        "index --workspace ~/.openclaw/workspace\n  openclaw-mem index --dry-run --provider openai",
        " Only what changed is read\nagain. It may be stopped at any time: what is done stays.",
        (
            _flag("--force", "build it anew (searches go on meanwhile)"),
            _flag(
                "--verify",
                "read every file to compare it, also those whose time and size say they are the same",
            ),
            _flag("--prune", "forget the notes of a workspace that holds none any more"),
            _flag(
                "--dry-run",
                "only tell what would be embedded, where its text would go, and what it would cost",
            ),
        ),
    ),
    _Command(
        "watch",
        "keep the index up to date until it is stopped (Ctrl-C)",
        "watch\n  openclaw-mem watch --json >> sync.jsonl",
        " One line\nfor what happened; nothing when nothing did. It follows the files whatever sync.watch\n"
        "says: sync.debounce_ms after the last change, and every sync.interval_minutes besides. The\n"
        "end of a conversation is indexed when it was quiet for sync.session_quiet_s.",
    ),
    _Command(
        "search",
        "find passages, best first",
        'search "when does the certificate expire" --explain\n'
        "  openclaw-mem search GRN-40417 --profile workbench --max-results 10\n"
        "  openclaw-mem search backup --set decay=on --set half_life_days=90 --json",
        options=(
            _option("words", nargs="*", metavar="QUERY", help="what to look for"),
            _option("--query", metavar="Q", help="the same as an option; it wins over the positional form"),
            *_RANKING,
            _flag("--explain", "also every stage, operand, and what was left out"),
            _flag("--exit-status", "as grep: exit code 1 when nothing relevant was found"),
            _option(
                "--format",
                choices=("table", "json", "csv", "md", "files"),
                help="table (default), json, csv, md, or files: paths alone",
            ),
        ),
    ),
    _Command(
        "why-not",
        "why a search does not return a passage, and what would bring it in",
        'why-not "vpn certificate" memory/2026-02-20.md:12\n'
        '  openclaw-mem why-not "vpn certificate" MEMORY.md --profile workbench --json',
        " It\nwalks from the file on disk to the snippet, and stops at the first no. Every change of a\n"
        "knob that it names was tried: with the next smaller one the passage is not returned.",
        (
            _option("query", metavar="QUERY", help="what is searched"),
            _option("location", metavar="PATH[:LINE]", help="as search prints it, for example MEMORY.md:3"),
            *_RANKING,
        ),
        runner="why_not:run",
    ),
    _Command(
        "get",
        "print a note, or some lines of it",
        "get memory/2026-02-20.md:12 --lines 5",
        " A file that does not exist is\nempty and no error, as agents see it.",
        (
            _option("location", metavar="PATH[:LINE]", help="as search prints it, for example MEMORY.md:3-8"),
            _option("--from", dest="start", metavar="N", help="first line, from 1"),
            _option("--lines", metavar="N", help="how many lines"),
        ),
        runner="search:run_get",
    ),
    _Command("status", "what is indexed, with what, and whether it is up to date", "status"),
    _Command(
        "files",
        "every file of the index and how it stands to the disk",
        "files\n  openclaw-mem files --changed --json",
        " What the\nnext sync would read or forget, and what is left out and why, comes first.",
        (_flag("--changed", "only what is not as it is on disk"),),
        runner="status:run_files",
    ),
    _Command(
        "chunks",
        "where a file is cut: its chunks, and what each shares with the one before",
        "chunks MEMORY.md\n  openclaw-mem chunks memory/2026-02-20.md --text",
        " A search\nfinds chunks, never files: what is cut apart is found apart.",
        (
            _option("path", metavar="PATH", help="as search and files print it"),
            _flag("--text", "also the text, with the edges drawn beside it"),
        ),
        runner="status:run_chunks",
    ),
    _Command("config", "every setting, where its value came from, and what is allowed", "config --agent ops"),
    _Command(
        "providers",
        "whose vectors answer, where text goes, and what it costs",
        "providers\n  openclaw-mem providers --probe",
        " Without\n--probe nothing is asked: it tells what earlier calls found out. Keys are never shown.",
        (
            _option(
                "--probe",
                nargs="?",
                const="",
                metavar="NAME",
                help="ask every provider in use now, or the named one; exit code 7 when the primary or the "
                "named one fails",
            ),
        ),
    ),
    _Command(
        "cache",
        "the embeddings that need not be paid for twice",
        "cache stats\n  openclaw-mem cache prune --max 20000",
        " An embedding that an\nindexed passage needs is never pruned.",
        (
            _option("action", nargs="?", choices=("stats", "prune"), default="stats", help="(stats)"),
            _option(
                "--max",
                metavar="N",
                help="prune: how many may stay (default: cache.max_entries of the settings)",
            ),
        ),
        runner="doctor:run_cache",
    ),
    _Command(
        "doctor",
        "whether the index is whole, and what to do where it is not",
        "doctor\n  openclaw-mem doctor --fix\n  openclaw-mem doctor --deep --json",
        " Without --fix\nit only looks. Exit code 6 when there are errors (left).",
        (
            _flag(
                "--fix",
                "repair what can be repaired from what is on this machine; notes stay, nothing is sent",
            ),
            _flag(
                "--deep",
                "make every chunk again from the notes, and compare all of the index with it byte for byte",
            ),
        ),
    ),
    _Command(
        "log",
        "what happened to this memory: syncs, rebuilds, fallbacks, failures",
        "log --since 2d\n  openclaw-mem log --kind fallback,recovered\n  openclaw-mem log --follow --json",
        " The newest\nevent comes last. Queries and the text of notes are not in it.",
        (
            _option("--limit", metavar="N", help="the last N events (default 50)"),
            _many(
                "--kind",
                "K",
                "only these, with commas: sync, rebuild, fallback, recovered, search-failed, doctor, watch",
            ),
            _option("--since", metavar="WHEN", help="30m, 12h, 2d, 1w ago, or a date: 2026-02-20"),
            _flag("--all", "of every agent and workspace"),
            _flag("--follow", "go on with what happens, until Ctrl-C"),
        ),
    ),
    _Command(
        "model",
        "the model file of the provider `local`: is it there, and its download",
        "model status\n  openclaw-mem model download --yes",
        " Nothing\nis ever downloaded unasked. A download that was stopped goes on where it was.",
        (
            _option("action", nargs="?", choices=("status", "download"), default="status", help="(status)"),
            _option(
                "--model",
                metavar="M",
                help="instead of the configured one: hf:organisation/repository/file.gguf or a path",
            ),
            _flag("--yes", "download without asking"),
            _option(
                "--from",
                dest="base_url",
                metavar="URL",
                help="another host that serves the same paths as https://huggingface.co",
            ),
        ),
    ),
    _Command(
        "demo",
        "a bundled workspace with lessons, needs no network and no settings",
        'demo\n  openclaw-mem search restore --workspace "$(openclaw-mem demo --print-workspace)"\n'
        "  openclaw-mem demo --fault embeddings-401",
        " On a terminal it\nopens the workbench; otherwise it runs every lesson and prints it.",
        (
            _flag("--print-workspace", "write it and print its path, nothing else"),
            _option("--query", metavar="TEXT", help="ask this instead of the lessons"),
            _option("--dir", metavar="DIR", help="write it there (default: in the data folder)"),
            _FAULT,
        ),
    ),
    _Command(
        "tui",
        "the workbench: search as you type, with every score explained",
        'tui "print spooler"\n  openclaw-mem tui --fault embeddings-timeout',
        options=(
            _option("words", nargs="*", metavar="QUERY", help="what to look for first"),
            _option("--theme", metavar="T", help="claw-dark, claw-light, claw-contrast"),
            _FAULT,
        ),
    ),
)


class _Parser(argparse.ArgumentParser):
    """argparse whose complaints are our own errors, which ``main`` prints."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{visible(message)}. See `{self.prog} --help`.")

    def add_common(self, **how: Any) -> None:
        """Add the options that are allowed before and after the command."""
        group = self.add_argument_group("common options (before or after the command)")
        for names, own in _COMMON:
            group.add_argument(*names, **(own | how))


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line. Its result holds ``command`` (None without one) and ``runner``
    (``module:function``)."""
    shape: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = _Parser(
        prog="openclaw-mem",
        description="Search the Markdown memory of AI agents, and see why every passage is,\n"
        "or is not, in the answer.",
        epilog=_FIRST_STEPS,
        **shape,
    )
    parser.add_argument("-V", "--version", action="version", version=f"openclaw-mem {__version__}")
    parser.add_common()
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=_Parser
    )
    for command in _COMMANDS:
        own = commands.add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary[0].upper()}{command.summary[1:]}.{command.details}",
            epilog=f"example:\n  openclaw-mem {command.example}\n",
            **shape,
        )
        # The default of an option after the command must not undo what was given before it.
        own.add_common(default=argparse.SUPPRESS)
        for names, how in command.options:
            own.add_argument(*names, **how)
        own.set_defaults(runner=command.runner or f"{command.name}:run")
    return parser


def whole_number(text: str | None, option: str, least: int) -> int | None:
    """The number that an option holds. Raises UsageError."""
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least or number > sys.maxsize:
        raise UsageError(
            f"{option} cannot be {visible(text)[:60]!r}: allowed is a whole number, {least} or more."
        )
    return number
