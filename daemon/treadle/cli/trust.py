"""`treadle trust`: which projects' own agents may be used.

Owns what a person types and sees of it. Refuses to know where trust is kept.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from treadle.agents.catalogue import Catalogue
from treadle.agents.trust import Grant, Trust
from treadle.agents.workspace import WORKSPACE_AGENTS, read_workspace
from treadle.cli import exit_codes
from treadle.cli.agent_files import quiet
from treadle.cli.options import JsonOption
from treadle.cli.streams import say, tell, to_json
from treadle.errors import ConfigurationError, InvalidAgent
from treadle.folders import find_folders


def trust(
    path: Annotated[Path | None, typer.Argument(help="A project's folder.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List what is trusted.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Trust the folder no more.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Trust the agents in a project's .treadle/agents as they are now.

    Look at them first: they may hold Python that runs as you, and may name any permission, any
    program that is started as an MCP server, any of your keys and whom they are sent to.
    When they change, they are not used until they are trusted anew.
    """
    catalogue = Catalogue(find_folders().config)
    if list_ and path is None and not remove:
        _list(catalogue.trust, as_json=as_json)
    elif path is None or list_:
        raise typer.BadParameter("name one folder, or --list alone", param_hint="PATH")
    elif remove:
        _remove(catalogue.trust, Path(os.path.realpath(path)))
    else:
        _give(catalogue, path)


def _list(trust: Trust, *, as_json: bool) -> None:
    grants = [
        {"path": grant.path, "at": grant.at, "state": _state(grant)} for grant in trust.list()
    ]
    if as_json:
        print(to_json(grants))
        return
    for each in grants:
        say(f"{each['path']}  {each['state']}  since {each['at']}")


def _state(grant: Grant) -> str:
    """Tell whether what was trusted is still what is there."""
    try:
        workspace = read_workspace(Path(grant.path))
    except InvalidAgent:
        return "changed"
    if workspace is None:
        return "gone"
    return "trusted" if workspace.digest == grant.digest else "changed"


def _give(catalogue: Catalogue, path: Path) -> None:
    workspace = read_workspace(path)
    if workspace is None:
        raise ConfigurationError(f"there are no agents in {path / WORKSPACE_AGENTS}")
    catalogue.trust.give(workspace.folder, workspace.digest)
    with quiet():
        agents, problems = catalogue.list([workspace.folder])
    say(f"{workspace.folder} is trusted with these files as they are now:")
    for file in workspace.files:
        say(f"  {WORKSPACE_AGENTS / file}")
    for agent in agents:
        if agent.workspace == workspace.folder:
            say(f"{agent.name}  {agent.permissions}  {agent.sandbox}")
    for problem in problems:
        if Path(problem.path).is_relative_to(workspace.folder):
            tell(f"problem: {problem.path}: {problem.message}")


def _remove(trust: Trust, folder: Path) -> None:
    if not trust.take_back(folder):
        tell(f"treadle: {folder} was not trusted")
        raise typer.Exit(exit_codes.FAILED)
    say(f"{folder} is trusted no more")
