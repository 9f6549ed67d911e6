"""From settings to the ranking they ask for."""

from __future__ import annotations

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import ConfigError, UsageError
from openclaw_mem_engine.ranking.knobs import Knobs, profile


def configured_knobs(settings: Settings) -> Knobs:
    """The configured profile with the configuration's own values over it.

    Raises ConfigError for a value out of range; it names the origin of that value.
    """
    try:
        return profile(settings.query.profile).set(settings.query.overrides)
    except UsageError:
        for name, value in {"profile": settings.query.profile, **settings.query.overrides}.items():
            try:
                Knobs().set({name: value})
            except UsageError as error:
                origin = settings.origins.get(f"query.{name}")
                raise ConfigError(f"{origin.where}: {error}" if origin else str(error)) from error
        raise
