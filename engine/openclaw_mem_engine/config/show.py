"""The settings as people read them: one row per key, as JSON, and as a piece of OpenClaw configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

from openclaw_mem_engine.config.groups import OPENCLAW_KEYS, PLUGIN_KEYS
from openclaw_mem_engine.config.knob_settings import KNOB_SETTINGS, openclaw_key, openclaw_value
from openclaw_mem_engine.config.knobs import configured_knobs, knob_origins
from openclaw_mem_engine.config.read_groups import qmd_keys
from openclaw_mem_engine.config.secret import Secret, printable, without_credentials
from openclaw_mem_engine.config.settings import DEFAULT_ORIGIN, SETTINGS, Origin, Settings
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.knobs import KNOBS


class Row(NamedTuple):
    """One setting: safe to print as it is. ``allowed`` is the range in words."""

    key: str
    value_text: str
    origin: Origin
    allowed: str


def describe(settings: Settings) -> list[Row]:
    """Every key that can be configured, in the order of the reference. A secret reads ``set``."""
    return [
        Row(key, _zero(key, value) or _text(value), Origin(origin.kind, printable(origin.where)), allowed)
        for key, value, origin, allowed in _rows(settings)
    ]


def reference() -> str:
    """The settings as a Markdown table: what ``docs/settings.md`` ends with. It has the knobs for which
    OpenClaw has a key; ``docs/ranking.md`` has all."""
    lines = [
        "| key | meaning | allowed | default | key in `openclaw.json` | variable, flag |",
        "|---|---|---|---|---|---|",
    ]
    theirs = _openclaw_keys()
    for key, known in SETTINGS.items():
        is_knob = key.removeprefix("query.") in KNOB_SETTINGS
        if is_knob and not known.openclaw:
            continue
        names = ", ".join(f"`{name}`" for name in (known.variable, known.flag) if name)
        default = "as the profile" if is_knob else _text(_plain(known.default))
        openclaw = f"`{theirs[key]}`" if key in theirs else ""
        cells = (f"`{key}`", known.meaning, known.rule.allowed, default, openclaw, names)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _openclaw_keys() -> dict[str, str]:
    """OpenClaw's key for each of ours, with its full path."""
    search = {key: known.openclaw for key, known in SETTINGS.items() if known.openclaw}
    return {
        "workspace": "agents.defaults.workspace",
        "citations": "memory.citations",
        "plugin.slot": "plugins.slots.memory",
        **{key: f"agents.defaults.memorySearch.{theirs}" for key, theirs in search.items()},
        **{f"plugin.{ours}": f"plugins.entries.memory-lancedb.config.{k}" for k, ours in PLUGIN_KEYS.items()},
        **{ours: f"memory.qmd.{theirs}" for theirs, ours in qmd_keys().items()},
        **{ours: theirs.replace("agents.*", "agents.defaults") for theirs, ours in OPENCLAW_KEYS.items()},
    }


def to_dict(settings: Settings) -> dict[str, Any]:
    """The same for ``--json``: plain values, no secrets. ``null`` stands for a value that is not set."""
    facts = settings.openclaw
    return {
        "version": 1,  # raised by a change that breaks readers
        "indexPath": settings.index_name,
        "settings": {
            key: {
                "value": value,
                "origin": {"kind": origin.kind, "where": origin.where},
                "allowed": allowed,
            }
            for key, value, origin, allowed in _rows(settings)
        },
        "openclaw": {
            "configFile": str(facts.config_file) if facts.config_file else None,
            "stateDir": str(facts.state_dir),
            "storePath": str(facts.store_path),
            "sessionsDir": str(facts.sessions_dir),
            "backend": facts.backend,
            "agents": list(facts.agents),
            "ignored": [item.to_dict() for item in facts.ignored],
        },
        "warnings": [note.to_dict() for note in settings.warnings],
    }


