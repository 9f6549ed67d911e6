"""The ranking that the settings configure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from openclaw_mem_engine.config.qmd import QmdLimits
from openclaw_mem_engine.config.settings import Origin, Settings
from openclaw_mem_engine.ranking.knob_spec import knob_words
from openclaw_mem_engine.ranking.knobs import knob_text
from openclaw_mem_engine.ranking.profiles import QMD_DOCUMENTED, QMD_PROCESS, profile, selected

if TYPE_CHECKING:
    from openclaw_mem_engine.ranking.knobs import Knobs, KnobValue
    from openclaw_mem_engine.ranking.pool import Pool


def configured_knobs(settings: Settings) -> Knobs:
    """The configured profile with the configuration's own values over it; for the QMD backend its own
    ranking, unless a profile is named."""
    if _qmd_ranks(settings):
        return process_knobs(settings)
    return own_knobs(settings)


def own_knobs(settings: Settings, name: str | None = None) -> Knobs:
    """The configured profile, or the one of this name, with the configuration's own values over it. Raises
    UsageError."""
    return selected(settings.query.profile if name is None else name).set(settings.query.overrides)


def process_knobs(settings: Settings, base: Knobs | None = None) -> Knobs:
    """The ranking of the QMD backend, within ``memory.qmd.limits``: of the external program's answers their
    own order, in process the documented pipeline. ``base`` replaces either."""
    wanted = {**_limited(settings.qmd.limits), **set_here(settings)}
    return (base or (QMD_PROCESS if settings.qmd_process else QMD_DOCUMENTED)).set(wanted)


def _limited(limits: QmdLimits) -> dict[str, KnobValue]:
    """The limits of an answer of the QMD backend as knobs."""
    return {
        "max_results": min(200, limits.max_results),
        "snippet_chars": min(20_000, max(40, limits.max_snippet_chars)),
    }


def usual_knobs(name: str, backend: str) -> Knobs:
    """A profile as this backend has it without any configuration, which changes are counted against."""
    usual = profile(name)
    ranks = backend == "qmd" and name in (QMD_PROCESS.profile, QMD_DOCUMENTED.profile)
    return usual.set(_limited(QmdLimits())) if ranks else usual


def profile_words(knobs: Knobs, backend: str) -> str:
    """The profile's name, and what differs in ``knobs`` from it: ``documented with min score 0.28``."""
    changes = knobs.changes_from(usual_knobs(knobs.profile, backend))
    listed = ", ".join(f"{knob_words(name)} {knob_text(name, value)}" for name, value in changes.items())
    return f"{knobs.profile} with {listed}" if listed else knobs.profile


def ranking_knobs(settings: Settings, pool: Pool, knobs: Knobs) -> Knobs:
    """``knobs``, but never the external program's ranking for a pool of the built-in index: that is ranked by
    its own configured profile, with the same explicit changes."""
    if knobs.profile != QMD_PROCESS.profile or any(lst.kind == "external" for lst in pool.lists):
        return knobs
    return builtin_knobs(settings, knobs)


def builtin_knobs(settings: Settings, knobs: Knobs) -> Knobs:
    """The ranking of the built-in index, with what differs in ``knobs`` from that of the QMD backend."""
    changes = knobs.changes_from(process_knobs(settings))
    return selected(settings.query.profile).set({**settings.query.overrides, **changes})


def knobs_as_settings(settings: Settings, knobs: Knobs) -> dict[str, KnobValue]:
    """What our ``config.toml`` must say beyond what is configured, by key, so that ``configured_knobs`` are
    ``knobs``."""
    base = configured_knobs(settings)
    made: dict[str, KnobValue] = {}
    if knobs.profile != base.profile:
        base = own_knobs(settings, knobs.profile)
        made["profile"] = knobs.profile
    made |= knobs.changes_from(base)
    if "vector_weight" in made or "bm25_weight" in made:  # one alone would change the other too
        made |= {"vector_weight": knobs.vector_weight, "bm25_weight": knobs.bm25_weight}
    return {f"query.{name}": value for name, value in made.items()}


def knob_origins(settings: Settings, knobs: Knobs) -> dict[str, Origin]:
    """Where each value of the configured ``knobs`` comes from, by key."""
    given = set_here(settings) if _qmd_ranks(settings) else settings.query.overrides
    usual = profile(knobs.profile).to_dict()
    weights = {"vector_weight": "bm25_weight", "bm25_weight": "vector_weight"}
    found: dict[str, Origin] = {}
    for name, value in knobs.to_dict().items():
        key = f"query.{name}"
        if name in given or (name == "profile" and not _qmd_ranks(settings)):
            found[key] = settings.origins[key]
        elif name == "profile":
            found[key] = Origin("default", "memory.backend is qmd")
        elif weights.get(name) in given:  # its complement
            found[key] = Origin("default", f"from query.{weights[name]}")
        else:
            limited = "" if value == usual[name] else ", memory.qmd.limits"
            found[key] = Origin("default", f"profile {knobs.profile}{limited}")
    return found


def _qmd_ranks(settings: Settings) -> bool:
    return settings.openclaw.backend == "qmd" and settings.origins["query.profile"].kind == "default"


def set_here(settings: Settings) -> Mapping[str, KnobValue]:
    """The knobs that are set for openclaw-mem alone: in its file, its environment or on the command line.
    These are for every backend; what OpenClaw's file says of memorySearch is for the built-in index."""
    own = settings.query.overrides
    return {name: own[name] for name in own if settings.origins[f"query.{name}"].kind != "openclaw"}
