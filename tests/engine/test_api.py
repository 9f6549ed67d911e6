"""The public surface: every name exists and is typed, and importing it loads nothing."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import openclaw_mem_engine
from openclaw_mem_engine import api


def declared() -> list[str]:
    """The public names, as a type checker sees them."""
    tree = ast.parse(Path(api.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return [alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]


@pytest.mark.parametrize("name", declared())
def test_every_public_name_exists(name: str) -> None:
    assert getattr(api, name) is not None


def test_the_package_offers_names_of_the_api() -> None:
    for name in declared():
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