def fragment(overrides: Mapping[str, object]) -> str:
    """What a user pastes into ``openclaw.json`` to get these knobs: JSON5 with the full path of keys. Those
    that OpenClaw has no key for, or not with this value, follow in a comment as our own TOML; so does a
    ``profile``. A single weight gets its complement beside it, for OpenClaw would pair it with its default
    otherwise."""
    theirs, ours = _by_program(overrides)
    lines: list[str] = []
    if theirs:
        import json5  # only for an export

        tree: dict[str, Any] = {}
        for key, value in theirs.items():
            *path, last = f"agents.defaults.memorySearch.{key}".split(".")
            table = tree
            for part in path:
                table = table.setdefault(part, {})
            table[last] = value
        lines += ["// For openclaw.json:", json5.dumps(tree, indent=2)]
    if ours:
        lines.append("// Without a key in OpenClaw; for the config.toml of openclaw-mem:")
        lines.append("// [query]")
        lines += [f"// {name} = {_toml(value)}" for name, value in ours.items()]
    return "".join(f"{line}\n" for line in lines)


def fragment_files(overrides: Mapping[str, object]) -> str:
    """The files that such a ``fragment`` is for, in words."""
    names = ("openclaw.json", "the config.toml of openclaw-mem")
    return " and ".join(name for name, part in zip(names, _by_program(overrides), strict=True) if part)


def _by_program(overrides: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """What OpenClaw has a key for, by that key, and the others by their own names."""
    theirs: dict[str, object] = {}
    ours: dict[str, object] = {}
    for name, value in _with_both_weights(overrides).items():
        if (key := openclaw_key(name, value)) is None:
            ours[name] = value
        else:
            theirs[key] = openclaw_value(name, value)
    return theirs, ours


def _rows(settings: Settings) -> Iterator[tuple[str, Any, Origin, str]]:
    """Key, value, origin and range of every setting; the values as plain data, nothing secret among them."""
    ranking = configured_knobs(settings)
    knobs = {f"query.{name}": value for name, value in ranking.to_dict().items()}
    origins = {**settings.origins, **knob_origins(settings, ranking)}
    for key, known in SETTINGS.items():
        value: Any = knobs.get(key)
        if value is None:
            found = attrgetter("provider.provider" if key == "provider.name" else key)(settings)
            is_map = known.rule.kind == "map"
            value = _plain(tuple(f"{name} = {text}" for name, text in found.items()) if is_map else found)
        yield key, value, origins.get(key, DEFAULT_ORIGIN), known.rule.allowed


def _plain(value: object) -> Any:
    if isinstance(value, Secret):
        return "set" if value.available else "missing"
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        # Header texts may be credentials; their names are enough to see what is sent.
        return dict.fromkeys(value, "set")
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, (str, bool, int, float, type(None))):
        return without_credentials(value) if isinstance(value, str) else value
    return str(value)  # what is made of several values: a collection, a scope


def _zero(key: str, value: Any) -> str:
    """The other name of a 0 of a knob; empty for all else."""
    knob = KNOBS.get(key.partition("query.")[2])
    return knob.meaning(value) if knob else ""


def _text(value: object) -> str:
    if value is None or value in ({}, []):
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"  # as in the file
    if isinstance(value, dict):
        return printable(", ".join(value))
    if isinstance(value, list):
        return printable(", ".join(str(item) for item in value))
    return f"{value:g}" if isinstance(value, float) else printable(str(value))


def _with_both_weights(overrides: Mapping[str, object]) -> dict[str, object]:
    knobs = dict(overrides)
    for one, other in (("vector_weight", "bm25_weight"), ("bm25_weight", "vector_weight")):
        weight = knobs.get(one)
        if isinstance(weight, (int, float)) and other not in knobs:
            knobs[other] = round(1.0 - weight, 10)
    return knobs


def _toml(value: object) -> str:
    """A knob as a TOML value; JSON's escapes are also TOML's, so a text cannot leave its comment line."""
    return json.dumps(value if isinstance(value, (bool, int, float)) else str(value))
