"""Every agent there is: the person's, the built-in one, and those of trusted workspaces.

Owns who goes before whom, and when files are read again: at each question. A workspace's agent
has the name `<name>@<workspace>`, which no file of the person's loses to.
Every method blocks on the disk for a moment; call them in a worker thread.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from treadle.agents.builtin import ASSISTANT
from treadle.agents.cached_file import CachedFile, ReadFile
from treadle.agents.config import CONFIG_NAME, Config, parse_config
from treadle.agents.definition import AgentDefinition
from treadle.agents.naming import MARKDOWN_SUFFIX, SUFFIXES
from treadle.agents.own_folder import OwnFolder
from treadle.agents.servers import servers_of
from treadle.agents.skills import SkillFolder
from treadle.agents.trust import Trust
from treadle.agents.workspace import (
    WORKSPACE_AGENTS,
    Workspace,
    define,
    full_name,
    placed,
    read_workspace,
    tail_of,
)
from treadle.errors import InvalidAgent, UnknownAgent
from treadle.mcp.expansion import secret_variables
from treadle.secrets import hold
from treadle.thread.message import clean
from treadle.tools.nearest import did_you_mean
from treadle.tools.skill import SKILL_FILE
from treadle.tools.skills import Skill

# Workspaces whose names are kept to explain why an agent of theirs cannot be had.
_MOST_MET = 100

# More names than these help nobody to find the one that was meant.
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class AgentProblem:
    """A file that cannot be used as it stands, and why.

    Args:
        path: the file, or the folder that it lies in.
        message: what is wrong and what is valid.
        how: the command that mends it, where there is one.
    """

    path: str
    message: str
    how: str = ""

    @property
    def told(self) -> str:
        """Both in one line; a message that begins with the end of the path does not repeat it."""
        parts = Path(self.path).parts
        for tail in (self.path, *("/".join(parts[at:]) for at in range(1, len(parts)))):
            rest = self.message.removeprefix(tail)
            if rest != self.message and rest.startswith((":", ",", " ")):
                return f"{self.path}{rest}"
        return f"{self.path}: {self.message}"


# `Catalogue.list` is a method, so the type needs another name inside that class.
_Broken: TypeAlias = list[InvalidAgent]


class Catalogue:
    """The agents and the configuration in a config folder, which need not exist."""

    def __init__(self, config: Path) -> None:
        self.trust = Trust(config)
        self._own = OwnFolder(config)
        self._skills = SkillFolder(config)
        self._config_file = CachedFile(config / CONFIG_NAME, _parse_config)
        self._defined: dict[Path, _Defined] = {}
        self._met: dict[str, Path] = {}
        self._lock = threading.Lock()

    def find(self, name: str, workspaces: Iterable[Path] = ()) -> AgentDefinition:
        """Return an agent as its file says now, or as it last said in a form that can be used.

        Args:
            name: its whole name.
            workspaces: the folders whose own agents may have been meant.

        Raises:
            UnknownAgent: there is no such agent; the message names the nearest ones, or what
                makes a workspace's agent one.
            InvalidAgent: its file is broken and never was good.
        """
        with self._lock:
            files, _ = self._own.look()
            if name in files:
                return self._own.get(files[name])
            if name == ASSISTANT.name:
                return ASSISTANT
            if "@" in name and (found := self._in_workspaces(name)):
                return found
            here = [*self._here(workspaces)]
        if meant := next((each for each in here if name in each.agent_files), None):
            raise UnknownAgent(f"there is no agent {name!r}{self._whole_name(name, meant)}")
        trusted = [each for each in here if self._is_trusted(each)]
        theirs = [full_name(stem, each.folder) for each in trusted for stem in each.agent_files]
        raise UnknownAgent(
            f"there is no agent {name!r}.{_guess(name, [ASSISTANT.name, *files, *theirs])} "
            f"An agent is a file <name>{MARKDOWN_SUFFIX} in {self._own.path}"
        )

    def list(
        self, workspaces: Iterable[Path] = ()
    ) -> tuple[list[AgentDefinition], list[AgentProblem]]:
        """Return every agent by name, and every problem of the files that should be some.

        Args:
            workspaces: the folders whose own agents are listed too, where they are trusted.
        """
        with self._lock:
            agents = {ASSISTANT.name: ASSISTANT}
            problems = [*self._config_problems()]
            for folder in workspaces:
                found, wrong = self._of_workspace(folder)
                agents |= found
                problems += wrong
            try:
                files, unused = self._own.look()
            except InvalidAgent as unlisted:
                files, unused = {}, [unlisted]
            problems += map(_problem, unused)
            for name, file in files.items():
                good, error = self._own.read(file)
                problems += [_problem(error)] if error else ()
                agents.pop(name, None)
                agents |= {name: good} if good else {}
            problems += map(_problem, self._skills.problems(agents.values()))
            problems += self._server_problems(agents.values())
        return [agents[name] for name in sorted(agents)], problems

    def skills(self, names: Sequence[str]) -> tuple[Skill, ...]:
        """Return those of these skills that can be used; `list` tells what is wrong with others."""
        with self._lock:
            return self._skills.find(names)

    def untrusted(self, workspaces: Iterable[Path]) -> Sequence[Workspace]:
        """Return the workspaces that have agents and are not trusted as they are now."""
        found = []
        for folder in workspaces:
            try:
                workspace = read_workspace(folder)
            except InvalidAgent:
                # One of the problems that are listed; there is nothing that could be trusted.
                continue
            if workspace and not self._is_trusted(workspace):
                found.append(workspace)
        return found

    def config(self) -> Config:
        """Return the person's configuration; the defaults where there is no file.

        Raises:
            InvalidAgent: `config.toml` is broken and never was good.
        """
        with self._lock:
            return self._config_file.get(default=Config())

    def config_state(self) -> tuple[Config | None, str]:
        """Return the configuration in use, if any, and what is wrong with its file."""
        with self._lock:
            config, error = self._config_file.read(default=Config())
            return config, error.message if error else ""

    def name_of(self, path: str) -> str | None:
        """Return the name of the agent that a file is, if it may be one's."""
        file = Path(path)
        if file.suffix not in SUFFIXES:
            return None
        if file.parent == self._own.path:
            return file.stem
        folder = file.parent.parent.parent
        is_workspaces = file.parent == folder / WORKSPACE_AGENTS
        return full_name(file.stem, folder) if is_workspaces else None

    def skill_of(self, path: str) -> str | None:
        """Return the name of the skill that a file is, if it may be one's."""
        file = Path(path)
        is_skill = file.name == SKILL_FILE and file.parent.parent == self._skills.path
        return file.parent.name if is_skill else None

    def _here(self, workspaces: Iterable[Path]) -> Iterator[Workspace]:
        """Read those of some folders, and of the workspaces met before, that have agents."""
        folders = {os.path.realpath(each): None for each in (*workspaces, *self._met.values())}
        for folder in folders:
            # One that cannot be read is one of the problems that are listed.
            with contextlib.suppress(InvalidAgent):
                if workspace := read_workspace(Path(folder)):
                    yield workspace

    def _whole_name(self, name: str, workspace: Workspace) -> str:
        """Say what makes an agent of a workspace one, or how it is called; it ends a sentence."""
        if not self._is_trusted(workspace):
            return f": {self._untrusted(workspace)}"
        return f"; that of {workspace.folder} is called {full_name(name, workspace.folder)}"

    def _is_trusted(self, workspace: Workspace) -> bool:
        return self.trust.holds(workspace.folder, workspace.digest)

    def _in_workspaces(self, name: str) -> AgentDefinition | None:
        """Return a workspace's agent, from wherever it is asked for; None where nothing is known.

        Raises:
            UnknownAgent: its workspace is not trusted, or has no such agent.
            InvalidAgent: its file is broken.
        """
        tail = name.rpartition("@")[2]
        known = [*map(Path, (grant.path for grant in self.trust.list())), *self._met.values()]
        folder = next((each for each in known if tail_of(each) == tail), None)
        workspace = read_workspace(folder) if folder else None
        if workspace is None or folder is None:
            return None
        if not self._is_trusted(workspace):
            raise UnknownAgent(f"there is no agent {name!r}: {self._untrusted(workspace)}")
        agents, problems = self._definitions(workspace)
        if name in agents:
            return agents[name]
        stem = name.rpartition("@")[0]
        if broken := next((each for each in problems if _stem(each) == stem), None):
            raise InvalidAgent(broken.message, path=broken.data["path"])
        raise UnknownAgent(f"there is no agent {name!r}.{did_you_mean(name, agents)}")

    def _of_workspace(
        self, folder: Path
    ) -> tuple[dict[str, AgentDefinition], Sequence[AgentProblem]]:
        """Return a workspace's agents by name, and what is wrong with them."""
        try:
            workspace = read_workspace(folder)
        except InvalidAgent as error:
            return {}, [_problem(error)]
        if workspace is None:
            return {}, ()
        if len(self._met) < _MOST_MET:
            self._met[tail_of(workspace.folder)] = workspace.folder
        if not self._is_trusted(workspace):
            message = self._untrusted(workspace)
            how = trust_command(workspace.folder)
            return {}, [AgentProblem(clean(str(workspace.agents_folder)), clean(message), how)]
        agents, problems = self._definitions(workspace)
        return agents, [*map(_problem, problems)]

    def _definitions(self, workspace: Workspace) -> tuple[dict[str, AgentDefinition], _Broken]:
        """Return what a trusted workspace defines; parsed and run once for what it holds."""
        known = self._defined.get(workspace.folder)
        if known is None or known.digest != workspace.digest:
            known = _Defined(workspace.digest, *define(workspace))
            self._defined[workspace.folder] = known
            for each in known.agents.values():
                hold(*each.secret_variables)
        agents, problems = {}, [*known.problems]
        for name, agent in known.agents.items():
            try:
                agents[name] = placed(agent)
            except InvalidAgent as error:
                problems.append(error)
        return agents, problems

    def _untrusted(self, workspace: Workspace) -> str:
        """Say that a workspace is not trusted, and what trusts it."""
        changed = self.trust.of(workspace.folder) is not None
        why = "have changed since they were trusted" if changed else "are not trusted"
        command = trust_command(workspace.folder)
        return f"the agents of {workspace.folder} {why}; look at them, then run: {command}"

    def _config_problems(self) -> Sequence[AgentProblem]:
        config, error = self._config_file.read(default=Config())
        notices = config.notices if config else ()
        problems = [AgentProblem(str(self._config_file.path), notice) for notice in notices]
        return [*problems, _problem(error)] if error else problems

    def _server_problems(self, agents: Iterable[AgentDefinition]) -> Iterator[AgentProblem]:
        """Tell which agents name MCP servers that the configuration does not declare."""
        config, _ = self._config_file.read(default=Config())
        for agent in agents if config else ():
            try:
                servers_of(agent, config or Config())
            except InvalidAgent as error:
                yield _problem(error)


