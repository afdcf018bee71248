"""The README says nothing that is not so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from treadle.agents.config import parse_config
from treadle.agents.markdown import parse_agent
from treadle.protocol.methods import own_names

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(marker: str) -> str:
    """Return the code block behind a marker."""
    found = re.search(rf"<!-- {marker} -->\n```\w*\n(.*?)```\n", README, re.DOTALL)
    assert found is not None, f"the README has no block {marker}"
    return found[1]


def test_the_agent_in_the_readme_is_an_agent() -> None:
    inbox = parse_agent(ROOT / "inbox.md", block("agent").encode())
    assert (inbox.name, inbox.model, inbox.tools) == ("inbox", "gpt-5-mini", ("read",))


def test_the_configuration_in_the_readme_is_one() -> None:
    tomllib.loads(block("config"))
    config = parse_config(ROOT / "config.toml", block("config").encode())
    assert (config.models.model, config.sessions.turns_in_flight) == ("gpt-5-mini", 8)


def test_the_library_code_in_the_readme_is_that_of_the_example() -> None:
    assert block("library") in (ROOT / "examples" / "remember.py").read_text()


def test_the_session_in_the_readme_is_that_of_the_example() -> None:
    assert block("session") in (ROOT / "examples" / "session.py").read_text()


def test_the_shell_script_in_the_readme_is_that_of_the_example() -> None:
    assert block("shell") in (ROOT / "examples" / "shell.sh").read_text(encoding="utf-8")


def test_the_readme_names_every_method_and_no_other() -> None:
    table = "".join(line for line in README.splitlines() if line.startswith("| `"))
    named = set(re.findall(r"`((?:agent|daemon|mcp|session)/\w+)`", table))
    assert named == {*own_names("request"), *own_names("event")} - {"session/state"}


@pytest.mark.parametrize("marker", ["main-job", "tests"])
def test_each_of_the_two_commands_is_one_line(marker: str) -> None:
    assert block(marker).count("\n") == 1


def test_every_file_that_the_documents_name_exists() -> None:
    for document in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        for name in re.findall(
            r"`((?:examples|daemon/treadle|tests|\.ci)/[\w./]+|[A-Z]+\.md)`", text
        ):
            assert (ROOT / name).exists(), f"{document} names {name}"
