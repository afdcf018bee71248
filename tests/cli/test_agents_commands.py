"""`treadle agents` and `treadle trust`, as a person or a script runs them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from support.person import write_agent, write_config
from support.waiting import PATIENCE_SECONDS
from treadle.agents import markdown
from treadle.agents.catalogue import AgentProblem, Catalogue
from treadle.agents.markdown import parse_agent
from treadle.agents.workspace import tail_of
from treadle.cli.agent_templates import MARKDOWN
from treadle.folders import CONFIG_VARIABLE


def treadle(*words: str, cwd: Path | None = None) -> tuple[int, str, str]:
    """Run one command to its end; return its exit code and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "treadle", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=cwd,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def agents() -> Path:
    return Path(os.environ[CONFIG_VARIABLE], "agents")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".treadle" / "agents").mkdir(parents=True)
    (folder / ".treadle" / "agents" / "inbox.md").write_text("---\npermissions: ask\n---\nSort.")
    return Path(os.path.realpath(folder))


@pytest.mark.parametrize("kind", [[], ["--python"]])
def test_a_new_agent_can_be_used_at_once_and_is_never_overwritten(
    agents: Path, kind: list[str]
) -> None:
    path = agents / ("inbox.py" if kind else "inbox.md")
    assert treadle("agents", "new", "inbox", *kind) == (0, f"{path}\n", "")
    if os.name == "posix":
        modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, agents, agents.parent)]
        assert modes == [0o600, 0o700, 0o700]
    told = "nothing is wrong with inbox\n"
    assert treadle("agents", "check", "inbox") == (0, told, "")
    agent = Catalogue(agents.parent).find("inbox")
    assert (agent.description, agent.permissions) == ("What inbox is for", "read_only")
    path.write_text("mine")
    for again in ([], ["--python"]):
        said = f"treadle: {path} is there already; it is left as it is\n"
        assert treadle("agents", "new", "inbox", *again) == (1, "", said)
    assert (path.read_text(), len(list(agents.iterdir()))) == ("mine", 1)


def test_the_template_names_every_key_and_each_of_its_lines_is_valid() -> None:
    said = MARKDOWN.fill('He said "hi": #1')
    lines = [line.removeprefix("# ") for line in said.splitlines()]
    front_matter = lines[1 : lines.index("---", 1)]
    keys = {line.partition(":")[0] for line in front_matter}
    assert keys >= set(markdown._CHECKS)
    servers = next(line for line in front_matter if line.startswith("mcp_servers:"))
    for line in front_matter:
        if line.partition(":")[0] in markdown._CHECKS:
            # What is allowed of a server's needs the server.
            lines = f"{servers}\n{line}" if line.startswith("mcp_allow:") else line
            parse_agent(Path("inbox.md"), f"---\n{lines}\n---\n".encode())
    plain = parse_agent(Path("a.md"), said.encode())
    assert plain.description == 'What He said "hi": #1 is for'
    # What is not said to be an example is what holds anyway.
    for key in ("permissions", "sandbox"):
        line = next(line for line in front_matter if line.startswith(f"{key}:"))
        agent = parse_agent(Path("a.md"), f"---\n{line}\n---\n".encode())
        assert getattr(agent, key) == getattr(plain, key)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../x", "/ cannot stand in an agent's name"),
        ("a:b", ": cannot stand"),
        (".x", "must not begin with"),
        ("x.", "end with a dot"),
        (" x", "have blanks around it"),
        ("", "the name is empty"),
        ("nul", "is a device on Windows"),
        ("é" * 61, "is too long"),
    ],
)
def test_a_name_that_no_file_can_have_is_refused(agents: Path, name: str, said: str) -> None:
    code, out, err = treadle("agents", "new", name)
    assert (code, out) == (1, "")
    assert said in err
    assert not agents.exists()


def test_check_tells_file_line_and_what_is_valid(agents: Path) -> None:
    path = write_agent("inbox", permissions="everything")
    write_agent("fine")
    (agents.parent / "config.toml").write_text("[modles]\n")
    code, out, err = treadle("agents", "check")
    config, inbox = out.splitlines()
    assert (code, err) == (1, "")
    assert config.startswith(f"{agents.parent / 'config.toml'}: there is no key")
    assert inbox == (
        f"{path}, line 2: permissions must be one of read_only, ask, auto, not 'everything'."
    )
    assert treadle("agents", "check", "fine")[0] == 0
    assert treadle("agents", "check", "inbox")[:2] == (1, inbox + "\n")
    code, out, err = treadle("agents", "check", "inbx")
    assert (code, out) == (1, "")
    assert "there is no agent 'inbx'. Did you mean inbox?" in err
    code, out, _ = treadle("agents", "check", "--json")
    told = json.loads(out)
    assert (code, told["ok"], told["agents"]) == (1, False, ["assistant", "fine"])
    assert told["problems"][1] == {"path": str(path), "message": inbox.removeprefix(f"{agents}/")}


@pytest.mark.parametrize(
    ("path", "message", "told"),
    [
        ("/c/agents/a.md", "a.md, line 3: no", "/c/agents/a.md, line 3: no"),
        ("/c/skills/s/SKILL.md", "skills/s/SKILL.md: no", "/c/skills/s/SKILL.md: no"),
        ("/p/agents", "/p/agents leads out", "/p/agents leads out"),
        ("/c/agents/a.md", "a.mdx: no", "/c/agents/a.md: a.mdx: no"),
        ("/c/agents/a.md", "no; rename 'a.md'", "/c/agents/a.md: no; rename 'a.md'"),
    ],
)
def test_a_problem_names_its_file_once(path: str, message: str, told: str) -> None:
    assert AgentProblem(path, message).told == told


