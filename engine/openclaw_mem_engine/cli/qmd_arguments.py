"""The commands of ``openclaw-mem qmd``: one entry each, run by a function of the modules ``cli.qmd*``."""

from __future__ import annotations

from openclaw_mem_engine.cli import command_table as shared
from openclaw_mem_engine.cli.command_table import Command, Option, flag, many, option

_FORMATS: tuple[Option, ...] = (
    option(
        "--format",
        choices=("cli", "json", "csv", "md", "xml", "files"),
        help="cli (default), json, csv, md, xml, or files: one line each",
    ),
    *(
        option(
            f"--{name}", dest="form", action="store_const", const=name, help=f"the same as --format {name}"
        )
        for name in ("csv", "md", "xml", "files")
    ),
)
_SEARCH: tuple[Option, ...] = (
    option("words", nargs="*", metavar="QUERY", help="the query"),
    shared.QUERY,
    option("-n", metavar="N", help="how many documents, 200 at most (default: 5; 20 for json and files)"),
    flag("--all", "all of them, 200 at most"),
    option("--min-score", metavar="X", help="drop results below this score (default: 0; vsearch: 0.3)"),
    option(
        "-c",
        "--collection",
        metavar="NAME",
        action="append",
        default=[],
        help="search this collection only; may be repeated",
    ),
    flag("--full", "the whole document instead of a snippet"),
    flag("--line-numbers", "number the lines"),
    flag("--explain", "also how each score was made"),
    flag("--no-rerank", "do not use the reranker"),
    option("--profile", metavar="P", help="ranking: qmd-documented (default), qmd-2.8"),
    shared.SET_KNOB,
    option("--session-key", metavar="KEY", help="session key, for memory.qmd.scope (default: a direct chat)"),
    shared.EXIT_STATUS,
    shared.NO_SYNC,
    *_FORMATS,
)
_NAME = option("name", metavar="NAME", help="the collection")
_LINES: tuple[Option, ...] = (
    option("-l", "--lines", metavar="N", help="how many lines (default: all)"),
    flag("--no-line-numbers", "only the text"),
)

_COLLECTION = (
    Command(
        "add",
        "index a folder under a name",
        "qmd collection add ~/notes --name notes --mask '**/*.md'",
        options=(
            option("path", metavar="FOLDER", help="`.` is the current one"),
            option("--name", metavar="NAME", help="default: the name of the folder"),
            option("--mask", "--glob", dest="mask", metavar="GLOB", help="which files (default: **/*.md)"),
            many("--ignore", "GLOB", "which files to exclude"),
        ),
        runner="qmd_collections:add",
    ),
    Command("list", "list the collections", "qmd collection list", runner="qmd_collections:show_all"),
    Command(
        "show",
        "show one collection",
        "qmd collection show notes",
        "",
        (_NAME,),
        runner="qmd_collections:show_one",
    ),
    Command(
        "remove",
        "remove a collection; its files stay",
        "qmd collection remove notes",
        " To remove\na collection of openclaw.json, edit that file.",
        (_NAME,),
        runner="qmd_collections:remove",
    ),
    Command(
        "rename",
        "give a collection another name",
        "qmd collection rename notes work",
        "",
        (_NAME, option("new", metavar="NEW", help="the new name")),
        runner="qmd_collections:rename",
    ),
    Command(
        "include",
        "search a collection even if none is named",
        "qmd collection include notes",
        "",
        (_NAME,),
        runner="qmd_collections:include",
    ),
    Command(
        "exclude",
        "search a collection only if it is named",
        "qmd collection exclude notes",
        "",
        (_NAME,),
        runner="qmd_collections:include",
    ),
    Command(
        "update-cmd",
        "set the shell command that an update first runs in the folder",
        "qmd collection update-cmd notes 'rsync -a host:notes/ .'",
        " Without a\ncommand, the present one is removed. Only a command that is set here ever runs, never "
        "one from an index.yml.",
        (_NAME, option("words", nargs="*", metavar="COMMAND", help="in quotes")),
        runner="qmd_collections:update_command",
    ),
)
_PLACE = "a qmd:// path, `/` for all, or a folder"
_CONTEXT = (
    Command(
        "add",
        "describe a folder",
        'qmd context add qmd://notes/work "What we do at work"',
        options=(
            option("path", nargs="?", metavar="PATH", help=f"{_PLACE} (default: the current one)"),
            option("text", metavar="TEXT", help="the description, shown with every document of the folder"),
        ),
        runner="qmd_collections:context_add",
    ),
    Command("list", "list the contexts", "qmd context list", runner="qmd_collections:context_list"),
    Command(
        "rm",
        "remove a context",
        "qmd context rm qmd://notes/work",
        options=(option("path", metavar="PATH", help=_PLACE),),
        runner="qmd_collections:context_rm",
    ),
)

