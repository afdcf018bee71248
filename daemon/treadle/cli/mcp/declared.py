"""The MCP servers that a person's files declare, where each is declared, and whether it is there.

Refuses to know how a file is read, and starts no server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from treadle.agents.catalogue import Catalogue
from treadle.agents.config import CONFIG_NAME, Config
from treadle.agents.definition import AgentDefinition
from treadle.cli.agent_files import current_workspace, quiet
from treadle.errors import ConfigurationError, InvalidAgent
from treadle.folders import Folders
from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.launching import CannotStart, filled, find_program
from treadle.tools.nearest import did_you_mean


@dataclass(frozen=True, slots=True)
class Declared:
    """A server where it is declared.

    Args:
        server: what is said of it there.
        source: the file that says it.
        agent: who has it; None for one of the configuration that no agent has.
        problem: what is wrong with it before it is looked for.
    """

    server: ServerDeclaration
    source: str
    agent: AgentDefinition | None = None
    problem: str = ""

    @property
    def where(self) -> str:
        """Name the server and who has it, in a few words."""
        return f"{self.server.name} of {self.agent.name}" if self.agent else self.server.name


def declared_servers(folders: Folders, agent: str | None = None) -> list[Declared]:
    """Return the servers of every agent and of the configuration, or of one agent.

    Raises:
        UnknownAgent, InvalidAgent: there is no such agent, or its file is broken.
    """
    catalogue = Catalogue(folders.config)
    with quiet():
        if agent is None:
            agents, _ = catalogue.list(current_workspace())
        else:
            agents = [catalogue.find(agent, current_workspace())]
        config = _config(catalogue)
    file = folders.config / CONFIG_NAME
    found = servers_in(agents, config, file)
    return [each for each in found if agent is None or each.agent is not None]


def servers_in(agents: Sequence[AgentDefinition], config: Config, file: Path) -> list[Declared]:
    """Return the servers of agents, then those of the configuration that none of them has.

    Args:
        agents: whose.
        config: what they may name.
        file: where that is written.
    """
    shared = {server.name: server for server in config.mcp_servers}
    found: list[Declared] = []
    for agent in agents:
        for one in agent.mcp_servers:
            if isinstance(one, ServerDeclaration):
                found.append(Declared(one, agent.source, agent))
            elif one in shared:
                found.append(Declared(shared[one], str(file), agent))
            else:
                problem = f"{file.name} does not declare it"
                found.append(Declared(ServerDeclaration(one), agent.source, agent, problem))
    used = {each.server.name for each in found if each.source == str(file)}
    return found + [
        Declared(server, str(file)) for name, server in shared.items() if name not in used
    ]


def named(servers: Sequence[Declared], name: str) -> Declared:
    """Return the server of this name.

    Raises:
        ConfigurationError: there is none, or several that differ.
    """
    meant = [each for each in servers if each.server.name == name]
    if not meant:
        names = sorted({each.server.name for each in servers})
        told = did_you_mean(name, names) or (f" There are: {', '.join(names)}." if names else "")
        raise ConfigurationError(f"no MCP server {name!r} is declared.{told}")
    if len({each.server.fingerprint for each in meant}) > 1:
        owners = ", ".join(each.agent.name for each in meant if each.agent)
        raise ConfigurationError(
            f"several servers are called {name!r}; say whose is meant: --agent, one of {owners}"
        )
    return meant[0]


async def trouble(declared: Declared) -> str:
    """Say why a server cannot be started; nothing where it may well be."""
    if declared.problem:
        return declared.problem
    try:
        server = filled(declared.server)
    except CannotStart as error:
        return str(error)
    if server.command is None:
        return ""
    if server.cwd and not await asyncio.to_thread(Path(server.cwd).is_dir):
        return f"there is no folder {server.cwd}"
    program, _ = await find_program(server.command)
    return "" if program else f"there is no program {server.command}"


def _config(catalogue: Catalogue) -> Config:
    """Return the configuration; where it is broken, the doctor and `agents check` tell that."""
    try:
        return catalogue.config()
    except InvalidAgent:
        return Config()
