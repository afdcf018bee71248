"""`treadle mcp import`: another program's servers in config.toml, which stays as it was."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from support.person import write_config
from treadle.agents.config import parse_config
from treadle.cli.mcp import import_ as module
from treadle.cli.mcp.command import app
from treadle.errors import TreadleError
from treadle.folders import CONFIG_VARIABLE
from treadle.mcp.declaration import ServerDeclaration

WIKI = {"command": "npx", "args": ["-y", 'a "b"\\c\n\x7f'], "env": {"A": "${A:-é}"}}
SEARCH = {"type": "sse", "url": "https://s.example/", "headers": {"X.Key": "${KEY}"}}

TABLES = r"""[mcp_servers.wiki]
command = "npx"
args = ["-y", "a \"b\"\\c\n\u007f"]
[mcp_servers.wiki.env]
A = "${A:-é}"

[mcp_servers.search]
url = "https://s.example/"
type = "sse"
[mcp_servers.search.headers]
"X.Key" = "${KEY}"
"""

DECLARED = (
    ServerDeclaration("wiki", "npx", ("-y", 'a "b"\\c\n\x7f'), (("A", "${A:-é}"),)),
    ServerDeclaration(
        "search", url="https://s.example/", headers=(("X.Key", "${KEY}"),), transport="sse"
    ),
)


@pytest.fixture
def config() -> Path:
    return Path(os.environ[CONFIG_VARIABLE], "config.toml")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return _write(tmp_path / ".mcp.json", {"wiki": WIKI, "search": SEARCH})


def _write(path: Path, servers: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


def _run(*words: str | Path) -> tuple[str, str]:
    done = CliRunner().invoke(app, ["import", *map(str, words)])
    if done.exception is not None:
        raise done.exception
    return done.stdout, done.stderr


def _refused(*words: str | Path) -> str:
    with pytest.raises(TreadleError) as caught:
        _run(*words)
    return str(caught.value)


def test_servers_are_added_to_a_file_that_is_made_for_them(config: Path, theirs: Path) -> None:
    told = f"added to {config}: wiki, search\n"
    line = "an agent has them with this line in its file: mcp_servers: [wiki, search]\n"
    assert _run(theirs) == (told + line, "")
    assert config.read_text(encoding="utf-8") == TABLES
    assert parse_config(config, config.read_bytes()).mcp_servers == DECLARED
    if os.name == "posix":
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (config, config.parent)]
        assert modes == [0o600, 0o700]
    assert [each.name for each in config.parent.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("before", "gap"),
    [
        ("# mine  \r\n[models]\r\nmodel = 'm' # why\r\n", "\n"),
        ("\ufeff[mcp_servers.own]\ncommand='x'", "\n\n"),
        ("[secrets]\nnames = [\n  'A', # mine\n]\n\n\n", "\n"),
    ],
)
def test_what_a_person_wrote_stays_byte_for_byte(
    config: Path, theirs: Path, before: str, gap: str
) -> None:
    write_config("").write_bytes(before.encode())
    _run(theirs)
    assert config.read_bytes() == (before + gap + TABLES).encode()


def test_tables_can_be_printed_and_nothing_is_written(config: Path, theirs: Path) -> None:
    assert _run(theirs, "--print") == (TABLES, "")
    assert not config.exists()
    only = TABLES[TABLES.index("[mcp_servers.search]") :]
    assert _run(theirs, "--print", "--name", "search") == (only, "")


def test_notices_stand_apart_from_what_is_printed(tmp_path: Path) -> None:
    file = _write(
        tmp_path / "x.json", {"my wiki": {"command": "x", "env": {"API_KEY": "12345678"}}}
    )
    table = (
        '[mcp_servers.my-wiki]\ncommand = "x"\n[mcp_servers.my-wiki.env]\nAPI_KEY = "12345678"\n'
    )
    looks = "holds what looks like a key; put it into a variable and write ${NAME}"
    assert _run(file, "--print") == (
        table,
        f"treadle: 'my wiki' is called my-wiki here\ntreadle: my-wiki: env API_KEY: {looks}\n",
    )


@pytest.mark.parametrize("name", [".mcp.json", ".vscode/mcp.json"])
def test_a_projects_own_programs_are_named_by_their_whole_paths(
    config: Path, tmp_path: Path, name: str
) -> None:
    project = Path(os.path.realpath(tmp_path)) / "project"
    _run(_write(project / name, {"own": {"command": "./bin/own", "cwd": "sub"}}))
    declared = ServerDeclaration("own", str(project / "bin" / "own"), cwd=str(project / "sub"))
    assert parse_config(config, config.read_bytes()).mcp_servers == (declared,)


def test_a_server_that_is_declared_already_is_refused(config: Path, theirs: Path) -> None:
    _run(theirs, "--name", "wiki")
    before = config.read_bytes()
    assert _refused(theirs) == (
        f"{config} declares wiki already; remove [mcp_servers.wiki] there, or name the others with "
        "--name"
    )
    assert config.read_bytes() == before
    _run(theirs, "--name", "search")
    assert parse_config(config, config.read_bytes()).mcp_servers == DECLARED


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        ({"a": {"comand": "x"}}, "needs either command, a program, or url, an address; mend it"),
        ({"a": {"command": "x", "url": "http://h"}}, "a: needs either command"),
        ({"a": {"command": "x", "env": {"A": True}}}, "a: env has A, which must be text; put"),
        ({"a": {"command": "x", "args": ["${userHome"]}}, "must hold variables as ${NAME}"),
        ({"a": {"command": "x", "args": ["\ud800"]}}, "half of a surrogate pair"),
        ({"a": {"command": "x", "disabled": True}}, "declares no server that can be imported"),
        ({}, "declares no server that can be imported"),
    ],
)
def test_what_cannot_be_declared_is_told_and_writes_nothing(
    config: Path, tmp_path: Path, servers: dict[str, Any], message: str
) -> None:
    assert message in _refused(_write(tmp_path / "x.json", servers))
    assert not config.exists()


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("[models", "config.toml: Expected ']'"),
        ("mcp_servers = {}", "the tables cannot be added to {config}: config.toml: "),
        ("#" * 65_500 + "\n", "it is larger than 64 KiB; print them with --print"),
    ],
)
def test_a_configuration_that_cannot_take_them_stays_as_it_is(
    config: Path, theirs: Path, before: str, message: str
) -> None:
    write_config(before)
    assert message.format(config=config) in _refused(theirs)
    assert config.read_text() == before
    assert [each.name for each in config.parent.iterdir()] == ["config.toml"]


def test_what_is_written_meanwhile_is_not_lost(
    config: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config("# one\n")
    check = module._check

    def meanwhile(*arguments: Any) -> None:
        check(*arguments)
        write_config("# two\n")

    monkeypatch.setattr(module, "_check", meanwhile)
    assert _refused(theirs) == f"{config} was changed meanwhile; run this again"
    assert config.read_text() == "# two\n"
    assert [each.name for each in config.parent.iterdir()] == ["config.toml"]


@pytest.mark.skipif(os.name != "posix", reason="links need privileges on Windows")
@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_one(config: Path, theirs: Path, tmp_path: Path, is_there: bool) -> None:
    real = tmp_path / "dotfiles" / "treadle.toml"
    config.parent.mkdir(parents=True)
    if is_there:
        real.parent.mkdir()
        real.touch()
    config.symlink_to(real)
    _run(theirs)
    assert config.is_symlink()
    assert real.read_text(encoding="utf-8") == TABLES


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    missing = tmp_path / "none.json"
    assert _refused(missing) == f"cannot read {missing}: No such file or directory"
    assert "cannot read" in _refused(tmp_path)