QMD_COMMANDS = (
    Command(
        "search",
        "search documents by words only (BM25, no model)",
        'qmd search "vpn certificate" -c notes --format json',
        options=_SEARCH,
        runner="qmd_search:run",
    ),
    Command(
        "vsearch",
        "search documents by vectors only",
        'qmd vsearch "how do I log in from home"',
        options=_SEARCH,
        runner="qmd_search:run",
    ),
    Command(
        "query",
        "search documents by words and vectors, with expansion and reranking",
        "qmd query \"vpn\" --explain\n  openclaw-mem qmd query $'lex: vpn\\nvec: log in from home'",
        " Lines\nthat begin with lex:, vec: or hyde: are searched as they are, without expansion.",
        _SEARCH,
        runner="qmd_search:run",
    ),
    Command(
        "get",
        "print one document, by path or #docid",
        "qmd get notes/vpn.md:50 -l 20\n  openclaw-mem qmd get '#a1b2c3'",
        options=(
            option("reference", metavar="PATH[:FROM[:COUNT]]", help="a path, qmd:// path or #docid"),
            shared.FIRST_LINE,
            *_LINES,
        ),
        runner="qmd_documents:get",
    ),
    Command(
        "multi-get",
        "print documents, by glob or by a list of paths and docids",
        "qmd multi-get 'notes/2026-*.md' --format json\n  openclaw-mem qmd multi-get 'a.md, #a1b2c3'",
        options=(
            option("pattern", metavar="GLOB|LIST", help="a glob, or a list separated by commas"),
            option("--max-bytes", metavar="N", help="exclude larger documents (default: 65536)"),
            *_LINES,
            *_FORMATS,
        ),
        runner="qmd_documents:multi_get",
    ),
    Command(
        "ls",
        "list the collections, or the documents of one",
        "qmd ls notes/work",
        options=(option("path", nargs="?", metavar="COLLECTION[/FOLDER]", help="default: all collections"),),
        runner="qmd_documents:ls",
    ),
    Command(
        "collection",
        "add, list, change or remove the folders that are indexed",
        "qmd collection add ~/notes --name notes",
        commands=_COLLECTION,
    ),
    Command(
        "context",
        "add, list or remove descriptions of folders",
        'qmd context add / "Notes of a system administrator"',
        commands=_CONTEXT,
    ),
    Command(
        "update",
        "update the index with modified files",
        "qmd update --pull",
        " Vectors are made\nby `qmd embed`, and by `index`.",
        (
            flag("--pull", "first `git pull --ff-only` in collections that are in a git work tree"),
            option("-c", "--collection", metavar="NAME", help="this collection only (default: all)"),
        ),
        runner="qmd:update",
    ),
    Command(
        "embed",
        "make the vectors that are missing",
        "qmd embed\n  openclaw-mem qmd embed -f",
        options=(option("-f", "--force", action="store_true", help="make all of them again"),),
        runner="qmd:embed",
    ),
    Command("status", "show what the index holds", "qmd status", runner="qmd:status"),
    Command(
        "cleanup",
        "remove what is no longer needed",
        "qmd cleanup --dry-run",
        options=(flag("--dry-run", "only count what would be removed"),),
        runner="qmd:cleanup",
    ),
    Command(
        "warm-up",
        "prepare the external program: collections, index, one search",
        "qmd warm-up",
        " Its\nmodels are loaded (and downloaded, which takes minutes) if memory.qmd.searchMode needs them.",
        (flag("--models", "make vectors and load the models in every search mode"),),
        runner="qmd:warm_up",
    ),
)
