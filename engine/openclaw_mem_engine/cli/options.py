"""What each command takes: its options and their help."""

from __future__ import annotations

import argparse
from typing import NoReturn

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.sanitize import visible

FORMATS = ("table", "json", "csv", "md", "files")


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are our own errors, so that they leave by the same door."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{visible(message)}. See `{self.prog} --help`.")


def common(parser: argparse.ArgumentParser, *, first: bool = False) -> None:
    """The options that stand before or after the command. The command's own default must not undo what
    stood before it, hence SUPPRESS."""
    absent = None if first else argparse.SUPPRESS
    group = parser.add_argument_group("common options (before or after the command)")
    group.add_argument(
        "--workspace", metavar="DIR", default=absent, help="the folder that holds MEMORY.md and memory/"
    )
    group.add_argument(
        "--config",
        metavar="FILE",
        default=absent,
        help="an OpenClaw configuration (JSON5) instead of the usual one",
    )
    group.add_argument(
        "--agent", metavar="ID", default=absent, help="whose memory (default: the default agent)"
    )
    group.add_argument(
        "--provider",
        metavar="NAME",
        default=absent,
        help="embeddings: static (built in), local, openai, gemini, voyage, mistral, ollama, none, auto",
    )
    group.add_argument(
        "--json",
        action="store_true",
        default=False if first else argparse.SUPPRESS,
        help="the answer as JSON on stdout",
    )


_Commands = argparse._SubParsersAction  # its public name does not exist


