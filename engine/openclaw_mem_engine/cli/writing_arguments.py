"""The commands about how memory is written: what they take, and their help."""

from __future__ import annotations

from openclaw_mem_engine.cli import command_table as shared
from openclaw_mem_engine.cli.command_table import Command, Option, flag, many, option

_DRY_RUN = flag("--dry-run", "show what would be written, and write nothing")
_SESSION = option(
    "--session",
    metavar="ID",
    required=True,
    help="a session's id or key, or a unique start of the id or end of the key, such as main",
)
_LIMIT = option("--limit", metavar="N", help="how many at most (default: 5)")
#: As in ``plugin``, whose modules need not be imported for a help text; a test compares them.
_TOOL_NAMES = ("memory_search", "memory_get", "memory_store", "memory_recall", "memory_forget")
CATEGORIES = ("preference", "decision", "entity", "fact", "other")
_TO: Option = option(
    "--to",
    choices=("memory", "daily"),
    help="MEMORY.md or the daily log (default: decided by the words of the text)",
)

WRITING_COMMANDS: tuple[Command, ...] = (
    Command(
        "remember",
        "add a fact to MEMORY.md, or an event to the daily log",
        'remember "Ines prefers calls after ten"\n  openclaw-mem remember --dry-run "decided: SQLite stays"',
        " Preferences and decisions are facts. Where the text goes, and why, is shown with the diff before "
        "anything is written.",
        (option("words", nargs="+", metavar="TEXT", help="what to remember"), _TO, _DRY_RUN, shared.YES),
    ),
    Command(
        "undo",
        "undo the last change that openclaw-mem made in a note",
        "undo\n  openclaw-mem undo --list\n  openclaw-mem undo 12 --show",
        " It refuses if the\nnote has changed since.",
        (
            option(
                "edit", nargs="?", metavar="EDIT", help="its number, as --list prints it (default: the last)"
            ),
            flag("--list", "the changes that can be undone, newest first"),
            flag("--show", "print the note as it was before the change"),
            _DRY_RUN,
            shared.YES,
        ),
        "remember:undo",
    ),
    Command(
        "tool",
        "call one of the agent's memory tools as the agent does",
        'tool memory_search \'{"query": "vpn certificate"}\'\n'
        '  openclaw-mem tool memory_get \'{"path": "MEMORY.md", "from": 3, "lines": 10}\'',
        " It prints the\nanswer that the agent gets, as JSON, with citations and scope.",
        (
            option("name", metavar="NAME", help=", ".join(_TOOL_NAMES)),
            option("parameters", nargs="?", default="{}", metavar="JSON", help="its parameters; - is stdin"),
            option(
                "--session-key", metavar="KEY", help="decides citations and scope (default: a direct chat)"
            ),
            shared.NO_SYNC,
        ),
    ),
    Command(
        "memories",
        "store and find single memories, as memory-lancedb does",
        "memories list",
        commands=(
            Command("list", "list all memories, newest first", "memories list", runner="memories:listed"),
            Command(
                "search",
                "find the nearest memories, with their scores",
                'memories search "tea"',
                options=(option("words", nargs="+", metavar="QUERY", help="the query"), _LIMIT),
                runner="memories:search",
            ),
            Command(
                "stats", "count the memories in each category", "memories stats", runner="memories:stats"
            ),
            Command(
                "store",
                "store a text, even if auto-capture refuses it",
                'memories store "the NAS is called heron" --category entity',
                options=(
                    option("words", nargs="+", metavar="TEXT", help="what to store"),
                    option(
                        "--category", metavar="C", default="other", help=f"{', '.join(CATEGORIES)} (default)"
                    ),
                    option("--importance", metavar="X", default="0.7", help="0 to 1 (default: 0.7)"),
                ),
                runner="memories:store",
            ),
            Command(
                "forget",
                "remove the memory with this id",
                "memories forget 6f1c22ab",
                options=(
                    option("id", metavar="ID", help="as `list` prints it; the first 8 characters are enough"),
                ),
                runner="memories:forget",
            ),
            Command(
                "capture",
                "decide about each text as auto-capture does, name the rule, and store what it accepts",
                'memories capture --dry-run "I prefer dark mode" "thanks"\n'
                "  openclaw-mem memories capture --dry-run --session main",
                options=(
                    option(
                        "texts",
                        nargs="*",
                        metavar="TEXT",
                        help="what a user said; one argument for each text",
                    ),
                    option("--session", metavar="ID", help="what the user said in this session"),
                    _DRY_RUN,
                ),
                runner="memories:capture",
            ),
            Command(
                "recall",
                "print the memories that would be put before a prompt",
                'memories recall "which tea?"',
                options=(option("words", nargs="+", metavar="PROMPT", help="the prompt"),),
                runner="memories:recall",
            ),
        ),
    ),
    Command(
        "curate",
        "propose changes of MEMORY.md, with evidence and diffs",
        "curate\n  openclaw-mem curate --effect 3f9c01ab\n  openclaw-mem curate --apply 3f9c01ab",
        " Nothing is\nwritten without confirmation; `openclaw-mem undo` undoes a change.",
        (
            option(
                "--apply", metavar="ID", help="show a proposal and its effect; write it after confirmation"
            ),
            option("--effect", metavar="ID", help="what a proposal would do to answers, measured on a copy"),
            option("--reject", metavar="ID", help="do not make a proposal again"),
            option("--restore", metavar="ID", help="make a rejected proposal again"),
            flag("--rejected", "list the rejected proposals"),
            shared.YES,
        ),
    ),
    Command(
        "flush",
        "ask a model what to keep from a conversation, and append it",
        "flush --session main --dry-run\n  openclaw-mem flush --session main",
        " The answer goes to the daily log. This is what OpenClaw does before it compacts a conversation, "
        "with its threshold and prompts. The chat model is that of flush.provider and flush.model. Nothing "
        "is overwritten; `openclaw-mem undo` undoes it.",
        (
            _SESSION,
            flag("--dry-run", "show the decision and what would be sent; send and write nothing"),
            flag("--force", "flush regardless of tokens and earlier flushes"),
        ),
    ),
    Command(
        "snapshot",
        "save the last messages of a conversation as a note",
        "snapshot --session main --dry-run",
        " OpenClaw does\nthis on /new and /reset. Commands, tool calls and errors are not kept. The note is\n"
        "memory/DATE-NAME.md. The chat model of flush.model chooses the name; without one, the name is the\n"
        "time. An existing note is never replaced.",
        (_SESSION, _DRY_RUN),
    ),
    Command(
        "prompt",
        "show what a system prompt gets from memory, with tokens",
        "prompt\n  openclaw-mem prompt --session-type group --citations off\n"
        '  openclaw-mem prompt --query "vpn certificate"',
        " It prints the text, the files with the line at which they are cut, missing files, and the logs of "
        "today and yesterday. With --query it also shows what a search saves compared with whole files.",
        (
            option(
                "--session-type",
                choices=("main", "group", "subagent", "cron"),
                default="main",
                help="whose prompt (default: main, a direct chat)",
            ),
            option("--citations", choices=("auto", "on", "off"), help="default: as configured"),
            option("--query", metavar="Q", help="search this, and compare with reading whole files"),
        ),
    ),
    Command(
        "timeline",
        "show when memory was written and read; missed flushes",
        "timeline\n  openclaw-mem timeline --kind flush,compaction --since 1w\n"
        "  openclaw-mem timeline --session agent:main:main --json",
        " A missed flush is a\ncompaction before which no flush ran. OpenClaw's transcripts are only read.",
        (
            option("--session", metavar="ID", help="only this session, named as for flush"),
            shared.SINCE,
            many(
                "--kind",
                "K",
                "only these kinds, separated by commas: flush, compaction, snapshot, write, search, sync, "
                "rebuild, fallback, recovered, search-failed, denied, edit",
            ),
            option("--limit", metavar="N", help="the last N sessions (default: 20); --json lists all"),
        ),
    ),
)
