"""The whole command line as one table: commands, their options and help."""

from __future__ import annotations

from openclaw_mem_engine.cli.command_table import Command, flag, many, option
from openclaw_mem_engine.cli.qmd_arguments import QMD_COMMANDS
from openclaw_mem_engine.cli.store_arguments import STORE_COMMANDS
from openclaw_mem_engine.cli.writing_arguments import WRITING_COMMANDS

#: Allowed before and after the command.
COMMON = (
    option("--workspace", metavar="DIR", help="the folder that holds MEMORY.md and memory/"),
    option("--config", metavar="FILE", help="an OpenClaw configuration (JSON5) instead of the usual one"),
    option("--agent", metavar="ID", help="whose memory (default: the default agent)"),
    option(
        "--provider",
        metavar="NAME",
        help="embeddings: static (built in), local, openai, gemini, voyage, mistral, ollama, none, auto",
    ),
    many("--include", "GLOB", "further notes of the workspace, for example '**/*.md'"),
    flag("--json", "the answer as JSON on stdout"),
)
_SESSION_KEY = option(
    "--session-key",
    metavar="KEY",
    help="whose session asks, for memory.qmd.scope, as agent:main:telegram:group:1 (without it: a direct "
    "chat)",
)
#: The names are those of ``providers.faults``, which would cost time to load for a help text.
_FAULT = many(
    "--fault",
    "NAME",
    "break something on purpose, to see what follows (on a copy of the index): embeddings-401, "
    "embeddings-429, embeddings-timeout, embeddings-garbage, zero-vector, wrong-dimension, no-sqlite-vec, "
    "no-fts5, qmd-missing, qmd-timeout, qmd-json, qmd-exit",
)
#: How to rank, and from which index.
_RANKING = (
    option("--profile", metavar="P", help="documented, openclaw-2026.2, workbench, qmd-documented, qmd-2.8"),
    option("--max-results", metavar="N", help="how many passages (default 6)"),
    option("--min-score", metavar="X", help="cut below this score (default 0.35)"),
    many("--set", "KNOB=VALUE", "change one ranking knob"),
    flag("--no-sync", "answer from the index as it is, without looking for changes"),
)
#: In the order of the help.
COMMANDS = (
    Command(
        "index",
        "bring the index up to date with the notes on disk",
        "index --workspace ~/.openclaw/workspace\n  openclaw-mem index --dry-run --provider openai",
        " Only what changed is read\nagain. It may be stopped at any time: what is done stays.",
        (
            flag("--force", "build it anew (searches go on meanwhile)"),
            flag(
                "--verify",
                "read every file to compare it, also those whose time and size say they are the same",
            ),
            flag("--prune", "forget the notes of a workspace that holds none any more"),
            flag(
                "--dry-run",
                "only tell what would be embedded, where its text would go, and what it would cost",
            ),
            option(
                "--agents",
                metavar="FILE|all",
                help="many agents: those of the configuration, or a file with an id, and a workspace if it "
                "is not configured, on each line",
            ),
            option("--jobs", metavar="N", help="with --agents: how many at a time (default 4)"),
        ),
    ),
    Command(
        "watch",
        "keep the index up to date until it is stopped (Ctrl-C)",
        "watch\n  openclaw-mem watch --json >> sync.jsonl",
        " One line\nfor what happened; nothing when nothing did. It follows the files whatever sync.watch\n"
        "says: sync.debounce_ms after the last change, and every sync.interval_minutes besides. The\n"
        "end of a conversation is indexed when it was quiet for sync.session_quiet_s.",
    ),
    Command(
        "search",
        "find passages, best first",
        'search "when does the certificate expire" --explain\n'
        "  openclaw-mem search GRN-40417 --profile workbench --max-results 10\n"
        "  openclaw-mem search backup --set decay=on --set half_life_days=90 --json",
        options=(
            option("words", nargs="*", metavar="QUERY", help="what to look for"),
            option("--query", metavar="Q", help="the same as an option; it wins over the positional form"),
            *_RANKING,
            flag("--explain", "also every stage, operand, and what was left out"),
            _SESSION_KEY,
            flag("--exit-status", "as grep: exit code 1 when nothing relevant was found"),
            option(
                "--format",
                choices=("table", "json", "csv", "md", "files", "lines"),
                help="table (default), json, csv, md, files: paths alone, or lines: path:line, score and the "
                "best line of each result between tabs",
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
        "why a search does not return a passage, and what would bring it in",
        'why-not "vpn certificate" memory/2026-02-20.md:12\n'
        '  openclaw-mem why-not "vpn certificate" MEMORY.md --profile workbench --json',
        " It\nwalks from the file on disk to the snippet, and stops at the first no. Every change of a\n"
        "knob that it names was tried: with the next smaller one the passage is not returned.",
        (
            option("query", metavar="QUERY", help="what is searched"),
            option("location", metavar="PATH[:LINE]", help="as search prints it, for example MEMORY.md:3"),
            *_RANKING,
            _SESSION_KEY,
        ),
        runner="why_not:run",
    ),
    Command(
        "get",
        "print a note, or some lines of it",
        "get memory/2026-02-20.md:12 --lines 5",
        " A file that does not exist is\nempty and no error, as agents see it.",
        (
            option("location", metavar="PATH[:LINE]", help="as search prints it, for example MEMORY.md:3-8"),
            option("--from", dest="start", metavar="N", help="first line, from 1"),
            option("--lines", metavar="N", help="how many lines"),
        ),
        runner="search:run_get",
    ),
    Command("status", "what is indexed, with what, and whether it is up to date", "status"),
    Command(
        "files",
        "every file of the index and how it stands to the disk",
        "files\n  openclaw-mem files --changed --json",
        " What the\nnext sync would read or forget, and what is left out and why, comes first.",
        (flag("--changed", "only what is not as it is on disk"),),
        runner="status:run_files",
    ),
    Command(
        "chunks",
        "where a file is cut: its chunks, and what each shares with the one before",
        "chunks MEMORY.md\n  openclaw-mem chunks memory/2026-02-20.md --text",
        " A search\nfinds chunks, never files: what is cut apart is found apart.",
        (
            option("path", metavar="PATH", help="as search and files print it"),
            flag("--text", "also the text, with the edges drawn beside it"),
        ),
        runner="status:run_chunks",
    ),
    Command(
        "config",
        "every setting, where its value came from, and what is allowed",
        "config --agent ops\n  openclaw-mem config set query.min_score=0.3 theme=claw-light\n"
        "  openclaw-mem config undo",
        " `set` writes\nour config.toml, and no other file, after it has shown the change.",
        (
            option("action", nargs="?", choices=("show", "set", "undo"), default="show", help="(show)"),
            option("values", nargs="*", metavar="KEY=VALUE", help="set: keys as `config` lists them"),
            flag("--dry-run", "show the change and write nothing"),
            flag("--yes", "write without asking"),
        ),
    ),
    Command(
        "providers",
        "whose vectors answer, where text goes, and what it costs",
        "providers\n  openclaw-mem providers --probe",
        " Without\n--probe nothing is asked: it tells what earlier calls found out. Keys are never shown.",
        (
            option(
                "--probe",
                nargs="?",
                const="",
                metavar="NAME",
                help="ask every provider in use now, or the named one; exit code 7 when the primary or the "
                "named one fails",
            ),
        ),
    ),
    Command(
        "cache",
        "the embeddings that need not be paid for twice",
        "cache stats\n  openclaw-mem cache prune --max 20000",
        " An embedding that an\nindexed passage needs is never pruned.",
        (
            option("action", nargs="?", choices=("stats", "prune"), default="stats", help="(stats)"),
            option(
                "--max",
                metavar="N",
                help="prune: how many may stay (default: cache.max_entries of the settings)",
            ),
        ),
        runner="doctor:run_cache",
    ),
    Command(
        "doctor",
        "whether the index is whole, and what to do where it is not",
        "doctor\n  openclaw-mem doctor --fix\n  openclaw-mem doctor --deep --json",
        " Without --fix\nit only looks. Exit code 6 when there are errors (left).",
        (
            flag(
                "--fix",
                "repair what can be repaired from what is on this machine; notes stay, nothing is sent",
            ),
            flag(
                "--deep",
                "make every chunk again from the notes, and compare all of the index with it byte for byte",
            ),
        ),
    ),
    Command(
        "log",
        "what happened to this memory: syncs, rebuilds, fallbacks, failures",
        "log --since 2d\n  openclaw-mem log --kind fallback,recovered\n  openclaw-mem log --follow --json",
        " The newest\nevent comes last. Queries and the text of notes are not in it.",
        (
            option("--limit", metavar="N", help="the last N events (default 50)"),
            many(
                "--kind",
                "K",
                "only these, with commas: sync, rebuild, fallback, recovered, search-failed, denied, doctor, "
                "watch, flush, snapshot, edit",
            ),
            option("--since", metavar="WHEN", help="30m, 12h, 2d, 1w ago, or a date: 2026-02-20"),
            flag("--all", "of every agent and workspace"),
            flag("--follow", "go on with what happens, until Ctrl-C"),
        ),
    ),
    Command(
        "model",
        "the files of local models: are they there, and their download",
        "model status\n  openclaw-mem model download --yes\n  openclaw-mem model download --for rerank",
        " Nothing\nis ever downloaded unasked. A download that was stopped goes on where it was.",
        (
            option("action", nargs="?", choices=("status", "download"), default="status", help="(status)"),
            option(
                "--model",
                metavar="M",
                help="instead of the configured one: hf:organisation/repository/file.gguf or a path",
            ),
            option(
                "--for",
                dest="use",
                choices=("embedding", "rerank", "expansion"),
                default="embedding",
                help="what the model is for (embedding)",
            ),
            flag("--yes", "download without asking"),
            option(
                "--from",
                dest="base_url",
                metavar="URL",
                help="another host that serves the same paths as https://huggingface.co",
            ),
        ),
    ),
    Command(
        "qmd",
        "the QMD backend: what memory.backend qmd searches with",
        "qmd warm-up",
        commands=QMD_COMMANDS,
    ),
    Command(
        "store",
        "the PostgreSQL servers that hold indexes instead of a file",
        "store status",
        commands=STORE_COMMANDS,
    ),
    *WRITING_COMMANDS,
    Command(
        "completion",
        "a script that completes commands and options in your shell",
        "completion bash > ~/.local/share/bash-completion/completions/openclaw-mem",
        options=(option("shell", choices=("bash", "zsh", "fish"), help="the shell that reads it"),),
    ),
    Command(
        "demo",
        "a bundled workspace with lessons, needs no network and no settings",
        'demo\n  openclaw-mem search restore --workspace "$(openclaw-mem demo --print-workspace)"\n'
        "  openclaw-mem demo --fault embeddings-401",
        " On a terminal it\nopens the workbench; otherwise it runs every lesson and prints it.",
        (
            flag("--print-workspace", "write it and print its path, nothing else"),
            option("--query", metavar="TEXT", help="ask this instead of the lessons"),
            option("--dir", metavar="DIR", help="write it there (default: in the data folder)"),
            _FAULT,
        ),
    ),
    Command(
        "tui",
        "the workbench: search as you type, with every score explained",
        'tui "print spooler"\n  openclaw-mem tui --fault embeddings-timeout',
        options=(
            option("words", nargs="*", metavar="QUERY", help="what to look for first"),
            option("--theme", metavar="T", help="claw-dark, claw-light, claw-contrast"),
            _SESSION_KEY,
            _FAULT,
        ),
    ),
)