def _command(
    commands: _Commands[Parser], name: str, summary: str, example: str, details: str = ""
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.{details}",
        epilog=f"example:\n  openclaw-mem {example}\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    common(parser)
    return parser


def _flag(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    parser.add_argument(name, action="store_true", help=text)


def _index(commands: _Commands[Parser]) -> None:
    parser = _command(
        commands,
        "index",
        "bring the index up to date with the notes on disk",
        "index --workspace ~/.openclaw/workspace\n  openclaw-mem index --dry-run --provider openai",
        " Only what changed is read\nagain. It may be stopped at any time: what is done stays.",
    )
    _flag(parser, "--force", "build it anew (searches go on meanwhile)")
    _flag(
        parser,
        "--verify",
        "read every file to compare it, also those whose time and size say they are the same",
    )
    _flag(
        parser,
        "--dry-run",
        "only tell what would be embedded, where its text would go, and what it would cost",
    )


def _watch(commands: _Commands[Parser]) -> None:
    _command(
        commands,
        "watch",
        "keep the index up to date until it is stopped (Ctrl-C)",
        "watch\n  openclaw-mem watch --json >> sync.jsonl",
        " One line\nfor what happened; nothing when nothing did. It follows the files whatever sync.watch\n"
        "says: sync.debounce_ms after the last change, and every sync.interval_minutes besides. The\n"
        "end of a conversation is indexed when it was quiet for sync.session_quiet_s.",
    )


def _search(commands: _Commands[Parser]) -> None:
    parser = _command(
        commands,
        "search",
        "find passages, best first",
        'search "when does the certificate expire" --explain\n'
        "  openclaw-mem search GRN-40417 --profile workbench --max-results 10\n"
        "  openclaw-mem search backup --set decay=on --set half_life_days=90 --json",
        "",
    )
    parser.add_argument("words", nargs="*", metavar="QUERY", help="what to look for")
    parser.add_argument(
        "--query", metavar="Q", help="the same as an option; it wins over the positional form"
    )
    parser.add_argument("--profile", metavar="P", help="ranking: documented, openclaw-2026.2, workbench")
    parser.add_argument("--max-results", metavar="N", help="how many passages (default 6)")
    parser.add_argument("--min-score", metavar="X", help="cut below this score (default 0.35)")
    _flag(parser, "--explain", "also every stage, operand, and what was left out")
    parser.add_argument(
        "--set",
        metavar="KNOB=VALUE",
        action="append",
        default=[],
        help="change one ranking knob; may be repeated",
    )
    _flag(parser, "--no-sync", "answer from the index as it is, without looking for changes")
    parser.add_argument(
        "--format", choices=FORMATS, help="table (default), json, csv, md, or files: paths alone"
    )


def _get(commands: _Commands[Parser]) -> None:
    parser = _command(
        commands,
        "get",
        "print a note, or some lines of it",
        "get memory/2026-02-20.md:12 --lines 5",
        " A file that does not exist is\nempty and no error, as agents see it.",
    )
    parser.add_argument(
        "location", metavar="PATH[:LINE]", help="as search prints it, for example MEMORY.md:3-8"
    )
    parser.add_argument("--from", dest="start", metavar="N", help="first line, from 1")
    parser.add_argument("--lines", metavar="N", help="how many lines")


def _providers(commands: _Commands[Parser]) -> None:
    parser = _command(
        commands,
        "providers",
        "whose vectors answer, where text goes, and what it costs",
        "providers\n  openclaw-mem providers --probe",
        " Without\n--probe nothing is asked: it tells what earlier calls found out. Keys are never shown.",
    )
    parser.add_argument(
        "--probe",
        nargs="?",
        const="",
        metavar="NAME",
        help="ask every provider in use now, or the named one; exit code 7 when the primary or the named "
        "one fails",
    )


def _cache(commands: _Commands[Parser]) -> None:
    parser = _command(
        commands,
        "cache",
        "the embeddings that need not be paid for twice",
        "cache stats\n  openclaw-mem cache prune --max 20000",
        " An embedding that an\nindexed passage needs is never pruned.",
    )
    parser.add_argument("action", nargs="?", choices=("stats", "prune"), default="stats", help="(stats)")
    parser.add_argument(
        "--max", metavar="N", help="prune: how many may stay (default: cache.max_entries of the settings)"
    )


def _doctor(commands: _Commands[Parser]) -> None:
    parser = _command(
        commands,
        "doctor",
        "whether the index is whole, and what to do where it is not",
        "doctor\n  openclaw-mem doctor --fix\n  openclaw-mem doctor --deep --json",
        " Without --fix\nit only looks. Exit code 6 when there are errors (left).",
    )
    _flag(
        parser,
        "--fix",
        "repair what can be repaired from what is on this machine; notes stay, nothing is sent",
    )
    _flag(
        parser,
        "--deep",
        "make every chunk again from the notes, and compare all of the index with it byte for byte",
    )


def _log(commands: _Commands[Parser]) -> None:
    parser = _command(
        commands,
        "log",
        "what happened to this memory: syncs, rebuilds, fallbacks, failures",
        "log --since 2d\n  openclaw-mem log --kind fallback,recovered\n  openclaw-mem log --follow --json",
        " The newest\nevent comes last. Queries and the text of notes are not in it.",
    )
    parser.add_argument("--limit", metavar="N", help="the last N events (default 50)")
    parser.add_argument(
        "--kind",
        metavar="K",
        action="append",
        default=[],
        help="only these, with commas: sync, rebuild, fallback, recovered, search-failed, doctor, watch",
    )
    parser.add_argument("--since", metavar="WHEN", help="30m, 12h, 2d, 1w ago, or a date: 2026-02-20")
    _flag(parser, "--all", "of every agent and workspace")
    _flag(parser, "--follow", "go on with what happens, until Ctrl-C")


def _model(commands: _Commands[Parser]) -> None:
    parser = _command(
        commands,
        "model",
        "the model file of the provider `local`: is it there, and its download",
        "model status\n  openclaw-mem model download --yes",
        " Nothing\nis ever downloaded unasked. A download that was stopped goes on where it was.",
    )
    parser.add_argument(
        "action", nargs="?", choices=("status", "download"), default="status", help="(status)"
    )
    parser.add_argument(
        "--model",
        metavar="M",
        help="instead of the configured one: hf:organisation/repository/file.gguf or a path",
    )
    _flag(parser, "--yes", "download without asking")
    parser.add_argument(
        "--from",
        dest="base_url",
        metavar="URL",
        help="another host that serves the same paths as https://huggingface.co",
    )


#: As in ``providers.faults``, which would cost time to load for a help text.
_FAULTS = (
    "embeddings-401, embeddings-429, embeddings-timeout, embeddings-garbage, zero-vector, wrong-dimension, "
    "no-sqlite-vec, no-fts5"
)


def _fault(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fault",
        metavar="NAME",
        action="append",
        default=[],
        help=f"break something on purpose, to see what follows (on a copy of the index): {_FAULTS}; "
        "may be repeated",
    )


def _demo(commands: _Commands[Parser]) -> None:
    parser = _command(
        commands,
        "demo",
        "a bundled workspace with lessons, needs no network and no settings",
        'demo\n  openclaw-mem search restore --workspace "$(openclaw-mem demo --print-workspace)"\n'
        "  openclaw-mem demo --fault embeddings-401",
        " On a terminal it\nopens the workbench; otherwise it runs every lesson and prints it.",
    )
    _flag(parser, "--print-workspace", "write it and print its path, nothing else")
    parser.add_argument("--query", metavar="TEXT", help="ask this instead of the lessons")
    parser.add_argument("--dir", metavar="DIR", help="write it there (default: in the data folder)")
    _fault(parser)


def _tui(commands: _Commands[Parser]) -> None:
    parser = _command(
        commands,
        "tui",
        "the workbench: search as you type, with every score explained",
        'tui "print spooler"\n  openclaw-mem tui --fault embeddings-timeout',
    )
    parser.add_argument("words", nargs="*", metavar="QUERY", help="what to look for first")
    parser.add_argument("--theme", metavar="T", help="claw-dark, claw-light, claw-contrast")
    _fault(parser)


def _status(commands: _Commands[Parser]) -> None:
    _command(commands, "status", "what is indexed, with what, and whether it is up to date", "status")


def _files(commands: _Commands[Parser]) -> None:
    parser = _command(
        commands,
        "files",
        "every file of the index and how it stands to the disk",
        "files\n  openclaw-mem files --changed --json",
        " What the\nnext sync would read or forget, and what is left out and why, comes first.",
    )
    _flag(parser, "--changed", "only what is not as it is on disk")


def _chunks(commands: _Commands[Parser]) -> None:
    parser = _command(
        commands,
        "chunks",
        "where a file is cut: its chunks, and what each shares with the one before",
        "chunks MEMORY.md\n  openclaw-mem chunks memory/2026-02-20.md --text",
        " A search\nfinds chunks, never files: what is cut apart is found apart.",
    )
    parser.add_argument("path", metavar="PATH", help="as search and files print it")
    _flag(parser, "--text", "also the text, with the edges drawn beside it")


def _config(commands: _Commands[Parser]) -> None:
    _command(
        commands,
        "config",
        "every setting, where its value came from, and what is allowed",
        "config --agent ops",
    )


#: In the order of the help.
COMMANDS = (
    _index,
    _watch,
    _search,
    _get,
    _status,
    _files,
    _chunks,
    _config,
    _providers,
    _cache,
    _doctor,
    _log,
    _model,
    _demo,
    _tui,
)
