"""The edges: agent and provider (top), faults, soundness of the answer (notes), what runs (status)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from openclaw_mem_engine import api
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_tui.bindings import TABS, action, key, reach
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render import spans
from openclaw_mem_tui.render.damage import DAMAGED, in_full, rescue
from openclaw_mem_tui.render.spans import Line, Span, brief, line, reported, spread, width, wrapped

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Freshness, IndexDamaged, Note, Pool

Phase = Literal["opening", "syncing", "ready", "failed"]
Task = Literal["sync", "rebuild", "repair", "verify"]
SPINNER = "◐◓◑◒"

#: Codes of notes that say the same as the line about the fallback.
_OF_FALLBACK = frozenset({"embedding-failed", "fallback-vectors", "other-vectors", "qmd-fallback"})


@dataclass(frozen=True, slots=True)
class Header:
    """What the top of every screen shows. Filled in as it becomes known."""

    agent: str = ""
    workspace: str = ""
    backend: str = ""
    provider: str = ""
    demo: bool = False


@dataclass(frozen=True, slots=True)
class Activity:
    """What runs behind the screen. ``done``/``total`` count what ``label`` says (0: not known) of a task
    that runs, ``left`` are the seconds that it still takes (None: unknown); ``said`` is the last thing
    that happened, until something else does; ``noted`` are the notes of the last sync, until the next
    query; ``unused`` says what of the configuration the workbench does not use; ``errors`` are those that
    the doctor found last, until the index is built anew, ``repairable`` whether the key for it repairs them;
    ``damage`` is the last error that showed that the index is damaged, until it is ``built`` anew (so many
    times) or a check finds no error; ``not_included`` is a sentence on Markdown of the workspace that is no
    memory, or empty."""

    phase: Phase = "opening"
    task: Task = "sync"
    left: float | None = None
    label: str = ""
    done: int = 0
    total: int = 0
    searching: bool = False
    said: str = ""
    trouble: str = ""
    noted: str = ""
    unused: tuple[str, ...] = ()
    errors: int = 0
    repairable: bool = False
    damage: IndexDamaged | None = None
    built: int = 0
    freshness: Freshness | None = None
    files: int = 0
    chunks: int = 0
    not_included: str = ""

    @property
    def busy(self) -> bool:
        return self.searching or self.phase in ("opening", "syncing")

    @property
    def is_empty(self) -> bool:
        """Whether the index is empty or was removed, and nothing builds one."""
        return self.phase == "ready" and self.freshness is not None and self.freshness.state == "empty"


def top(header: Header, cells: int, at: str = "search", title: str = "") -> Line:
    """The tabs of the screens at the left, that of ``at`` lit with the ``title`` of a screen over it; agent,
    backend and provider at the right, the name of the workspace in between, or that it is the demo. What
    there is no room for goes: agent, backend, provider, workspace; of the tabs the other names."""
    tabs, short = (line(*_tabs(at, title, names=names)) for names in (True, False))
    names = fmt.inert(header.backend), fmt.inert(header.provider)
    backend, provider, service = (line((text, "dim")) for text in (*names, fmt.join(names)))
    agent = line(("agent ", "dim"), fmt.inert(header.agent)) if header.agent else ()
    folder = line((fmt.inert(header.workspace).rpartition("/")[2], "faint"))
    if header.demo:
        folder = line(("demo", "strong"))
    for start, *shown in (
        (tabs, folder, agent, service),
        (tabs, folder, service),
        (tabs, folder, provider),
        (tabs, folder, backend),
        (tabs, folder),
        (tabs,),
        (short,),
    ):
        end = line(*spans.parted(*shown), " ")
        if width(start) + width(end) + 4 * bool(title) < cells:  # the title is not part of what follows
            break
    return spread(start, end, cells)


def _tabs(at: str, title: str, *, names: bool) -> Iterator[Span]:
    """A click on a tab shows its screen. The title is behind all of them: none moves."""
    for screen in TABS:
        tab, here = action(f"show_{screen}"), screen == at
        text = f" {tab.key} {tab.footer} " if names or here else f" {tab.key} "
        yield Span(text, "strong accent" if here else "dim", tab.command)
    if title:
        yield Span("│", "faint")
        yield Span(f" {title} ", "strong")


#: What a damaged index means for an answer; what SQLite says is among the messages, and on the index screen.
_DAMAGED = "Index damaged: this answer may lack some chunks. "
_FAILED, _WARNING, _INFO = spans.BROKEN, spans.DEGRADED, Span(" i ", "dim")

#: Where there is nothing to show in full.
NO_MESSAGES = [line(("Nothing is cut, and there are no messages.", "dim"))]


def asker(view: View) -> str:
    """Which session asks, where that makes a difference."""
    if view.session_key:
        scope = api.session_scope(view.session_key)
        known = f"channel {scope.channel or 'unknown'}, chat type {scope.chat_type or 'unknown'}"
        return fmt.inert(f"session {view.session_key}: {known}", 200)
    return "no session" if view.backend == "qmd" else ""


def soundness(view: View, activity: Activity, cells: int, *, framed: bool = False) -> list[Line]:
    """One line a warning, then the informative notes in one: what makes this answer less than it could be.
    ``framed``: these may take two lines, and the frame of the query line says which session asks."""
    made: list[Line] = []
    alone = view.trace is None and activity.phase == "failed"  # in place of the results
    trouble = "" if alone else activity.trouble
    said = ((_INFO, activity.noted), (_WARNING, trouble), (_FAILED, view.error))
    for text, sign in reversed({text: sign for sign, text in said if text}.items()):  # each text once
        fits = view.trace is not None and sign is _WARNING  # the rows matter more
        made += [brief(_signed(sign, text), cells)] if fits else wrapped(_signed(sign, text), cells, 3)
    if activity.unused:
        more = len(activity.unused) - 1
        end = line((f" {more} more: " if more else " "), (reach("messages"), "key"))
        made.append(spread(_signed(_WARNING, activity.unused[0]), end, cells))
    if view.trace is None:
        return made
    # The banner names the faults, the sentence above the hits a denial, the line of the stages a minimum that
    # is not applied; that no provider records are kept under a fault is expected.
    elsewhere = {"fault", "scope-denied", "index-damaged", "cut-not-applied"}
    elsewhere |= {"provider-records"} if view.pool_faults else set()
    if any(note.code == "index-damaged" for note in view.trace.notes):
        made.append(spans.fit(line(_WARNING, _DAMAGED, *rescue(), " it"), cells))
    if view.pool is not None and view.pool.fallback is not None:
        made += fallback(view.pool, cells)
        elsewhere |= _OF_FALLBACK
    # Nor is said twice what the fallback is for, or the last sync has met.
    why = view.pool.fallback.reason if view.pool is not None and view.pool.fallback is not None else ""
    notes: dict[str, Note] = {
        note.text: note
        for note in view.trace.notes
        if note.code not in elsewhere
        and not (why and why in note.text)
        and note.text.partition(". ")[0] not in activity.trouble
    }
    warnings = [note.text for note in notes.values() if note.level == "warning"]
    informative = [
        note.text for note in notes.values() if note.level != "warning" and note.code != "scope-direct"
    ]
    if not framed and (asks := asker(view)):
        informative.insert(0, asks)
    joined = " · ".join(informative)
    if joined and (not framed or fmt.width_of(fmt.message(joined)) + 4 <= cells):
        informative = [joined]
    elif len(informative) > 2:
        informative = [informative[0], " · ".join(informative[1:])]
    for sign, texts in ((_WARNING, warnings[:3]), (_INFO, informative[:2])):
        made += [brief(_signed(sign, text), cells) for text in texts]
    return made


def messages(view: View, activity: Activity, cells: int, others: Sequence[str] = ()) -> list[Line]:
    """Every message in full, and first ``others`` and what was said last."""
    said = (reported(activity.said, _INFO)[0], in_full(activity.said)), (_INFO, activity.noted)
    known = [*((_WARNING, text) for text in others), *said, (_FAILED, view.error)]
    known += [(_WARNING, text) for text in (activity.trouble, *activity.unused)]
    notes = view.trace.notes if view.trace is not None else ()
    if view.pool is not None and not any(reason(view.pool) in note.text for note in notes):
        known.append((_WARNING, reason(view.pool)))
    known += [(_WARNING if note.level == "warning" else _INFO, note.text) for note in notes]
    signs: dict[str, Span] = {}
    for sign, text in known:
        if text:
            signs.setdefault(text, sign)
    return [
        piece
        for text, sign in signs.items()
        for piece in wrapped(line(sign, fmt.message(text, 10_000)), cells - 1, 3)
    ]


def _signed(sign: Span, text: str) -> Line:
    return line(sign, (fmt.message(text), "dim" if sign is _INFO else ""))


def fallback(pool: Pool, cells: int) -> list[Line]:
    """Why a fallback answered, which, since when, and the next retry, in two lines at most: the reason gives
    way, which the screen of the providers has in full."""
    assert pool.fallback is not None
    used = pool.fallback
    since = f" instead of {fmt.inert(used.origin)}"
    if used.since is not None:
        since = f" since {fmt.clock(used.since, pool.now, True)}"
    retry = ""
    if used.next_retry is not None:
        at = fmt.clock(used.next_retry, pool.now, True)
        retry = f", retry\xa0after\xa0{at}" if used.next_retry > pool.now else ", retry with the next search"
    end = line(
        (" · ", "faint"),
        (fmt.inert(used.instead), "strong"),
        (f"{since}{retry} · ", "dim"),
        ("press\xa0", "dim"),
        (reach("show_providers").replace(" ", "\xa0"), "key"),
        ("\xa0for\xa0providers", "dim"),  # a key is not parted from what it does
    )
    why = fmt.message(reason(pool)).removesuffix(".")
    room = min(fmt.width_of(why), 2 * cells)
    while len(made := wrapped(line(_WARNING, fmt.crop(why, room), *end), cells - 1, 3)) > 2 and room > 8:
        room -= 1
    return made


def reason(pool: Pool) -> str:
    """Why a fallback answered, as fully as it is known."""
    if pool.fallback is None:
        return ""
    for note in pool.notes:
        # That of qmd also says what this line ends with.
        if note.code in _OF_FALLBACK - {"qmd-fallback"} and pool.fallback.reason in note.text:
            return note.text[note.text.index(pool.fallback.reason) :]
    return pool.fallback.reason


def took(view: View, *, steps: bool = True) -> Line:
    """``1.5 ms: embed 0.2 · rank 0.4``: how long the answer took, and where that went, in the order of the
    ``steps``; of a pool that is ranked ``again``, the ranking alone."""
    if view.pool is None or view.trace is None:
        return ()
    if view.again:
        return (Span(fmt.milliseconds(view.trace.milliseconds)),)
    spent = {**view.pool.timings, "rank": view.trace.milliseconds}
    total = fmt.milliseconds(sum(spent.values()))
    unit = " ms" if total.endswith(" ms") else ""  # shown once, where all have the same
    made = [Span(total)]
    for name, value in spent.items() if steps else ():
        label, sign = "line scores" if name == "lines" else name, " · " if made[1:] else ": "
        made += line((sign, "faint"), (f"{label} ", "dim"), fmt.milliseconds(value).removesuffix(unit))
    return tuple(made)


def status(view: View, activity: Activity, cells: int, frame: int = 0) -> Line:
    """State and timings at the left, the index at the right. What there is no room for goes whole: first the
    timings of the steps, which leaves their sum, then the size of the index."""
    busy = doing(activity, frame)
    for steps, short in ((True, False), (False, False), (False, True)):
        start, end = busy or _answered(view, activity, frame, steps=steps), _index(activity, short=short)
        if width(start) + width(end) + 2 <= cells:
            break
    if activity.said and width(start) + width(end) + 2 > cells:  # which matters more than the index
        return brief(start, cells)
    return spread(start, end, cells)


def doing(activity: Activity, frame: int) -> Line:
    """Opening, syncing, or that nothing can be done until tried again, or repaired; else empty."""
    spin = SPINNER[frame % len(SPINNER)]
    if activity.phase == "failed":
        if activity.said:
            return reported(in_full(activity.said), spans.DEGRADED)
        repair = rescue() if activity.damage else line((reach("sync"), "key"), (" tries again", "dim"))
        return line(spans.BROKEN, ("search is not possible", "bad"), "  ", *repair)
    if activity.phase == "opening":
        return line((f" {spin} ", "accent"), ("opening the index", "dim"))
    if activity.phase == "syncing":
        texts = "  embedded " in activity.label  # these are counted there
        many = f" {activity.done:,} of {activity.total:,}" if activity.total and not texts else ""
        left = f", {fmt.age(activity.left)} left" if activity.left is not None else ""
        label = fmt.crop(fmt.inert(activity.label or "reading the notes"), 64)
        bar: Line = ()
        if activity.total:
            first, text = fmt.bar(0, activity.done / activity.total, 12)
            bar = line((" " * first + fmt.left(text, 12 - first), "accent"), " ")
        return line((f" {spin} ", "accent"), *bar, (activity.task, "dim"), many, left, (f"  {label}", "dim"))
    return ()


def _answered(view: View, activity: Activity, frame: int, *, steps: bool) -> Line:
    """The search that runs, or what the last one took: in ``steps``, or in all."""
    if activity.searching and view.pending:
        spin = (f" {SPINNER[frame % len(SPINNER)]} ", "accent")
        return line(spin, ("searching  ", "dim"), (key("cancel"), "key"), (" cancel", "dim"))
    # The sign is the state, whatever the last message is: the worst that holds.
    warned = view.trace is not None and any(note.level == "warning" for note in view.trace.notes)
    warned |= view.pool is not None and view.pool.fallback is not None
    degraded = warned or activity.trouble or (activity.freshness and activity.freshness.state != "fresh")
    failed = view.error or activity.damage or activity.errors
    sign = spans.BROKEN if failed else spans.DEGRADED if degraded else spans.GOOD
    if activity.said:
        # A good message has no sign of failure.
        return reported(in_full(activity.said), spans.DEGRADED if failed else sign)
    if failed:
        wrong = "index damaged" if activity.damage else "index has errors"
        return line(sign, ("no answer" if view.error else wrong, "bad"))
    if activity.is_empty:
        why = ("the index is empty or was removed: ", "warn")
        return line(sign, why, (reach("sync"), "key"), (" builds it", "dim"))
    if view.trace is None or view.pool is None:
        return line(sign, ("ready", "dim"))
    return line(sign, ("ranked again in " if view.again else "answered in ", "dim"), *took(view, steps=steps))


def _index(activity: Activity, short: bool = False) -> Line:
    fresh = activity.freshness
    if fresh is None:
        return ()
    role = "good" if fresh.state == "fresh" else "warn"
    errors = (f": {fmt.count(activity.errors, 'error')}", "bad")
    damage = line(("screen ", "bad"), (key("show_index"), "key"), errors)
    state: str = fresh.state
    if fresh.state == "stale" and fresh.changed_count:
        state = f"stale, {fmt.count(fresh.changed_count, 'file')} modified"
    elif fresh.state == "partial" and (out := sum(not file.of_workspace for file in fresh.excluded)):
        state = f"partial, {fmt.count(out, 'file')} excluded"
    size = f"{fmt.count(activity.files, 'file')} · {fmt.count(activity.chunks, 'chunk')} · "
    size = "" if short or not activity.files else size
    if activity.damage is not None:
        # Once in the line.
        then = line((" · ", "dim"), *rescue()) if activity.said != DAMAGED else ()
        return line((size, "dim"), ("damaged", "strong bad"), *then, " ")
    return line(
        (size, "dim"), *spans.worst_first(damage if activity.errors else (), line((state, role))), " "
    )
