"""The commands of ``openclaw-mem config``, ``cache``, ``model`` and ``store``."""

from __future__ import annotations

from openclaw_mem_engine.cli import command_table as shared
from openclaw_mem_engine.cli.command_table import Command, flag, option

_DRY_RUN = flag("--dry-run", "show the change and write nothing")
CONFIG = Command(
    "config",
    "show or change settings, with the origin of each value",
    "config --agent ops\n  openclaw-mem config show query.min_score provider\n"
    "  openclaw-mem config set query.min_score=0.3 theme=claw-light\n"
    "  openclaw-mem config undo",
    " Without a\ncommand it shows the settings. `set` and `undo` change our config.toml and no other file.",
    commands=(
        Command(
            "show",
            "show every setting, its value and its origin",
            "config show query.min_score provider\n  openclaw-mem config show --verbose",
            " No\norigin is shown for a value that is built in.",
            (
                option(
                    "values", nargs="*", metavar="KEY", help="only these, for example query, provider.name"
                ),
                flag("--verbose", "also the allowed values"),
            ),
            runner="config:show_settings",
        ),
        Command(
            "set",
            "change settings in our config.toml",
            "config set query.min_score=0.3 theme=claw-light",
            " The change is\nshown first, and written after a yes. `openclaw-mem config undo` undoes it.",
            (
                option("values", nargs="*", metavar="KEY=VALUE", help="for example query.min_score=0.3"),
                _DRY_RUN,
                shared.YES,
            ),
            runner="config:change",
        ),
        Command(
            "undo",
            "undo the last change of our config.toml",
            "config undo --dry-run",
            " The same again\nrestores it.",
            (_DRY_RUN, shared.YES),
            runner="config:change",
        ),
    ),
    default="show",
)
CACHE = Command(
    "cache",
    "show or prune the embedding cache",
    "cache stats\n  openclaw-mem cache prune --max 20000",
    " Without a\ncommand it shows the sizes.",
    commands=(
        Command(
            "stats", "show how many embeddings it holds, by model", "cache stats", runner="doctor:run_cache"
        ),
        Command(
            "prune",
            "delete the oldest embeddings that no chunk needs",
            "cache prune --max 20000",
            " An\nembedding that an indexed chunk needs is never pruned.",
            (option("--max", metavar="N", help="how many to keep (default: the setting cache.max_entries)"),),
            runner="doctor:run_cache",
        ),
    ),
    default="stats",
)
_MODEL = (
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
        help="what the model is for (default: embedding)",
    ),
)
MODEL = Command(
    "model",
    "show or download the files of local models",
    "model status\n  openclaw-mem model download --yes\n  openclaw-mem model download --for rerank",
    " Without\na command it shows the state.",
    commands=(
        Command("status", "show which model files exist", "model status", "", _MODEL, "model:run"),
        Command(
            "download",
            "download the file of a model",
            "model download --yes\n  openclaw-mem model download --for rerank",
            " Nothing is\ndownloaded without confirmation. A stopped download continues where it stopped.",
            (
                *_MODEL,
                flag("--yes", "download without asking"),
                option(
                    "--from",
                    dest="base_url",
                    metavar="URL",
                    help="another host that serves the same paths as https://huggingface.co",
                ),
            ),
            runner="model:run_download",
        ),
    ),
    default="status",
)

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
        "show which server and shard hold the agent's index, and check each server",
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
