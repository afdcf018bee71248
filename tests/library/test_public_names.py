"""`import treadle`: the names a library user types, found on first use."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import treadle

# Far more than an interpreter's start takes on a busy machine.
PATIENCE_SECONDS = 30.0


def run_python(program: str) -> Any:
    """Run a program in an interpreter of its own; return the JSON it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=PATIENCE_SECONDS
    )
    return json.loads(done.stdout)


def imports_for_type_checkers() -> dict[str, str]:
    """What `if TYPE_CHECKING:` in the package's file imports: each name and its module."""
    tree = ast.parse(Path(treadle.__file__).read_text("utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    assert isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
    found: dict[str, str] = {}
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom) and statement.module is not None
        for alias in statement.names:
            assert alias.asname == alias.name, f"import {alias.name} as itself, to export it"
            found[alias.name] = statement.module
    return found


def test_every_public_name_resolves_to_what_its_module_has() -> None:
    for name, module in treadle._HOMES.items():
        assert getattr(treadle, name) is getattr(import_module(module), name)


def test_type_checkers_know_the_same_names_from_the_same_modules() -> None:
    assert imports_for_type_checkers() == treadle._HOMES


def test_a_star_import_and_dir_give_every_public_name() -> None:
    given: dict[str, object] = {}
    exec("from treadle import *", given)

    assert set(treadle.__all__) == set(treadle._HOMES) == set(dir(treadle))
    assert given.keys() - {"__builtins__"} == set(treadle.__all__)


def test_a_name_that_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match="'treadle' has no attribute 'Agnt'"):
        treadle.Agnt  # noqa: B018 - looking is what is tested
    with pytest.raises(ImportError, match="Agnt"):
        exec("from treadle import Agnt")


def test_importing_treadle_loads_nothing_but_itself() -> None:
    program = (
        "import sys, json; before = set(sys.modules); import treadle; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    assert run_python(program) == ["treadle"]


def test_an_agent_loads_no_model_library_before_it_is_started() -> None:
    program = (
        "import sys, json; "
        "from treadle import Agent, Message, Session, SessionLog; "
        "from treadle import SystemPrompt, ToolResultLoop, Tools; "
        "heavy = {'openai', 'pydantic', 'httpx2', 'yaml', 'rich', 'typer', 'platformdirs', 'mcp'}; "
        "print(json.dumps(sorted(heavy & set(sys.modules))))"
    )
    assert run_python(program) == []
