"""``openclaw-mem curate``: what should be in MEMORY.md and what should not; nothing is written without a
yes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.opening import looking, warned_settings
from openclaw_mem_engine.cli.remember import ask, diff_lines
from openclaw_mem_engine.cli.terminal import dim, hanging, one_line, out, say, show, stoppable, strong, width
from openclaw_mem_engine.commands import advice
from openclaw_mem_engine.errors import UsageError

if TYPE_CHECKING:
    from openclaw_mem_engine.curation.curator import Curator
    from openclaw_mem_engine.curation.material import Material, NoteCandidate


#: Lines of a diff in the list of candidates.
MOST_LINES = 24
#: Options that name a candidate.
_DOING = ("apply", "effect", "reject", "restore")


def run(arguments: Namespace) -> int:
    """List the candidates, or do what an option asks with one of them."""
    from openclaw_mem_engine.curation.curator import Curator

    settings = warned_settings(arguments)
    asked = {name: value for name in _DOING if (value := getattr(arguments, name)) is not None}
    if len(asked) > 1 or (asked and arguments.rejected):
        options = ", ".join(f"--{name}" for name in (*asked, *(["rejected"] if arguments.rejected else [])))
        raise UsageError(f"One thing at a time: use only one of {options}.")
    doing, chosen = next(iter(asked.items()), ("", ""))
    with looking(settings) as memory, stoppable() as token:
        curator = Curator(settings)
        try:
            material = curator.material(memory)
            if not doing:
                _list(curator, material, arguments)
                return 0
            candidate = _find(curator, material, chosen, rejected=doing == "restore")
            if doing in ("reject", "restore"):
                done = "rejected" if doing == "reject" else "restored"
                (curator.state.reject if doing == "reject" else curator.state.restore)(candidate.id)
                lines = [one_line(f"{done}: {candidate.title}")]
                show({"id": candidate.id, "done": done}, lines, as_json=arguments.json, exact=True)
                return 0
            effect, said = None, "advice only: nothing to write"
            if candidate.edits:
                try:
                    effect = curator.effect(memory, candidate.edits, material, token)
                    said = effect.sentence
                except UsageError as error:  # it cannot be measured; that keeps nothing from being written
                    said = str(error)
            if not arguments.json:
                for line in (
                    *_entry(candidate),
                    *_diffs(candidate),
                    *_budget_after(candidate, material),
                    *hanging(advice(f"effect: {said}"), 2),
                ):
                    out(line)
            written = []
            if doing == "apply" and (arguments.yes or ask() == "yes"):
                written = curator.apply(candidate.edits)
        finally:
            curator.close()
    lines = [f"written: {edit.in_words()}" for edit in candidate.edits] if written else ["nothing written"]
    if written:
        ids = " and ".join(f"`openclaw-mem undo {done.id}`" for done in reversed(written))
        lines.append(f"{advice(ids)} {'undoes' if len(written) == 1 else 'undo'} it.")
    data = candidate.to_dict() | {
        "effect": effect.to_dict() if effect else None,
        "written": [item.to_dict() for item in written],
    }
    show(data, map(one_line, lines), as_json=arguments.json, exact=True)
    return 0


def _find(curator: Curator, material: Material, wanted: str, *, rejected: bool) -> NoteCandidate:
    found = [one for one in curator.candidates(material, rejected=rejected) if one.id.startswith(wanted)]
    if len(found) != 1 or not wanted:
        kind = "rejected proposal" if rejected else "proposal"
        what = f"{len(found)} {kind}s begin with" if found else f"There is no {kind}"
        listed = "curate --rejected" if rejected else "curate"
        raise UsageError(f"{what} {wanted!r}: `openclaw-mem {listed}` lists them.")
    return found[0]


def _list(curator: Curator, material: Material, arguments: Namespace) -> None:
    found = curator.candidates(material, rejected=arguments.rejected)
    data = {
        "budget": material.budget.to_dict(),
        "hiddenShare": material.hidden_share,
        "searches": len(material.recalls),
        "files": [note.to_dict() for note in material.files],
        "unread": list(material.unread),
        "candidates": [one.to_dict() for one in found],
    }
    if not arguments.json:
        for line in material.unread:
            say(one_line(line))
    show(data, _lines(found, material, rejected=arguments.rejected), as_json=arguments.json, exact=True)


def _lines(found: list[NoteCandidate], material: Material, *, rejected: bool) -> Iterator[str]:
    yield from map(strong, hanging(material.budget.sentence, 2))
    yield from hanging(one_line(material.searches_sentence), 2)
    for candidate in found:
        yield from ("", *_entry(candidate), *_beginning(list(_diffs(candidate)), candidate))
    count = len(found)
    what = "rejected proposals" if rejected else "proposals"
    yield ""
    then = f"; {advice(_NEXT[rejected])}" if found else ""
    yield from hanging(f"{count or 'no'} {what[:-1] if count == 1 else what}{then}", 2)


_NEXT = {
    False: "`openclaw-mem curate --apply ID` writes one after confirmation, `--reject ID` rejects it",
    True: "`openclaw-mem curate --restore ID` proposes one again",
}


def _budget_after(candidate: NoteCandidate, material: Material) -> Iterator[str]:
    if (after := material.budget_after(candidate.edits)) is not None:
        yield from hanging(f"budget after the change: {after.sentence}", 2)


def _entry(candidate: NoteCandidate) -> Iterator[str]:
    title = f"{candidate.id}  {candidate.kind}: {one_line(candidate.title)}"
    yield from map(strong, wrap(title, width(), subsequent_indent=" " * 10))
    for fact in candidate.evidence:
        yield from wrap(one_line(fact), width(), initial_indent=" " * 10, subsequent_indent=" " * 12)


def _diffs(candidate: NoteCandidate) -> Iterator[str]:
    for line in diff_lines(candidate.diff):
        yield f"  {line}"


def _beginning(lines: list[str], candidate: NoteCandidate) -> list[str]:
    """A long diff is shown in full when it is asked for alone."""
    if len(lines) <= MOST_LINES:
        return lines
    rest = len(lines) - MOST_LINES
    return [
        *lines[:MOST_LINES],
        dim(advice(f"  … {rest:,} more lines: `openclaw-mem curate --effect {candidate.id}`")),
    ]
