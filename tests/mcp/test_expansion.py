"""What a server is told of the daemon's variables, and what else its program gets."""

from __future__ import annotations

import sys

import pytest

from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.expansion import CannotExpand, expanded, secret_variables, server_environment


def _arg(text: str, **environ: str) -> str:
    return expanded(ServerDeclaration("s", "x", (text,)), environ).args[0]


@pytest.mark.parametrize(
    ("text", "is_"),
    [
        ("${A}", "1"),
        ("a${A}b${A}${B:-}", "a1b1"),
        ("${B:-else where}", "else where"),
        ("${EMPTY:-else}", "else"),
        ("${A:-else}", "1"),
        ("${B:-$A}", "$A"),
        ("$A $ $$ {A}", "$A $ $$ {A}"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("${LOOKS}", "${A}"),
        ("\\${A}", "\\1"),
    ],
)
def test_variables_become_their_values_and_everything_else_stays(text: str, is_: str) -> None:
    assert _arg(text, A="1", EMPTY="", LOOKS="${A}") == is_


@pytest.mark.skipif(sys.platform == "win32", reason="its absolute paths have drives")
def test_every_text_of_a_declaration_is_filled_in() -> None:
    program = ServerDeclaration(
        "s", "${A}/run", ("${A}",), (("K", "${A}"),), "${A}", tools=("${A}",)
    )
    assert expanded(program, {"A": "/a"}) == ServerDeclaration(
        "s", "/a/run", ("/a",), (("K", "/a"),), "/a", tools=("${A}",)
    )
    address = ServerDeclaration(
        "s", url="${A}/b", headers=(("X", "k ${B}"),), token_env="A", transport="http"
    )
    assert expanded(address, {"A": "http://h", "B": "1\n"}) == ServerDeclaration(
        "s", url="http://h/b", headers=(("X", "k 1"),), token_env="A", transport="http"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="home is another variable there")
def test_a_program_and_a_folder_may_lie_below_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    at_home = expanded(ServerDeclaration("s", "~/bin/s", ("~/x",), cwd="~"), {})
    assert at_home == ServerDeclaration("s", "/home/me/bin/s", ("~/x",), cwd="/home/me")


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        (
            ServerDeclaration("s", "x", env=(("K", "${A} ${B}"),)),
            "the MCP server s: env K refers to the variable B, which is not set; set it for the "
            "daemon, or write ${B:-what to use instead}",
        ),
        (
            ServerDeclaration("s", url="http://h", headers=(("X", "${EMPTY}"),)),
            "the MCP server s: headers X refers to the variable EMPTY, which is not set",
        ),
        (ServerDeclaration("s", "${EMPTY:-}"), "the MCP server s: command is empty with its var"),
        (ServerDeclaration("s", "${A}/x"), "s: command is no absolute path with its variables"),
        (ServerDeclaration("s", "~nobody-is-so/x"), "command names a home folder that nobody has"),
        (ServerDeclaration("s", "x", cwd="${A}"), "s: cwd is no absolute path with its variables"),
        (ServerDeclaration("s", url="${A}"), "s: url is no http:// or https:// address with its"),
        (
            ServerDeclaration("s", url="http://h", headers=(("X", "${LINES}"),)),
            "the MCP server s: headers X is not printable ASCII with its variables; look at what",
        ),
    ],
)
def test_what_cannot_be_filled_in_is_told_without_values(
    declaration: ServerDeclaration, message: str
) -> None:
    environ = {"A": "hunter2", "EMPTY": "", "LINES": "hunter2\nx"}
    with pytest.raises(CannotExpand) as caught:
        expanded(declaration, environ)
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_secret_is_what_authorises_and_what_is_called_so() -> None:
    program = ServerDeclaration(
        "s",
        "${RUN}",
        ("${WHERE}", "--key=${MY_API_KEY}", "$${MY_TOKEN}"),
        (("GITHUB_TOKEN", "${GH}"), ("ROOT", "${FOLDER}"), ("X", "${A_SECRET:-x}")),
    )
    assert secret_variables(program) == ("GH", "A_SECRET", "MY_API_KEY")
    address = ServerDeclaration(
        "s", url="http://${HOST}/?t=${URL_TOKEN}", headers=(("X", "${A}${B}"),), token_env="T"
    )
    assert secret_variables(address) == ("T", "A", "B", "URL_TOKEN")


@pytest.mark.skipif(sys.platform == "win32", reason="programs need more of it there")
def test_a_program_gets_little_of_the_environment_its_path_and_what_is_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import os

    for name in tuple(os.environ):
        monkeypatch.delenv(name)
    for name in ("HOME", "LC_ALL", "OPENAI_API_KEY", "SSH_AUTH_SOCK", "TERM", "PYTHONPATH"):
        monkeypatch.setenv(name, f"my {name}")
    declaration = ServerDeclaration("s", "x", env=(("A", "b"), ("NO_COLOR", "")))
    assert server_environment(declaration, "/somewhere") == {
        "HOME": "my HOME",
        "LC_ALL": "my LC_ALL",
        "PATH": "/somewhere",
        "GIT_TERMINAL_PROMPT": "0",
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "",
        "A": "b",
    }
