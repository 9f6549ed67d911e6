"""A made-up home, environment and current folder for the tests of the settings, and keys in all places."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.config.show import describe, to_dict
from openclaw_mem_engine.config.sources import UserFolders
from openclaw_mem_engine.errors import OpenClawMemError

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["openai", "auto", "${X}", "~/a", "../..", "none", 10**400, -1, 0, 1, 0.5, "http://h/v1"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
#: One key of every usual shape; all made up.
KEYS = {
    "openai": "sk-proj-Qx7Zk4vQ9tL2mN8pR3sW6yB1",
    "google": "AIzaSyDq7Zk4vQ9tL2mN8pR3sW6yB1cF5hJ0",
    "voyage": "pa-Qx7Zk4vQ9tL2mN8pR3sW6yB1cF5",
    "mistral": "Qx7Zk4vQ9tL2mN8pR3sW6yB1cF5hJ0dK",
}


@dataclass
class World:
    """Everything that settings depend on, below one scratch folder."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home = self.root / "home"
        self.cwd = self.root / "here"
        self.state = self.home / ".openclaw"
        for folder in (self.state, self.cwd):
            folder.mkdir(parents=True)
        self.openclaw_file = self.state / "openclaw.json"
        self.own_file = self.home / ".config" / "openclaw-mem" / "config.toml"

    def openclaw(self, content: object) -> Path:
        text = content if isinstance(content, str) else json.dumps(content)
        self.openclaw_file.write_text(text, encoding="utf-8")
        return self.openclaw_file

    def memory_search(self, content: object, **others: object) -> Path:
        return self.openclaw({"agents": {"defaults": {"memorySearch": content}}, **others})

    def own(self, text: str) -> Path:
        self.own_file.parent.mkdir(parents=True, exist_ok=True)
        self.own_file.write_text(text, encoding="utf-8")
        return self.own_file

    def load(self, **flags: Any) -> Settings:
        folders = UserFolders(self.home / ".local/share/openclaw-mem", self.own_file.parent)
        return load_settings(environ=self.environ, home=self.home, cwd=self.cwd, folders=folders, **flags)


def settings_or_our_error(world: World) -> None:
    before = sorted(world.root.rglob("*"))
    try:
        found = world.load()
    except OpenClawMemError as error:
        assert str(error)
    else:
        assert found.workspace.is_absolute() and found.index_path.is_absolute()
        assert 0 <= found.chunking.overlap < found.chunking.tokens
        assert all(row.value_text.isprintable() for row in describe(found))
        json.dumps(to_dict(found))
    assert sorted(world.root.rglob("*")) == before


def codes(settings: Settings) -> list[str]:
    return [note.code for note in settings.warnings]


def revealed(settings: Settings, provider: str | None = None) -> str | None:
    endpoint: Any = settings.provider if provider is None else settings.provider.endpoints[provider]  # type: ignore[index]
    return endpoint.api_key.reveal() if endpoint.api_key else None


def profiles_file(world: World, agent: str = "main") -> Path:
    return world.state / "agents" / agent / "agent" / "auth-profiles.json"


def keep(world: World, profiles: object, *, agent: str = "main", **others: object) -> Path:
    """Write OpenClaw's file of keys."""
    path = profiles_file(world, agent)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": 1, "profiles": profiles, **others}), encoding="utf-8")
    return path


def api_key(provider: str, key: object, **others: object) -> dict[str, object]:
    return {"type": "api_key", "provider": provider, "key": key, **others}


def planted_everywhere(world: World, place: str) -> None:
    """The keys in one of the places that may hold them."""
    if place == "profiles":
        keep(world, {f"{name}:default": api_key(name, key) for name, key in KEYS.items()})
    elif place == "env":
        variables = ("OPENAI_API_KEY", "GEMINI_API_KEY", "VOYAGE_API_KEY", "MISTRAL_API_KEY")
        world.environ.update(zip(variables, KEYS.values(), strict=True))
    elif place == "models":
        world.openclaw({"models": {"providers": {name: {"apiKey": key} for name, key in KEYS.items()}}})
    else:
        logins = {name: {"type": "oauth", "provider": name, "access": key} for name, key in KEYS.items()}
        keep(world, logins)
