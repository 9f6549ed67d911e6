"""Reads the commands and their options from a text, one block for each, with a blank line between::

    @common                   options with a name: those that all commands have
      --json         the answer as JSON

    == search and explain     a section of the help

    search: search the notes, best results first
      $ search backup --limit 3
      Sentences that say more.
      words:QUERY*   a positional argument and its name in the help; + at least one, ? at most one
      --limit N      an option with a value; N... may be repeated, [N] may be left out, {a,b} is one of these
      --explain      one without a value
      start:--from N =1 !  the attribute where it is not the option's name; a default; required
      --no-sync
      @ranking
      = output       a title in the help of the command, over the options that follow

``@ranking`` alone stands for all options and sentences of that block, ``--no-sync`` alone for the one of
``@shared``. A text goes on in lines indented by six blanks. ``files (status:run_files): ...`` names what runs
a command, a function of a module of ``cli`` (default: ``NAME:run``). ``config set`` is a command of
``config``; ``config -> show: ...`` says which of these runs when none is named.
"""

from __future__ import annotations

from typing import Any

from openclaw_mem_engine.named_tuple import NamedTuple

#: Before lines that go on with the text of an option or a command.
_FURTHER = " " * 6


class Option(NamedTuple):
    """One argument as ``ArgumentParser.add_argument`` takes it, and its title in the help of its command."""

    names: tuple[str, ...]
    how: dict[str, Any]
    title: str


class Command(NamedTuple):
    """``name`` is its last word. One that has ``commands`` is run by them, by ``default`` when none is
    named."""

    name: str
    summary: str
    runner: str
    default: str
    example: str
    details: str
    options: list[Option]
    commands: list[Command]


def read(text: str) -> tuple[dict[str, list[Command]], dict[str, list[Option]]]:
    """The commands by section, and the groups of options by name."""
    sections: dict[str, list[Command]] = {}
    groups: dict[str, list[Option]] = {}
    sentences: dict[str, list[str]] = {}
    #: By the words before its last one: where a command is added, "" for the present section.
    places: dict[str, list[Command]] = {}
    for block in text.strip().split("\n\n"):
        head, *lines = block.replace(f"\n{_FURTHER}", " ").split("\n")
        if head.startswith("== "):
            places[""] = sections[head[3:]] = []
            continue
        examples, details, options = [], [], []
        title = ""
        for line in map(str.strip, lines):
            spec, _, help = line.partition("  ")
            if line.startswith("$ "):
                examples.append(line[2:])
            elif line.startswith("= "):
                title = line[2:]
            elif line.startswith("@"):
                options += groups[line[1:]]
                details += sentences[line[1:]]
            elif help:
                options.append(_option(spec, help.strip(), title))
            elif line.startswith("--") and " " not in line:
                options += (one._replace(title=title) for one in groups["shared"] if one.names[0] == line)
            else:
                details.append(line)
        if head.startswith("@"):
            groups[head[1:]], sentences[head[1:]] = options, details
            continue
        names, _, summary = head.partition(": ")
        names, _, runner = names.removesuffix(")").partition(" (")
        names, _, default = names.partition(" -> ")
        above, _, name = names.rpartition(" ")
        example = "\n  openclaw-mem ".join(examples)
        runner = runner or f"{name}:run"
        made = Command(name, summary, runner, default, example, " ".join(details), options, [])
        places[above].append(made)
        places[names] = made.commands
    return sections, groups


def _option(spec: str, help: str, title: str) -> Option:
    dest, colon, rest = spec.partition(":")
    words = (rest if colon else spec).replace(", ", ",").split()
    names = tuple(words.pop(0).split(",")) if words[0].startswith("-") else ()
    how: dict[str, Any] = {"help": help}
    if names and colon:
        how["dest"] = dest
    for word in words:
        if word == "!":
            how["required"] = True
        elif word.startswith("="):
            how["default"] = word[1:]
        elif word.startswith("{"):
            how["choices"] = tuple(word[1:-1].split(","))
        elif word.startswith("["):
            how |= {"metavar": word[1:-1], "nargs": "?", "const": ""}
        elif word.endswith("..."):
            how |= {"metavar": word[:-3], "action": "append", "default": []}
            how["help"] += "; may be repeated"
        elif word[-1] in "*+?" and not names:
            how |= {"metavar": word[:-1], "nargs": word[-1]}
        else:
            how["metavar"] = word
    if not words:
        how["action"] = "store_true"
    return Option(names or (dest,), how, title)
