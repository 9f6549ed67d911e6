"""The export action of the search lab: which kinds there are, and where the file goes."""

from __future__ import annotations

import time
from pathlib import Path

from openclaw_mem_tui import export
from openclaw_mem_tui.features.search.base import SearchBase
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.screens.pick import Choice, PickScreen


class ExportActions(SearchBase):
    """Offers the kinds, writes a new file, says where it lies."""

    def action_export(self) -> None:
        view = self.lab.view
        if view.trace is None or not view.answers:
            self.lab.say("there is no answer to export yet")
            return
        svg = self.app.export_screenshot(title="openclaw-mem", simplify=True)
        changes = fmt.count(len(view.changed_knobs()), "knob") + " changed"
        choices = [
            Choice("json", "JSON", "the whole trace, as search --explain prints it", "j"),
            Choice("markdown", "Markdown", "a report: stages, hits, what was dropped and why", "m"),
            Choice("svg", "SVG", "this screen as a picture", "s"),
            Choice("config", "Configuration", f"the knobs to paste into openclaw.json ({changes})", "c"),
        ]

        def write(kind: str | None) -> None:
            if kind == "json":
                self._write("json", export.as_json(view))
            elif kind == "markdown":
                self._write("markdown", export.as_markdown(view))
            elif kind == "config":
                self._write("config", export.as_config(view))
            elif kind == "svg":
                self._write("svg", svg)

        self.app.push_screen(PickScreen("export", lambda _: choices), write)

    def _write(self, kind: export.Kind, text: str) -> None:
        folder = Path(self.lab.service.settings.data_dir) / "exports"
        name = export.file_name(self.lab.view.query, time.strftime("%Y%m%d-%H%M%S"), kind)
        try:
            path = export.write(folder, name, text)
        except OSError as error:
            self.lab.say(f"nothing was written: {error}")
        else:
            self.lab.say(f"wrote {path}")
