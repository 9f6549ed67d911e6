"""The commands of ``openclaw-mem store``."""

from __future__ import annotations

from openclaw_mem_engine.cli.command_table import Command, flag, option

STORE_COMMANDS = (
    Command(
        "init",
        "make or update the tables on every server of store.servers",
        "store init",
        " It connects\nas the role in OPENCLAW_MEM_STORE_OWNER, which owns the tables, and gives the role of "
        "store.servers\nthe rights to use them.",
        runner="store:init",
    ),
    Command(
        "status",
        "which server and shard hold the agent's index, and whether each server answers",
        "store status\n  openclaw-mem store status --agent ops --json",
        " Passwords\nare never shown. Exit code 6 when a server cannot be used.",
        runner="store:status",
    ),
    Command(
        "migrate",
        "copy the agent's index from its file to the servers, or back, with its embeddings",
        "store migrate --to postgres\n  openclaw-mem store migrate --to sqlite --replace",
        " The source\ndoes not change. Searches see the old content of the target until all is copied.",
        (
            option("--to", choices=("postgres", "sqlite"), required=True, help="where the copy goes"),
            flag("--replace", "replace an index with files that the target already has"),
        ),
        runner="store:migrate",
    ),
    Command(
        "move",
        "move the agent's index to another of the servers",
        "store move --agent ops --to 2",
        " It is copied\nand counted, then all hosts use the copy, then the old one is removed.",
        (
            option(
                "--to",
                metavar="SERVER",
                required=True,
                help="its number in store.servers, from 1, or host:port/database as `store status` prints it",
            ),
        ),
        runner="store:move",
    ),
    Command(
        "remove",
        "remove the index of a retired agent from all servers, with the text of its notes",
        "store remove --agent ops",
        " It shows\nwhat will be removed, asks, and removes text, words and embeddings. The notes stay. It "
        "refuses while a\nsync is running. A host that still syncs the agent makes the index again.",
        (flag("--yes", "remove without asking"),),
        runner="store:remove",
    ),
)
