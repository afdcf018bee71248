"""The agents there are: the files of the config folder and the built-in one.

Owns when a file is read again, and that a broken one is a problem and never a crash: the last
good definition stays in use. Variables that these files name as secret are held as such from the
moment a file is read. Every method blocks on the disk for a moment; call them in a worker thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from treadle.agents.builtin import ASSISTANT
from treadle.agents.cached_file import CachedFile, unreadable
from treadle.agents.config import CONFIG_NAME, Config, parse_config
from treadle.agents.definition import AgentDefinition
from treadle.agents.markdown import parse_agent
from treadle.errors import InvalidAgent, InvalidParams, UnknownAgent
from treadle.secrets import hold
from treadle.thread.message import clean
from treadle.thread.paths import validate_name
from treadle.tools.nearest import did_you_mean

AGENTS_FOLDER = "agents"
AGENT_SUFFIX = ".md"


@dataclass(frozen=True, slots=True)
class AgentProblem:
    """A file that cannot be used as it stands, and why."""

    path: str
    message: str


class Catalogue:
    """The agents and the configuration in a config folder, which need not exist.

    Two files whose names differ only by case are two agents, where the file system holds both;
    a name is always taken exactly as its file spells it.
    """

    def __init__(self, config: Path) -> None:
        self._agents_folder = config / AGENTS_FOLDER
        self._config_file = CachedFile(config / CONFIG_NAME, _parse_config)
        self._agent_files: dict[str, CachedFile[AgentDefinition]] = {}
        self._lock = threading.Lock()

    def find(self, name: str) -> AgentDefinition:
        """Return an agent as its file says now, or as it last said in a form that can be used.

        Raises:
            UnknownAgent: there is no such agent; the message names the nearest ones.
            InvalidAgent: its file is broken and never was good.
        """
        with self._lock:
            names = self._names()
            if name in names:
                return self._file(name).get()
            if name == ASSISTANT.name:
                return ASSISTANT
            self._agent_files.pop(name, None)
        guess = did_you_mean(name, [*names, ASSISTANT.name])
        raise UnknownAgent(
            f"there is no agent {name!r}.{guess} "
            f"An agent is a file <name>{AGENT_SUFFIX} in {self._agents_folder}"
        )

    def list(self) -> tuple[list[AgentDefinition], list[AgentProblem]]:
        """Return every agent by name, and every problem of the config folder's files."""
        with self._lock:
            agents = {ASSISTANT.name: ASSISTANT}
            problems = [*self._config_problems()]
            try:
                names = self._names()
            except InvalidAgent as unlisted:
                return [*agents.values()], [*problems, _problem(unlisted)]
            for name in names:
                good, error = self._file(name).read()
                problems += [_problem(error)] if error else ()
                agents.pop(name, None)
                agents |= {name: good} if good else {}
        return [agents[name] for name in sorted(agents)], problems

    def config(self) -> Config:
        """Return the person's configuration; the defaults where there is no file.

        Raises:
            InvalidAgent: `config.toml` is broken and never was good.
        """
        with self._lock:
            return self._config_file.get(default=Config())

    def _names(self) -> Sequence[str]:
        """Return the names of all agent files, sorted; hidden files and other kinds are none.

        Raises:
            InvalidAgent: the folder is there and cannot be listed.
        """
        try:
            files = os.listdir(self._agents_folder)  # noqa: PTH208 - names are wanted, not paths
        except FileNotFoundError:
            return []
        except OSError as error:
            raise unreadable(self._agents_folder, error) from error
        return sorted(
            file.removesuffix(AGENT_SUFFIX)
            for file in files
            if file.endswith(AGENT_SUFFIX) and not file.startswith(".")
        )

    def _file(self, name: str) -> CachedFile[AgentDefinition]:
        if name not in self._agent_files:
            path = self._agents_folder / f"{name}{AGENT_SUFFIX}"
            self._agent_files[name] = CachedFile(path, _parse_named)
        return self._agent_files[name]

    def _config_problems(self) -> Sequence[AgentProblem]:
        config, error = self._config_file.read(default=Config())
        notices = config.notices if config else ()
        problems = [AgentProblem(str(self._config_file.path), notice) for notice in notices]
        return [*problems, _problem(error)] if error else problems


def _parse_named(path: Path, data: bytes) -> AgentDefinition:
    """Parse an agent's file whose name can be an agent's.

    Raises:
        InvalidAgent: the file or its name is wrong.
    """
    try:
        validate_name(path.stem, "the file's name")
    except InvalidParams as error:
        raise InvalidAgent(f"{error.message}; rename {path.name!r}", path=str(path)) from error
    agent = parse_agent(path, data)
    _hold(agent.api_key_env)
    return agent


def _parse_config(path: Path, data: bytes) -> Config:
    config = parse_config(path, data)
    search_key = config.search.api_key_env if config.search else None
    _hold(config.models.api_key_env, search_key, *config.secrets.names)
    return config


def _hold(*names: str | None) -> None:
    hold(*(name for name in names if name is not None))


def _problem(error: InvalidAgent) -> AgentProblem:
    """Make a problem of an error; a file name may hold bytes that are no text."""
    return AgentProblem(clean(str(error.data["path"])), clean(error.message))