def test_check_of_one_agent_tells_of_the_skills_that_it_names(agents: Path) -> None:
    inbox = write_agent("inbox", skills="[triage, gone]")
    write_agent("fine")
    skill = agents.parent / "skills" / "triage" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Sort it.")
    code, out, _ = treadle("agents", "check", "inbox", "--json")
    told = json.loads(out)
    assert (code, told["ok"], told["agents"]) == (1, False, [])
    assert [each["path"] for each in told["problems"]] == [str(skill), str(inbox)]
    assert "skills names gone, which is not there" in told["problems"][1]["message"]
    assert treadle("agents", "check", "fine") == (0, "nothing is wrong with fine\n", "")


def test_list_names_the_model_whose_key_is_missing_and_the_variable(agents: Path) -> None:
    write_agent("inbox", model="big", api_key_env="NO_SUCH_KEY_HERE", tools="[]")
    code, out, err = treadle("agents", "list")
    assert (code, err) == (0, "")
    assert "inbox  read_only  big (NO_SUCH_KEY_HERE is not set)  no tools\n" in out
    write_config('[models]\nmodel = "huge"\napi_key_env = "NO_SUCH_KEY_EITHER"\n')
    listed = json.loads(treadle("agents", "list", "--json")[1])["agents"]
    assert {each["name"]: (each["model"], each["missingVariable"]) for each in listed} == {
        "assistant": ("huge", "NO_SUCH_KEY_EITHER"),
        "inbox": ("big", "NO_SUCH_KEY_HERE"),
    }


def test_what_a_python_agent_prints_is_not_taken_for_what_a_command_says(agents: Path) -> None:
    treadle("agents", "new", "loud", "--python")
    path = agents / "loud.py"
    path.write_text("print('LOUD')\n" + path.read_text().partition("\n")[2])
    for words in (["agents", "list", "--json"], ["agents", "check", "--json"]):
        code, out, err = treadle(*words)
        assert (code, "LOUD" in err) == (0, True), err
        assert "loud" in str(json.loads(out)["agents"])
    code, out, err = treadle("call", "agent/list")
    assert (code, "LOUD" in out, "LOUD" in err) == (0, False, True)


def test_trust_is_given_listed_and_taken_back(project: Path, agents: Path) -> None:
    name = f"inbox@{tail_of(project)}"
    assert treadle("trust", "--list") == (0, "", "")
    file = project / ".treadle" / "agents" / "inbox.md"
    code, out, err = treadle("agents", "list", cwd=project)
    assert (code, name in out) == (0, False)
    assert f"then run: treadle trust {project}" in err
    for words in (["prompt", "-a", "inbox", "Hi."], ["agents", "check", "inbox"]):
        code, out, err = treadle(*words, cwd=project)
        assert (code, out) == (1, "")
        assert f"there is no agent 'inbox': the agents of {project} are not trusted" in err
    code, out, err = treadle("trust", ".", cwd=project)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{project} is trusted with these files as they are now:",
        f"  {Path('.treadle', 'agents', 'inbox.md')}",
        f"{name}  ask  virtual",
    ]
    assert name in treadle("agents", "list", cwd=project)[1]
    assert name not in treadle("agents", "list")[1]

    def state() -> str:
        code, out, _ = treadle("trust", "--list", "--json")
        (grant,) = json.loads(out)
        assert (code, grant["path"]) == (0, str(project))
        return str(grant["state"])

    assert state() == "trusted"
    file.write_text("Be evil.")
    assert state() == "changed"
    file.unlink()
    assert state() == "gone"
    removed = treadle("trust", "--remove", str(project))
    assert removed == (0, f"{project} is trusted no more\n", "")
    assert treadle("trust", "--list")[1] == ""
    assert treadle("trust", "--remove", str(project))[0] == 1


def test_there_is_nothing_to_trust_where_there_are_no_agents(tmp_path: Path) -> None:
    code, out, err = treadle("trust", str(tmp_path))
    assert (code, out) == (1, "")
    assert err.startswith(f"treadle: there are no agents in {tmp_path / '.treadle' / 'agents'}")
    for words in (["trust"], ["trust", "--list", "."], ["trust", "--remove"]):
        assert treadle(*words)[0] == 2


def test_a_check_tells_which_servers_cannot_be_started_here(agents: Path) -> None:
    write_config("[mcp_servers.shared]\ncommand = 'no-such-program'\n")
    servers = {
        "own": {"command": sys.executable},
        "shared": {},
        "unset": {"command": "${SD_UNSET}"},
    }
    path = write_agent("inbox", mcp_servers=json.dumps(servers))
    lost = write_agent("lost", mcp_servers="[wiki]")
    code, out, _ = treadle("agents", "check", "inbox")
    assert (code, out.splitlines()) == (
        1,
        [
            f"{path}: the MCP server shared of inbox: there is no program no-such-program",
            f"{path}: the MCP server unset of inbox: the MCP server unset: command refers to the "
            "variable SD_UNSET, which is not set; set it for the daemon, or write "
            "${SD_UNSET:-what to use instead}",
        ],
    )
    code, out, _ = treadle("agents", "check", "lost")
    assert (code, out) == (
        1,
        f"{lost}: the agent lost has the MCP server wiki, which config.toml does not declare. "
        "There are: shared; add a table [mcp_servers.wiki]\n",
    )
