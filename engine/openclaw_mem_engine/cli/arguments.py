"""The whole command line as one table: commands, their options and help."""

from __future__ import annotations

from openclaw_mem_engine.cli import command_table as shared
from openclaw_mem_engine.cli.command_table import Command, flag, many, option
from openclaw_mem_engine.cli.qmd_arguments import QMD_COMMANDS
from openclaw_mem_engine.cli.settings_arguments import CACHE, CONFIG, MODEL, STORE_COMMANDS
from openclaw_mem_engine.cli.writing_arguments import WRITING_COMMANDS

#: Allowed before and after the command.
COMMON = (
    option(
        "--workspace",
        metavar="DIR",
        help="the folder that holds MEMORY.md and memory/ (default: OpenClaw's)",
    ),
    option("--config", metavar="FILE", help="an OpenClaw configuration (JSON5) instead of the usual one"),
    option("--agent", metavar="ID", help="the agent whose memory is used (default: the default agent)"),
    option(
        "--provider",
        metavar="NAME",
        help="embeddings: auto (default), static (built in), local, openai, gemini, voyage, mistral, ollama, "
        "none",
    ),
    many("--include", "GLOB", "more notes in the workspace, for example '**/*.md'"),
    flag("--json", "the answer as JSON on stdout"),
)
_SESSION_KEY = option(
    "--session-key",
    metavar="KEY",
    help="session key of the search, for memory.qmd.scope, such as agent:main:telegram:group:1 (default: a "
    "direct chat)",
)
#: The names are those of ``providers.faults``, which would cost time to load for a help text.
_FAULT = many(
    "--fault",
    "NAME",
    "simulate a fault on a copy of the index: embeddings-401, "
    "embeddings-429, embeddings-timeout, embeddings-garbage, zero-vector, wrong-dimension, no-sqlite-vec, "
    "no-fts5, qmd-missing, qmd-timeout, qmd-json, qmd-exit",
)
#: The profiles, which would cost time to load for a help text.
PROFILE_NAMES = "documented, openclaw-2026.2, workbench, qmd-documented, qmd-2.8"
#: How to rank, and from which index.
_RANKING = (
    option(
        "--profile",
        metavar="P",
        help=f"ranking; configured knobs keep their values (default: documented): {PROFILE_NAMES}",
    ),
    option("--max-results", metavar="N", help="how many results, 1 to 200 (default: as configured, else 6)"),
    option(
        "--min-score",
        metavar="X",
        help="drop scores below X, 0 to 1 (default: as configured, else that of the profile)",
    ),
    shared.SET_KNOB,
    shared.NO_SYNC,
)
#: The commands by what they are for, in the order of the help.
SECTIONS = (
    ("start here", "demo tui"),
    ("search and explain", "search why-not get tool"),
    ("index", "status files chunks index watch doctor log"),
    ("write memory", "remember undo curate flush snapshot prompt timeline"),
    ("settings and models", "config providers model cache completion"),
    ("other stores and backends", "qmd memories store"),
)
COMMANDS = (
    Command(
        "index",
        "sync the index with the notes on disk",
        "index --workspace ~/.openclaw/workspace\n  openclaw-mem index --dry-run --provider openai",
        " Only what changed is read\nagain. You can stop it at any time: finished work is kept.",
        (
            flag("--force", "rebuild it (searches keep using the old index meanwhile)"),
            flag("--verify", "read every file and compare it, also files with the same time and size"),
            flag("--prune", "remove the notes of an emptied workspace from the index"),
            flag("--dry-run", "only show what would be embedded, where its text would be sent, and the cost"),
            option(
                "--agents",
                metavar="FILE|all",
                help="sync many agents: all in the configuration, or those in a file: on each line an id "
                "and, if no configuration has it, a workspace",
            ),
            option("--jobs", metavar="N", help="with --agents: how many at a time (default: 4)"),
        ),
    ),
    Command(
        "watch",
        "keep the index up to date until Ctrl-C",
        "watch\n  openclaw-mem watch --json >> sync.jsonl",
        " Prints a\nline only when something happens. It syncs sync.debounce_ms after the last change, even "
        "if\nsync.watch is off, and every sync.interval_minutes. The end of a conversation is indexed after\n"
        "sync.session_quiet_s without a message.",
    ),
    Command(
        "search",
        "search the notes, best results first",
        'search "when does the certificate expire" --explain\n'
        "  openclaw-mem search GRN-40417 --profile workbench --max-results 10\n"
        "  openclaw-mem search backup --set decay=on --set half_life_days=90 --json",
        options=(
            option("words", nargs="*", metavar="QUERY", help="the query"),
            shared.QUERY,
            *_RANKING,
            flag("--explain", "also every stage and operand, and the first dropped chunks (--json: all)"),
            _SESSION_KEY,
            shared.EXIT_STATUS,
            option(
                "--format",
                choices=("table", "json", "csv", "md", "files", "lines"),
                help="table (default), json, csv, md, files (only paths) or lines (path:line, score and best "
                "line of each result, separated by tabs)",
            ),
            option(
                "-0",
                "--null",
                dest="null",
                action="store_true",
                help="with files or lines: records end in NUL, and paths are not escaped",
            ),
        ),
    ),
    Command(
        "why-not",
        "show why a passage is not returned, and what returns it",
        'why-not "vpn certificate" memory/2026-02-20.md:12\n'
        '  openclaw-mem why-not "vpn certificate" MEMORY.md --profile workbench --json',
        " It\nfollows the passage from the file on disk to the snippet, and stops at the first step that "
        "drops the passage. Every\nchange of a knob that it names was tried, in steps of the knob panel "
        "(min score: 0.01).",
        (
            option("query", metavar="QUERY", help="what is searched"),
            option(
                "location",
                metavar="PATH[:LINE]",
                help="as search prints it, for example MEMORY.md:3; of a range, the first line counts",
            ),
            *_RANKING,
            _SESSION_KEY,
        ),
        runner="why_not:run",
    ),
    Command(
        "get",
        "print a note, or some lines of it",
        "get memory/2026-02-20.md:12 --lines 5",
        " A missing memory file\ngives empty text and no error, as for agents; other paths are refused.",
        (
            option("location", metavar="PATH[:LINE]", help="as search prints it, for example MEMORY.md:3-8"),
            shared.FIRST_LINE,
            option("--lines", metavar="N", help="how many lines (default: all that follow)"),
        ),
        runner="search:run_get",
    ),
    Command("status", "show the state of the index and what is configured", "status"),
    Command(
        "files",
        "list the files of the index and their state",
        "files\n  openclaw-mem files --changed --json",
        " What the\nnext sync would read or remove comes first, then what is excluded, with the reason.",
        (flag("--changed", "only files that are not up to date"),),
        runner="status:run_files",
    ),
    Command(
        "chunks",
        "list the chunks of a file, and the lines that they share",
        "chunks MEMORY.md\n  openclaw-mem chunks memory/2026-02-20.md --text",
        " A search\nfinds chunks, not files: two chunks of a file are found separately.",
        (
            option("path", metavar="PATH", help="as search and files print it"),
            flag("--text", "also the text, with the limits of each chunk"),
        ),
        runner="status:run_chunks",
    ),
    CONFIG,
    Command(
        "providers",
        "list the embedding providers and where they send text",
        "providers\n  openclaw-mem providers --probe",
        " Without\n--probe no request is sent: earlier results are shown. Keys are never shown.",
        (
            option(
                "--probe",
                nargs="?",
                const="",
                metavar="NAME",
                help="probe every provider in use, or the named one; exit code 7 when the primary or the "
                "named one fails",
            ),
        ),
    ),
    CACHE,
    Command(
        "doctor",
        "check the index; --fix repairs it",
        "doctor\n  openclaw-mem doctor --fix\n  openclaw-mem doctor --deep --json",
        " Without --fix\nit changes nothing. The exit code is 6 if errors remain.",
        (
            flag("--fix", "repair it, and sync where that repairs; notes do not change"),
            flag("--deep", "make every chunk again from the notes and compare it with the index"),
        ),
    ),
    Command(
        "log",
        "show what happened: syncs, rebuilds, fallbacks, failures",
        "log --since 2d\n  openclaw-mem log --kind fallback,recovered\n  openclaw-mem log --follow --json",
        " The newest\nevent comes last. Queries and the text of notes are not in it.",
        (
            option("--limit", metavar="N", help="the last N events (default: 50)"),
            many(
                "--kind",
                "K",
                "only these kinds, separated by commas: sync, rebuild, fallback, recovered, search-failed, "
                "denied, doctor, watch, flush, snapshot, edit",
            ),
            shared.SINCE,
            flag("--all", "events of every agent and workspace"),
            flag("--follow", "follow new events until Ctrl-C"),
        ),
    ),
    MODEL,
    Command(
        "qmd",
        "search whole documents in collections, as QMD does",
        'qmd query "vpn certificate"',
        commands=QMD_COMMANDS,
    ),
    Command(
        "store",
        "keep indexes in PostgreSQL servers instead of files",
        "store status",
        commands=STORE_COMMANDS,
    ),
    *WRITING_COMMANDS,
    Command(
        "completion",
        "print a script that completes commands in your shell",
        'completion zsh > ~/.zfunc/_openclaw-mem\n  eval "$(openclaw-mem completion bash)"',
        options=(
            option("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish"),
        ),
    ),
    Command(
        "demo",
        "try it: bundled notes with lessons, no network, no settings",
        'demo\n  openclaw-mem search vpn --workspace "$(openclaw-mem demo --print-workspace)"\n'
        "  openclaw-mem demo --fault embeddings-401",
        " On a terminal it\nopens the workbench; otherwise it prints every lesson.",
        (
            flag("--print-workspace", "write the demo workspace and print only its path"),
            option("--query", metavar="TEXT", help="search for this instead of running the lessons"),
            option(
                "--dir", metavar="DIR", help="write the demo workspace there (default: in the data folder)"
            ),
            _FAULT,
        ),
    ),
    Command(
        "tui",
        "open the workbench: search as you type, see every score",
        'tui "print spooler"\n  openclaw-mem tui --fault embeddings-timeout',
        options=(
            option("words", nargs="*", metavar="QUERY", help="the first query"),
            option("--theme", metavar="T", help="claw-dark (default), claw-light, claw-contrast, or yours"),
            _SESSION_KEY,
            _FAULT,
        ),
        json=False,
    ),
)
