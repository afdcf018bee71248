"""`treadle mcp list` and `treadle mcp check`, on servers that are there and some that are not."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from support.doctor import doctor
from support.person import write_agent, write_config
from treadle.cli.mcp.command import app
from treadle.errors import ConfigurationError
from treadle.folders import CONFIG_VARIABLE

LINES = Path(__file__).parents[1] / "support" / "mcp" / "lines.py"


def server(program: str = "", **more: Any) -> dict[str, Any]:
    """Declare a server of plain Python; `program` changes what it does."""
    return {"command": sys.executable, "args": ["-I", "-S", str(LINES), program], **more}


def agent(name: str = "helper", **front_matter: Any) -> Path:
    servers = front_matter.pop("servers")
    return write_agent(name, mcp_servers=json.dumps(servers), **front_matter)


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def run_json(*words: str) -> tuple[int, Any]:
    code, out = run(*words, "--json")
    return code, json.loads(out)


def test_servers_are_listed_with_who_has_them_where_and_whether_they_are_there() -> None:
    config = write_config(
        '[mcp_servers.shared]\ncommand = "no-such-program"\n'
        '[mcp_servers.unused]\nurl = "https://a.example/mcp"\ntoken_env = "NO_SUCH_TOKEN"\n'
    )
    path = agent(servers={"own": {"command": sys.executable, "args": ["a b"]}, "shared": {}})
    code, out = run("list")
    assert (code, out.splitlines()) == (
        0,
        [
            f"own of helper  stdio  {sys.executable} 'a b'",
            f"  found  ({path})",
            "shared of helper  stdio  no-such-program",
            f"  problem: there is no program no-such-program  ({config})",
            "unused  http  https://a.example/mcp",
            f"  problem: the variable NO_SUCH_TOKEN, which holds its token, is not set  ({config})",
        ],
    )


def test_one_agents_servers_are_listed_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_NAME", raising=False)
    agent("other", servers={"other": server()})
    path = agent(servers={"own": {"command": "${NO_SUCH_NAME}", "scope": "agent"}})
    code, listed = run_json("list", "--agent", "helper")
    (found,) = listed["servers"]
    assert "NO_SUCH_NAME, which is not set" in found.pop("problem")
    assert (code, found) == (
        0,
        {
            "server": "own",
            "agent": "helper",
            "source": str(path),
            "transport": "stdio",
            "address": "${NO_SUCH_NAME}",
            "scope": "agent",
            "start": "lazy",
            "found": False,
        },
    )


def test_where_nothing_is_declared_the_list_says_so() -> None:
    assert run("list") == (0, "no MCP servers are declared\n")
    assert run_json("list") == (0, {"servers": []})


def test_a_name_that_config_does_not_declare_is_a_problem_of_the_list() -> None:
    agent(servers=["nowhere"])
    _, listed = run_json("list")
    assert [each["problem"] for each in listed["servers"]] == ["config.toml does not declare it"]


def test_a_check_tells_what_a_server_has_what_is_allowed_and_how_it_ended() -> None:
    path = agent(servers={"own": server()}, mcp_allow="[own__echo]")
    code, checked = run_json("check", "own")
    (end,) = checked.pop("ended")
    tools = {tool["name"]: tool["permission"] for tool in checked.pop("tools")}
    assert isinstance(end.pop("pid"), int)
    assert end == {"exit": 0, "by": "end_of_input"}
    assert tools.pop("own__echo") == "allowed"
    assert set(tools.values()) <= {"refused"}
    assert checked.pop("seconds") > 0
    assert (code, checked) == (
        0,
        {
            "ok": True,
            "server": "own",
            "agent": "helper",
            "source": str(path),
            "era": "handshake",
            "about": "lines 1",
            "error": None,
            "stderrTail": None,
        },
    )


def test_a_check_is_told_in_lines() -> None:
    agent(servers={"own": server()}, permissions="ask")
    code, out = run("check", "own", "--agent", "helper")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("own of helper  (")
    assert lines[1].startswith("ready in ")
    assert lines[1].endswith(" s: lines 1")
    assert lines[2] == "  era: handshake (initialize first)"
    assert lines[3].startswith("  own__echo  asks")
    assert lines[-1].endswith(" ended with 0, by the end of its input")


def test_a_check_of_what_does_not_start_fails_with_what_it_wrote() -> None:
    broken = "def initialize(request):\n    os.write(2, b'no key\\x1b[2J')\n    os._exit(3)\n"
    agent(servers={"own": server(broken)})
    code, checked = run_json("check", "own")
    assert (code, checked["ok"], checked["tools"]) == (1, False, [])
    assert checked["error"]
    assert "no key␛[2J" in checked["stderrTail"]
    code, out = run("check", "own")
    assert code == 1
    assert "failed: " in out
    assert "  | no key␛[2J" in out


def test_a_check_of_a_program_that_is_not_there_says_so() -> None:
    agent(servers={"own": {"command": "no-such-program"}})
    code, checked = run_json("check", "own")
    assert code == 1
    assert "there is no program 'no-such-program'" in checked["error"]
    assert checked["ended"] == []


def test_a_server_that_nobody_declares_or_several_do_otherwise_is_named() -> None:
    agent(servers={"own": server()})
    agent("other", servers={"own": {"command": "another"}})
    with pytest.raises(ConfigurationError, match=r"no MCP server 'ownn' is declared\. .*own"):
        run("check", "ownn")
    with pytest.raises(ConfigurationError, match="--agent, one of helper, other"):
        run("check", "own")
    assert run("check", "own", "--agent", "helper")[0] == 0


def test_the_doctor_names_servers_that_cannot_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"text": "ok"}\n')
    monkeypatch.setenv("TREADLE_MODEL", f"scripted:{script}")
    path = agent(servers={"own": {"command": "no-such-program"}, "fine": server()})
    Path(os.environ[CONFIG_VARIABLE]).chmod(0o700)
    told = doctor("--json", "--offline")
    assert told.check("mcp/own") == {
        "name": "mcp/own",
        "status": "problem",
        "detail": f"there is no program no-such-program; it is declared in {path}",
        "fix": "treadle mcp list",
    }
    agent(servers={"fine": server()})
    told = doctor("--json", "--offline")
    assert told.check("mcp")["detail"] == "declared, and can be found: fine"