def trust_command(folder: Path) -> str:
    """Return the command that trusts a workspace."""
    return f"treadle trust {shlex.quote(clean(str(folder)))}"


def _guess(name: str, names: Sequence[str]) -> str:
    """Name the agents that may have been meant; where none is near, some that there are."""
    if near := did_you_mean(name, names):
        return near
    more = ", …" if len(names) > _MOST_NAMED else ""
    return f" There are: {', '.join(names[:_MOST_NAMED])}{more}."


@dataclass(frozen=True, slots=True)
class _Defined:
    """What a workspace defined when its files were these."""

    digest: str
    agents: dict[str, AgentDefinition]
    problems: _Broken


def _stem(error: InvalidAgent) -> str:
    return Path(error.data["path"]).stem


def _parse_config(path: Path, data: bytes, read: ReadFile) -> Config:
    config = parse_config(path, data)
    search_key = config.search.api_key_env if config.search else None
    _hold(config.models.api_key_env, search_key, *config.secrets.names)
    for server in config.mcp_servers:
        hold(*secret_variables(server))
    return config


def _hold(*names: str | None) -> None:
    hold(*(name for name in names if name is not None))


def _problem(error: InvalidAgent) -> AgentProblem:
    """Make a problem of an error; a file name may hold bytes that are no text."""
    return AgentProblem(clean(str(error.data["path"])), clean(error.message))
