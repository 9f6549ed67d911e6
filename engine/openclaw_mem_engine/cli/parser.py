"""From the table of commands to a parser, and the checks of single options."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Container, Mapping, Sequence
from itertools import chain
from typing import Any, NoReturn

from openclaw_mem_engine import __version__
from openclaw_mem_engine.cli.arguments import COMMANDS, COMMON, SECTIONS
from openclaw_mem_engine.cli.command_table import Command
from openclaw_mem_engine.cli.terminal import is_terminal, out, width
from openclaw_mem_engine.errors import UsageError, did_you_mean
from openclaw_mem_engine.sanitize import capital, visible

_FIRST_STEPS = """\
examples:
  openclaw-mem demo                         try it on a demo workspace
  openclaw-mem search "vpn certificate"     search the memory of your agent
  openclaw-mem search gateway --explain     ... with every stage and score
  openclaw-mem why-not gateway MEMORY.md:3  why is this line not in the answer?
  openclaw-mem providers                    is note text sent, and where?

Without --workspace, the configured one is used, else ~/.openclaw/workspace.
`openclaw-mem COMMAND --help` has options and examples.
Documentation: https://github.com/openclaw-mem/openclaw-mem/tree/main/docs

exit codes: 0 done (also when nothing is relevant), 2 wrong usage,
  3 configuration, 4 refused path, 5 workspace, 6 index, 7 provider,
  8 unexpected, 130 stopped; `search --exit-status`: 1 no or only weak results
