"""``openclaw-mem tool``: one call of one of the agent's memory tools."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.opening import open_memory, warned_settings
from openclaw_mem_engine.cli.search import up_to_date
from openclaw_mem_engine.cli.terminal import print_json, say, stoppable
from openclaw_mem_engine.config.groups import STORE
from openclaw_mem_engine.errors import IndexUnavailable, UsageError

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.plugin.agent_tools import AgentTool


def run(arguments: Namespace) -> int:
    """Check the name, call, print."""
    from openclaw_mem_engine.plugin.agent_tools import STORE_TOOLS, check_tool
    from openclaw_mem_engine.tools import memory_get
    from openclaw_mem_engine.workspace.rules import open_workspace

    settings = warned_settings(arguments)
    tool = check_tool(settings, arguments.name)
    form = _form(arguments.name, tool)
    given = _parameters(arguments.parameters, form)
    if tool.slot == STORE:
        from openclaw_mem_engine.plugin.memories import Memories

        with _completed(form, given), Memories(settings) as memories:
            answer = STORE_TOOLS[arguments.name](memories, given)
            for note in memories.notes:
                say(note)
        print_json(answer, exact=True)
        return 0
    with _completed(form, given):
        if arguments.name == "memory_get":
            open_workspace(settings.workspace)
            answer = memory_get(settings, given)
        else:
            answer = _searched(settings, arguments, given)
    print_json(answer, exact=True)
    return 0


def _searched(settings: Settings, arguments: Namespace, given: dict[str, Any]) -> dict[str, Any]:
    from openclaw_mem_engine.tools import memory_search, unavailable

    try:
        with open_memory(settings) as memory, stoppable() as token:
            # A tool that is switched off refuses, and nothing is indexed for it.
            with up_to_date(memory, arguments, token) if settings.enabled else nullcontext():
                answer = memory_search(memory, given, arguments.session_key)
            _remember(settings, given, answer)
    except IndexUnavailable as error:  # the same answer wherever that is noticed
        return unavailable(str(error))
    return answer


@contextmanager
def _completed(form: str, given: dict[str, Any]) -> Iterator[None]:
    """A sentence with ``form`` where the tool's own words only say which parameter is missing."""
    try:
        yield
    except UsageError as error:
        if str(error).endswith(" required"):
            missing = str(error).removesuffix(" required")
            wrong = "must be a string" if not isinstance(given.get(missing, ""), str) else "is required"
            raise UsageError(f"The parameter {missing} {wrong}. {form}") from None
        raise


def _remember(settings: Settings, given: dict[str, Any], answer: dict[str, Any]) -> None:
    """Keep what was searched and returned for `openclaw-mem curate`: no transcript has this call."""
    from openclaw_mem_engine.state.curation import CurationState

    returned = [(hit["path"], hit["startLine"], hit["endLine"]) for hit in answer.get("results", ())]
    if returned:
        state = CurationState(settings.data_dir, settings.agent, settings.workspace, time.time)
        state.add_search(str(given["query"]), returned)
        state.close()


def _form(name: str, tool: AgentTool) -> str:
    """What the parameters are, with an example."""
    return f"Expected: {tool.parameters}. Example: `openclaw-mem tool {name} '{tool.example}'`"


def _parameters(text: str, form: str) -> dict[str, Any]:
    """The object that the agent would send. Raises UsageError."""
    try:
        found = json.loads(sys.stdin.buffer.read() if text == "-" else text)
    except RecursionError:
        raise UsageError(f"The parameters are nested too deeply. {form}") from None
    except ValueError as error:
        raise UsageError(f"The parameters are not JSON ({error}). {form}") from None
    if not isinstance(found, dict):
        raise UsageError(f"The parameters are not a JSON object. {form}")
    return found
