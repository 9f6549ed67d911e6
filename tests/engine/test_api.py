"""The public surface: every name of the lazy table exists and is typed; importing it loads nothing."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import openclaw_mem_engine
from openclaw_mem_engine import api


def declared() -> dict[str, str]:
    """Public name to module, as a type checker sees them."""
    tree = ast.parse(Path(api.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        str(alias.asname): str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_both_lists_of_names_agree() -> None:
    lazy = {name: f"openclaw_mem_engine.{module}" for name, module in api._MODULE_OF.items()}
    assert lazy == declared()


@pytest.mark.parametrize("name", api.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(api, name) is not None


def test_the_package_offers_names_of_the_api() -> None:
    for name in openclaw_mem_engine.__all__:
        assert getattr(openclaw_mem_engine, name) is getattr(api, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    for module in (openclaw_mem_engine, api):
        with pytest.raises(AttributeError, match="no_such_name"):
            _ = module.no_such_name


def test_importing_it_loads_no_other_module_of_the_engine() -> None:
    program = "import sys, json, openclaw_mem_engine.api; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    ours = {name for name in json.loads(done.stdout) if name.startswith("openclaw_mem_engine")}
    assert ours == {"openclaw_mem_engine", "openclaw_mem_engine.api"}