"""
#: The common options by their attribute.
_COMMON = {name[2:]: name for (name, *_), *_how in COMMON}
#: Those that a command takes, of commands that do not take all.
_TAKEN = {"demo": {"json"}, "tui": _COMMON.keys() - {"json"}}
#: What argparse says, and how we say it.
_REWORDED = (
    (r"argument (--query): expected one argument", r"\1 needs a value: one that begins with - is \1=-VALUE"),
    (r"argument (--since): expected one argument", r"\1 needs a value, for example 2d"),
    (r"argument (\S+): expected (?:one|at least one) argument", r"\1 needs a value"),
    (r"argument (\S+): ignored explicit argument .*", r"\1 takes no value"),
    (r"the following arguments are required: ", "Missing: "),
)
#: Names of one option or command in several programs, and in commands of ours.
_SYNONYMS = (
    ("max-results", "limit", "n", "k", "top", "top-k", "topk", "count"),
    ("min-score", "threshold", "min"),
    ("explain", "verbose", "v"),
    ("format", "output", "o"),
    ("workspace", "dir", "folder"),
    ("force", "rebuild", "full"),
    ("lines", "n"),
    ("search", "find", "query", "grep"),
    ("get", "show", "cat", "read"),
    ("files", "ls", "list"),
    ("show", "get", "list"),
    ("index", "sync", "reindex", "rebuild", "update"),
    ("why-not", "why", "explain"),
    ("remember", "store", "add", "note"),
    ("forget", "delete", "remove", "undo"),
    ("config", "settings"),
)


def _synonym(name: str, known: Container[str]) -> str:
    """The known name for what other programs call so; "" where there is none."""
    return next((other for group in _SYNONYMS if name in group for other in group if other in known), "")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal, through a pipe as COLUMNS says. argparse makes one of these for every
    option, too, and would look at the terminal for each."""

    def __init__(self, prog: str, **how: Any) -> None:
        columns = os.environ.get("COLUMNS", "")
        wide = int(columns) if columns.isdecimal() and not is_terminal(sys.stdout) else width()
        super().__init__(prog, **{"width": max(40, wide) - 2} | how)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any = None) -> None:
        """The command's own arguments: the common ones would hide them."""
        super().add_usage(usage, [one for one in actions if one.dest not in _COMMON], groups, prefix)

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Names with hyphens stay whole: half of one is no name."""
        from textwrap import wrap

        return wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """A description is filled paragraph by paragraph; the examples below the options keep their lines."""
        if "\n  " in text:
            return super()._fill_text(text, width, indent)
        paragraphs = (self._split_lines(one, width - len(indent)) for one in text.split("\n\n"))
        return "\n\n".join("\n".join(indent + line for line in lines) for lines in paragraphs)


class _Parser(argparse.ArgumentParser):
    """argparse whose complaints are our own errors, which ``main`` prints; ``example`` is a call."""

    example = ""
    #: The parser of the command that runs when none is named, and its name.
    default: tuple[str, argparse.ArgumentParser] | None = None

    def error(self, message: str) -> NoReturn:
        for pattern, ours in _REWORDED:
            message = re.sub(pattern, ours, message)
        example = f" Example: {self.example}" if message.startswith("Missing") else ""
        raise UsageError(f"{visible(message)}. See `{self.prog} --help`.{example}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        near = [usual] if (usual := _synonym(str(value), [*action.choices])) else []
        if action.dest == "command":  # a command of a command: `memories forget`
            near += [f"{one.name} {value}" for one in COMMANDS for own in one.commands if own.name == value]
        hint = f" Did you mean {' or '.join(near)}?" if near else did_you_mean(str(value), action.choices)
        shown = repr(visible(str(value))[:60])
        # The first argument of some commands is a command, too: `config set`.
        if action.dest == "action" or isinstance(action, argparse._SubParsersAction):
            raise UsageError(f"There is no command {shown}.{hint} `{self.prog} --help` lists the commands.")
        name, allowed = (*action.option_strings, action.dest)[0], ", ".join(map(str, action.choices))
        raise UsageError(f"{name} is {shown}; allowed: {allowed}.{hint}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse, but an unknown argument is an error of its command, with the options like it."""
        if self.default is not None and self._names_none(args):
            args = [self.default[0], *args]
        self._check_leading(args)
        found, unknown = super().parse_known_args(args, namespace)
        # argparse gives all words before an option to the arguments that take any number, and none after it.
        more = next((one.dest for one in self._get_positional_actions() if one.nargs in ("*", "+")), None)
        end = unknown.index("--") if "--" in unknown else len(unknown)
        if unknown and (more is None or any(word.startswith("-") for word in unknown[:end])):
            raise self._unrecognized(unknown)
        if unknown and more:
            setattr(found, more, [*getattr(found, more), *unknown[:end], *unknown[end + 1 :]])
        return found, []

    def format_help(self) -> str:
        """As argparse, but the first line says what the command does."""
        usage, about, *rest = super().format_help().split("\n\n")
        return "\n\n".join((about, usage, *rest))

    def _names_none(self, args: Sequence[str]) -> bool:
        """Whether there are only options, of the default command, and none asks for help."""
        assert self.default is not None
        rest = iter(args)
        for text in rest:
            name, equals, _ = text.partition("=")
            option = self.default[1]._option_string_actions.get(name)
            if option is None or name in ("-h", "--help"):
                return False
            if option.nargs is None and not equals:
                next(rest, None)
        return True

    def _check_leading(self, args: Sequence[str]) -> None:
        """Raises UsageError for an unknown option before a command: argparse would take its value for one."""
        commands = any(action.dest in ("command", "action") for action in self._get_positional_actions())
        rest = iter(args if commands else ())
        for text in rest:
            name, equals, _ = text.partition("=")
            if text in ("-", "--") or not text.startswith("-"):
                return
            if (option := self._option_string_actions.get(name)) is None:
                raise self._unrecognized([text])
            if option.nargs is None and not equals:
                next(rest, None)

    def _unrecognized(self, unknown: list[str]) -> UsageError:
        options = {option.lstrip("-"): option for option in self._option_string_actions}
        name = unknown[0].lstrip("-").partition("=")[0].rstrip("0123456789").lower()
        hint = did_you_mean(name, [long for long, option in options.items() if option == f"--{long}"], "--")
        if not hint and unknown[0].startswith("-"):
            usual = [options[synonym]] if (synonym := _synonym(name, options)) else []
            if not usual and len(name) == 1:
                usual = [option for option in options.values() if option.startswith(f"--{name}")]
            if 0 < len(usual) < 4:
                hint = f" Did you mean {', '.join(usual)}?"
            elif "set" in options and name and _is_knob(name):
                hint = f" It is a knob: --set {name.replace('-', '_')}=VALUE."
            elif "query" in options:
                hint = f" A query that begins with - needs -- before it: `-- {visible(unknown[0])}`."
        what = "There is no option" if unknown[0].startswith("-") else "Unexpected argument:"
        text = f"{what} {visible(unknown[0])}.{hint} See `{self.prog} --help`."
        return UsageError(text)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # An unset variable in a script (`--workspace "$NOTES"`) must not mean the default.
        if action.option_strings and not all(map(str.strip, arg_strings)):
            name = action.option_strings[0]
            other = "" if action.required else ", or leave it out"
            raise UsageError(f"{name} is empty: write {name} {action.metavar or 'VALUE'}{other}.")
        # Before 3.13 the value of `--query=--` would be an empty list.
        if arg_strings == ["--"] and action.option_strings and action.nargs is None:
            return self._get_value(action, "--")
        return super()._get_values(action, arg_strings)

    def _print_message(self, message: str, file: Any = None) -> None:  # noqa: ARG002
        # The text of --help and --version; that of argparse ignores a disk that is full.
        if message:
            out(message, end="")

    def add_common(self, group: argparse._ArgumentGroup, **how: Any) -> None:
        """Add the options that are allowed before and after the command."""
        for names, own, _title in COMMON:
            group.add_argument(*names, **(own | how))


