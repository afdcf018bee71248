"""`treadle agents`: who can be prompted, which files are broken, and a new one to begin with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from treadle.agents.catalogue import AgentProblem, Catalogue
from treadle.agents.config import CONFIG_NAME, Config
from treadle.agents.definition import AgentDefinition
from treadle.agents.naming import check_new_name
from treadle.agents.own_folder import AGENTS_FOLDER
from treadle.cli import exit_codes
from treadle.cli.agent_files import current_workspace, quiet
from treadle.cli.agent_templates import MARKDOWN, PYTHON, Template
from treadle.cli.client import local_client
from treadle.cli.mcp.declared import servers_in, trouble
from treadle.cli.options import JsonOption
from treadle.cli.streams import say, tell, to_json
from treadle.errors import ConfigurationError
from treadle.folders import find_folders
from treadle.thread.files import O_NOFOLLOW, make_folder, open_existing, write_whole

app = typer.Typer(
    help="Agents: who can be prompted, and from which files they come.", no_args_is_help=True
)


@app.command("list")
def list_agents(as_json: JsonOption = False) -> None:
    """List every agent, and every agent file with a problem."""
    with quiet():
        listed = asyncio.run(_list())
    if as_json:
        print(to_json(listed))
        return
    for agent in listed["agents"]:
        tools = ", ".join(agent["tools"]) or "no tools"
        say(f"{agent['name']}  {agent['permissions']}  {_model(agent)}  {tools}")
        say(f"  {agent['description']}  ({agent['source']})")
    for problem in listed["problems"]:
        tell(f"problem: {AgentProblem(problem['path'], problem['message']).told}")


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="What the agent is to be called.")],
    python: Annotated[
        bool, typer.Option("--python", help="Write Python, for tools and layers of its own.")
    ] = False,
) -> None:
    """Write an agent's file to begin with, and print where it lies; nothing is overwritten."""
    check_new_name(name)
    folder = find_folders().config / AGENTS_FOLDER
    path = _write(folder, name, PYTHON if python else MARKDOWN)
    say(str(path))


@app.command("check")
def check(
    name: Annotated[
        str | None, typer.Argument(help="Only this agent; without it every file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Tell what is wrong with agent files and config.toml: file, line, and what is valid.

    Exit codes: 0 nothing is wrong; 1 something is.
    """
    catalogue = Catalogue(find_folders().config)
    with quiet():
        agents, problems = catalogue.list(current_workspace())
        if name is not None:
            agents = [each for each in agents if each.name == name]
            skills = {skill for agent in agents for skill in agent.skills}
            problems = [
                each
                for each in problems
                if catalogue.name_of(each.path) == name or catalogue.skill_of(each.path) in skills
            ]
            # Whatever has no problem has to be there.
            agents = [] if problems else [catalogue.find(name, current_workspace())]
        problems += asyncio.run(_servers_that_cannot_start(agents, catalogue))
    names = [agent.name for agent in agents]
    if as_json:
        print(to_json({"ok": not problems, "agents": names, "problems": [*map(_plain, problems)]}))
    else:
        for problem in problems:
            say(problem.told)
        if not problems:
            say(f"nothing is wrong with {', '.join(names)}")
    raise typer.Exit(exit_codes.FAILED if problems else exit_codes.OK)


async def _servers_that_cannot_start(
    agents: Sequence[AgentDefinition], catalogue: Catalogue
) -> list[AgentProblem]:
    """Tell which MCP servers of agents could not be started here; none is started."""
    config, _ = catalogue.config_state()
    file = find_folders().config / CONFIG_NAME
    found: list[AgentProblem] = []
    for each in servers_in(agents, config or Config(), file):
        # What nobody declares was told already; what no agent has is none of an agent's.
        if each.agent and not each.problem and (why := await trouble(each)):
            found.append(AgentProblem(each.agent.source, f"the MCP server {each.where}: {why}"))
    return found


async def _list() -> Any:
    async with local_client() as client:
        return await client.request("agent/list")


def _model(agent: dict[str, Any]) -> str:
    """Name an agent's model, and what it cannot be had without."""
    missing = agent.get("missingVariable")
    return (agent["model"] or "no model") + (f" ({missing} is not set)" if missing else "")


def _write(folder: Path, name: str, template: Template) -> Path:
    """Write a new agent's file, private, and return where it lies.

    Raises:
        ConfigurationError: there is such an agent already.
        OSError: it cannot be written.
    """
    make_folder(folder)
    for suffix in (MARKDOWN.suffix, PYTHON.suffix):
        if os.path.lexists(there := folder / f"{name}{suffix}"):
            raise ConfigurationError(f"{there} is there already; it is left as it is")
    path = folder / f"{name}{template.suffix}"
    descriptor = open_existing(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_NOFOLLOW)
    try:
        write_whole(descriptor, template.fill(name).encode())
    finally:
        os.close(descriptor)
    return path


def _plain(problem: AgentProblem) -> dict[str, str]:
    return {"path": problem.path, "message": problem.message}
