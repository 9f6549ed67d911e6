"""Memories whose providers are loopback servers, with a clock that tests turn."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.state.events import EVENTS_FILE, Event, EventLog
from support.embed_server import Server
from support.memories import write_notes

SECRET = "sk-test-0123456789abcdef"

NOTES = {
    "MEMORY.md": "# Memory\n\nThe bakery opens at seven.\n\nRouter password lies in the drawer.\n",
    "memory/2026-02-01.md": "# Sunday\n\nBought a red bicycle for the trip to Ghent.\n",
    "memory/2026-02-02.md": "# Monday\n\nThe certificate of the gateway expires in March.\n",
    "memory/garden.md": "# Garden\n\nTomatoes want water every evening.\n",
}


@dataclass
class Clock:
    """Epoch seconds that only move when told."""

    now: float = 1_770_000_000.0

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class World:
    """A folder with notes and a settings file; ``memory`` opens what it describes at this moment."""

    folder: Path
    clock: Clock
    environ: dict[str, str]

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    def write(self, notes: dict[str, str]) -> None:
        write_notes(self.workspace, notes)

    def configure(self, *lines: str) -> None:
        """The table ``[provider]`` of our settings file."""
        (self.folder / "config.toml").write_text("\n".join(["[provider]", *lines]) + "\n", "utf-8")

    def use(self, server: Server, *lines: str, name: str = "openai", model: str = "hash-bow-256") -> None:
        """Configure the provider ``name`` at ``server``, and more ``lines`` of its table."""
        served = (f'base_url = "{server.base_url}"', f'api_key = "{SECRET}"', f'model = "{model}"')
        self.configure(f'name = "{name}"', *served, *lines)

    def events(self) -> list[Event]:
        """What is in the event log, oldest first."""
        with closing(EventLog(self.folder / "data" / EVENTS_FILE)) as log:
            return log.read(10_000)[::-1]

    def settings(self) -> Settings:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        environ = {
            "OPENCLAW_MEM_HOME": str(self.folder / "data"),
            "OPENCLAW_MEM_CONFIG": str(self.folder / "config.toml"),
            **self.environ,
        }
        return load_settings(workspace=self.workspace, environ=environ, home=home, cwd=self.folder)

    def memory(self, faults: Iterable[str] = (), *, resident: bool = False) -> Memory:
        return Memory.open(self.settings(), clock=self.clock, resident=resident, faults=frozenset(faults))


def make_world(folder: Path, notes: dict[str, str] | None = None, **environ: str) -> World:
    """A world with :data:`NOTES` and no settings yet."""
    world = World(folder, Clock(), environ)
    world.write(NOTES if notes is None else notes)
    world.configure()
    return world