def _is_knob(name: str) -> bool:
    from openclaw_mem_engine.ranking.knobs import KNOBS

    return name.replace("-", "_") in KNOBS


def build_parser(argv: Container[str]) -> argparse.ArgumentParser:
    """The parser of the command line ``argv``: of commands that are not in it, name and summary are enough.
    Its result holds ``command`` (None without one) and ``runner`` (``module:function``)."""
    shape: Any = {"formatter_class": _Help, "allow_abbrev": False}
    parser = _Parser(
        prog="openclaw-mem",
        description="Search the Markdown memory of AI agents, and see why every passage is,\n"
        "or is not, in the answer.",
        epilog=_FIRST_STEPS,
        add_help=False,
        **shape,
    )
    _add_commands(parser, SECTIONS, "command", shape, argv)
    group = parser.add_argument_group("options (before or after the command)")
    parser.add_common(group)
    group.add_argument("-h", "--help", action="help", help="this text, or the help of a command")
    group.add_argument(
        "-V", "--version", action="version", version=f"openclaw-mem {__version__}", help="the version"
    )
    return parser


def _add_commands(
    parser: _Parser,
    sections: Mapping[str, list[Command]],
    dest: str,
    shape: dict[str, Any],
    argv: Container[str],
    default: str = "",
) -> None:
    def parser_of(prog: str, **how: Any) -> _Parser:
        name = prog.rpartition(" ")[2]
        return _Parser(prog=prog, **how) if name in argv or name == default else parser

    commands = parser.add_subparsers(  # type: ignore[call-overload]  # a function, too
        dest=dest,
        metavar="COMMAND",
        title="commands",
        prog=parser.prog,
        parser_class=parser_of,
        required=dest != "command",
    )
    for command in chain.from_iterable(sections.values()):
        own = commands.add_parser(
            command.name,
            help=command.summary,
            description=f"{capital(command.summary)}.\n\n{command.details}".rstrip(),
            epilog=f"examples:\n  openclaw-mem {command.example}\n",
            **shape,
        )
        if own is parser:
            continue
        if command.name == default:
            parser.default = default, own
        own.example = f"openclaw-mem {command.example}".partition("\n")[0]
        own._positionals.title = "arguments"
        titles = dict.fromkeys(option.title for option in command.options if option.title)
        groups = {"": own, **{title: own.add_argument_group(title) for title in titles}}
        for names, how, title in command.options:
            groups[title].add_argument(*names, **how)
        if command.commands:
            _add_commands(own, {"commands": command.commands}, "action", shape, argv, command.default)
        else:
            own.set_defaults(runner=command.runner)
        # One line in the help of a command: what is special to it is to be seen. The default of an option
        # after the command must not undo what was given before it.
        taken = (text for name, text in _COMMON.items() if name in _TAKEN.get(command.name, _COMMON))
        common = own.add_argument_group("common options (see `openclaw-mem --help`)", ", ".join(taken))
        own.add_common(common, default=argparse.SUPPRESS)
        common._group_actions.clear()
    # The help lists the commands by what they are for, instead of in one column below their placeholder.
    parser._action_groups[-1]._group_actions.clear()
    summaries = {summary.dest: summary for summary in commands._choices_actions}
    for title, members in sections.items():
        parser.add_argument_group(title)._group_actions.extend(summaries[one.name] for one in members)


def whole_number(text: str | None, option: str, least: int) -> int | None:
    """The number that an option holds. Raises UsageError."""
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least or number > sys.maxsize:
        raise UsageError(f"{option} is {visible(text)[:60]!r}; allowed: an integer, {least} or more.")
    return number
