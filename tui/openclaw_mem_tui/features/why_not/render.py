"""The walk of a passage through a search, and what would bring it in, as lines."""

from __future__ import annotations

from openclaw_mem_engine.api import Change, Knobs, Step, WhyNot, knob_words
from openclaw_mem_tui.features.search.render.knobs import value_text
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, balanced, line, width, wrapped

#: The sign of a step that lowered the passage so far that another one drops it.
_DISPLACES = ("! ", "warn")
_LABEL = 10
_NAME = 12
_SETTING = 37
#: Displaced passages that are named; the others are counted.
_NAMED = 2


def heading(query: str, answer: WhyNot | None, location: str, cells: int) -> list[Line]:
    """The query, and whether the passage is returned for it; the steps have the reason."""
    parts = line((fmt.inert(location), "strong"))
    if answer is not None:
        step = answer.decided.replace(" ", "\xa0")  # no line ends within it
        sign = ("✗ ", "bad") if step else ("✓ ", "good")
        parts = line(sign, (sentence(f"{answer.outcome} {step}".rstrip()), "strong"))
    also = answer.same_line if answer is not None else ""
    return [
        *wrapped(line((" query    ", "dim"), fmt.inert(query, 300)), cells - 1, _LABEL),
        *wrapped(line((" passage  ", "dim"), *parts), cells - 1, _LABEL),
        *(wrapped(line((fmt.left("", _LABEL), ""), sentence(also)), cells - 1, _LABEL) if also else []),
    ]


def walk(steps: tuple[Step, ...], cells: int, room: int) -> list[Line]:
    """One line a step, or more; the first no, which is the last step, stands out. Where there is no ``room``
    for so many lines, the first steps that were passed share one."""
    name = max((_NAME, *(len(step.name) + 1 for step in steps)))
    drawn = [_step(step, name, cells) for step in steps]
    folded = 0
    while folded < len(steps) - 1 and bool(folded) + sum(map(len, drawn[folded:])) > room:
        folded += 1
    made = [row for rows in drawn[folded:] for row in rows]
    if folded:
        names = ", ".join(step.name.replace("_", " ") for step in steps[:folded])
        moved = any(step.facts.get("displaced") for step in steps[:folded])
        passed = line(
            _DISPLACES if moved else ("✓ ", "good"),
            f"{fmt.count(folded, 'step')} passed",
            (f": {names}", "dim"),
        )
        made.insert(0, passed if width(passed) < cells else passed[:2])
    return made


def _step(step: Step, wide: int, cells: int) -> list[Line]:
    sign, role = ("✓ ", "good") if step.ok else ("✗ ", "bad")
    if step.facts.get("rescued"):
        sign, role = "* ", "warn"
    if step.facts.get("displaced"):
        sign, role = _DISPLACES
    name = fmt.left(step.name.replace("_", " "), wide)
    text = line((sign, role), (name, "dim" if step.ok else "strong bad"))
    return balanced((*text, Span(sentence(step.text), "" if step.ok else "strong")), cells - 1, wide + 2)


def around_changes(answer: WhyNot, others: str, cells: int) -> tuple[list[Line], list[Line]]:
    """What is said of all changes of knobs, and below them the changes of the text, which no key makes.
    ``others``: the key to the chunks that are not returned, where there are some."""
    head = _note("· ", answer.no_change, cells) if answer.no_change else []
    foot = [row for change in answer.text_changes for row in _note("note  ", change.text, cells)]
    if not answer.changes:
        head, foot = head + foot, []
    if not (answer.changes or head or foot):
        before = "no setting was tried: the step marked ✗ comes before the ranking"
        none = "it is returned already" if answer.returned else before
        leads = (
            ("; in the chunks, ", "dim"),
            (others, "key"),
            (" goes to those that are not", "dim"),
        )
        head = wrapped(line((f"  {none}", "dim"), *leads * bool(answer.returned and others)), cells - 1, 2)
    return head, foot


def _note(mark: str, text: str, cells: int) -> list[Line]:
    return wrapped(line((f"  {mark}", "dim"), sentence(text)), cells - 1, 2 + len(mark))


def change_lines(knobs: Knobs, change: Change, cells: int, selected: bool) -> list[Line]:
    """One change of knobs, the rank that it gives, and how many other results come and go; of the
    ``selected`` one also what its knobs do, and which results those are, of another one those that go, where
    its last line has room."""
    mark = Span(*fmt.POINTER[selected])
    text = f"{setting(change, knobs)}{change.mark}"
    effect = fmt.join((fmt.numbers(change.effect), change.since))
    how = sentence(change.how) if change.how else ""
    rank = (f"rank {change.rank}", "warn" if how or change.weak else "good")
    # The ranks stay below each other: that of a long setting is on a line of its own.
    room = min(_SETTING, cells * 3 // 7)
    long = fmt.width_of(text) + 1 > room
    name = line(mark, (fmt.left(text, room if not long else fmt.width_of(text)), "strong"))
    made = wrapped(name, cells - 1, 4) if long else []
    said = line(*(line(mark, " " * room) if long else name), rank)
    beside = width(said) + fmt.width_of(effect) + 2 < cells
    made.append(line(*said, (f"  {effect}" * beside, "dim")))
    if how or not beside:
        below = line(
            (effect * (not beside), "dim"), (" · " * (not beside and bool(how)), "dim"), (how, "warn")
        )
        made += balanced(line(mark, "  ", *below), cells - 1, 4)
    if selected:
        alone = f"{knob_words(*change.set)}: " if len(change.set) == 1 else ""  # several are named there
        made += wrapped(line(mark, "  ", (alone + sentence(change.says), "dim")), cells - 1, 4)
    for text in _others(change) if selected else ():
        made += wrapped(line(mark, "  ", (text, "dim")), cells - 1, 4)
    if change.lost and not selected:
        named = line(*made[-1], (f" · {_others(change)[0]}", "dim"))
        made[-1] = named if width(named) < cells else made[-1]
    return made


def setting(change: Change, knobs: Knobs) -> str:
    """``half-life in days: 30 → 338``; of several knobs joined."""
    parts = [
        f"{knob_words(name)}: {value_text(name, getattr(knobs, name))} → {value_text(name, value)}"
        for name, value in change.set.items()
    ]
    return ", ".join(parts)


def _others(change: Change) -> list[str]:
    """Which other results the change removes and adds."""
    return [
        f"{what}: {', '.join(fmt.inert(name) for name in names[:_NAMED])}"
        + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        for what, names in (("removes", change.lost), ("adds", change.gained))
        if names
    ]


def sentence(text: str) -> str:
    """A text of the engine with its numbers as everywhere here, safe to draw."""
    return fmt.message(text, 2_000)
