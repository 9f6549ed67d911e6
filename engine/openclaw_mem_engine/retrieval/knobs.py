"""The knobs that rank what a backend found, from the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_engine.ranking.profiles import QMD_DOCUMENTED, QMD_PROCESS, profile

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.ranking.knobs import Knobs
    from openclaw_mem_engine.ranking.pool import Pool


def process_knobs(settings: Settings, base: Knobs | None = None) -> Knobs:
    """The ranking of the QMD backend, within ``memory.qmd.limits``: of the external program's answers their
    own order, in process the documented pipeline. ``base`` replaces either."""
    limits, own = settings.qmd.limits, settings.query.overrides
    # What OpenClaw's file says of memorySearch is for the built-in index; ours is for every backend.
    ours = {name: own[name] for name in own if settings.origins[f"query.{name}"].kind != "openclaw"}
    wanted = {
        "max_results": min(200, limits.max_results),
        "snippet_chars": min(20_000, max(40, limits.max_snippet_chars)),
        **ours,
    }
    return (base or (QMD_PROCESS if settings.qmd_process else QMD_DOCUMENTED)).set(wanted)


def ranking_knobs(settings: Settings, pool: Pool, knobs: Knobs) -> Knobs:
    """``knobs``, but never the external program's ranking for a pool of the built-in index: that is ranked by
    its own configured profile, with the same explicit changes."""
    if knobs.profile != QMD_PROCESS.profile or any(lst.kind == "external" for lst in pool.lists):
        return knobs
    return builtin_knobs(settings, knobs)


def builtin_knobs(settings: Settings, knobs: Knobs) -> Knobs:
    changes = knobs.changes_from(process_knobs(settings))
    return profile(settings.query.profile).set({**settings.query.overrides, **changes})
