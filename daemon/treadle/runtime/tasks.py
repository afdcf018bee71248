"""The tasks of one session: who may do them, how many, under which number and with which rights.

Whatever a sub-agent may do, its parent may do in this very turn: `agents/delegation` narrows what
it is, and everything else it is given is the parent's own. It takes no place among the daemon's
turns, for its parent has one. Refuses to know how a task's turn runs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from treadle.agents.config import Config
from treadle.agents.definition import AgentDefinition
from treadle.agents.delegation import CannotWorkFor, check_model, within
from treadle.agents.model_choice import choose_model
from treadle.agents.options import advertised_tools
from treadle.agents.servers import servers_of
from treadle.errors import RequestFailed, UnknownAgent
from treadle.mcp.session_servers import SessionServers
from treadle.models.spec import ModelSpec
from treadle.permissions.approvals import Approvals
from treadle.runtime.approver import TurnApprover, TurnAsker
from treadle.runtime.compactors import Compactors
from treadle.runtime.outbox import Pair
from treadle.runtime.respondent import Respondent
from treadle.runtime.said import spill_of
from treadle.runtime.sampler import TurnSampler
from treadle.runtime.services import Services
from treadle.runtime.stored import TASKS_OF_TURN, BegunTask, begin_task, last_task
from treadle.runtime.task_turn import TaskTurn
from treadle.sandbox.sandbox import Sandbox
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.thread import Thread
from treadle.tools.delegate import CannotDelegate, TaskEnded
from treadle.tools.nearest import did_you_mean
from treadle.tools.session import ToolSession
from treadle.tools.skills import Skill
from treadle.tools.tool import Tool, ToolSource
from treadle.turn.agent import Agent
from treadle.turn.default import default_agent
from treadle.turn.env import Env
from treadle.turn.max_iterations import ModelCalls

# Each has a thread that stays as long as its session's; a list of more is nobody's.
TASKS_OF_SESSION = 1000


@dataclass(slots=True)
class ParentTurn:
    """What the turn that gives tasks may do itself.

    Args:
        definition: its agent, as the session's options and its place let it be.
        tools: what its model is told of.
        sandbox: where those act.
        sandbox_at: makes one at a folder that lies within its own.
        config: the person's configuration.
        calls: the model calls that it has left.
        max_turns: how many it had.
        servers: the MCP servers of its session.
    """

    definition: AgentDefinition
    tools: Sequence[Tool]
    sandbox: Sandbox
    sandbox_at: Callable[[Path], Sandbox]
    config: Config
    calls: ModelCalls
    max_turns: int
    servers: SessionServers
    env: Env | None = field(default=None, init=False)
    given: int = field(default=0, init=False)


@dataclass(frozen=True, slots=True)
class Worker:
    """Who does a task: an agent as it may work for its parent, its model and its skills."""

    definition: AgentDefinition
    spec: ModelSpec
    skills: tuple[Skill, ...]


class Tasks:
    """Gives tasks on behalf of a session's turns; see `tools.delegate.Delegate`.

    Args:
        pair: whose session.
        services: the daemon's.
        thread: the session's.
        tools: the session's tools' side.
        respondent: who answers for the person, to a sub-agent as well.
    """

    def __init__(
        self,
        pair: Pair,
        services: Services,
        thread: Thread,
        tools: ToolSession,
        respondent: Respondent,
    ) -> None:
        self._pair = pair
        self._services = services
        self._is_kept = thread.path is not None
        self._tools = tools
        self._respondent = respondent
        self._turn: ParentTurn | None = None
        self._running: set[TaskTurn] = set()
        self._numbering = asyncio.Lock()
        self._last_number: int | None = None
        self._is_closed = False

    def begin(self, agent: Agent, turn: ParentTurn) -> None:
        """Give tasks on behalf of this turn from now on, which `agent` is to run."""

        def started(env: Env, _: object) -> None:
            turn.env = env

        agent.on("turn", started)
        self._turn = turn

    async def run(self, prompt: str, agent: str | None) -> TaskEnded:
        """Run a task to its end; see the seam."""
        turn = self._turn
        if turn is None or turn.env is None or self._is_closed:
            raise CannotDelegate("This session gives no tasks now.")
        if turn.given >= TASKS_OF_TURN:
            raise CannotDelegate(f"A turn can give {TASKS_OF_TURN} tasks: do the rest yourself.")
        if turn.calls.left < 2:
            raise CannotDelegate("No model calls are left for a task: answer with what you have.")
        turn.given += 1
        worker = await asyncio.to_thread(self._worker, turn, agent)
        begun = await self._begin(worker.definition.name)
        running = self._prepared(turn, turn.env, worker, begun)
        self._running.add(running)
        try:
            return await running.run(prompt)
        finally:
            self._running.discard(running)

    async def close(self) -> None:
        """Stop what runs; see the seam."""
        self._is_closed = True
        await asyncio.gather(*(running.stop() for running in tuple(self._running)))

    def _worker(self, turn: ParentTurn, name: str | None) -> Worker:
        """Return who does a task.

        Raises:
            CannotDelegate: there is no such agent, or it cannot work for this one.
        """
        catalogue, parent = self._services.catalogue, turn.definition
        try:
            own = parent if name in (None, parent.name) else catalogue.find(name or "")
            definition = within(own, parent, turn.tools)
            spec = choose_model(definition, turn.config, os.environ)
            check_model(definition, parent, spec)
        except CannotWorkFor as error:
            raise CannotDelegate(str(error)) from error
        except UnknownAgent as error:
            names = [agent.name for agent in catalogue.list()[0]]
            guess = did_you_mean(name or "", names)
            raise CannotDelegate(
                f"There is no agent {name!r}.{guess} There are: {', '.join(names)}."
            ) from error
        except RequestFailed as error:
            raise CannotDelegate(f"The agent {name} cannot do it: {error.message}") from error
        is_embedded = spec.kind == "embedded"
        skills = () if is_embedded else catalogue.skills(definition.skills)
        there = tuple(skill.name for skill in skills)
        return Worker(replace(definition, skills=there), spec, skills)

    async def _begin(self, agent: str) -> BegunTask:
        """Begin the next task's thread.

        Raises:
            CannotDelegate: the session has given enough of them, or no thread can be begun.
        """
        async with self._numbering:
            if self._last_number is None:
                self._last_number = await asyncio.to_thread(last_task, self._pair, self._services)
            if self._last_number >= TASKS_OF_SESSION:
                raise CannotDelegate(
                    f"This session has given {TASKS_OF_SESSION} tasks: do the rest yourself."
                )
            self._last_number += 1
            try:
                begun = await asyncio.to_thread(
                    begin_task,
                    self._pair,
                    agent,
                    self._last_number,
                    self._services,
                    is_kept=self._is_kept,
                )
            except RequestFailed as error:
                raise CannotDelegate(f"A task cannot begin now: {error.message}") from error
            self._last_number = begun.number
        return begun

    def _prepared(self, turn: ParentTurn, env: Env, worker: Worker, begun: BegunTask) -> TaskTurn:
        """Build a task's turn; nothing of it runs yet."""
        definition, config = worker.definition, turn.config
        sandbox = _sandbox(turn, definition)
        tools = self._tool_session(turn, sandbox, begun)
        tools.skills = worker.skills
        limit = min(definition.max_turns or turn.max_turns, turn.max_turns)
        completion, calls = (
            self._services.models.completion(worker.spec),
            ModelCalls(limit, within=turn.calls),
        )
        agent = default_agent(
            thread=begun.thread,
            instructions=definition.instructions,
            max_turns=limit,
            tools=[tool for tool in advertised_tools(definition, config) if tool in turn.tools],
            sandbox=sandbox,
            policy=definition.policy,
            session=tools,
            completion=completion,
            max_retries=config.models.max_retries,
            own_layers=definition.own_layers,
            skills=worker.skills,
            calls=calls,
            source=_source(turn, worker),
            compactor=Compactors(self._services.models).get(
                definition, worker.spec, config, completion
            ),
        )
        tools.sampler = TurnSampler(completion, calls, worker.spec.model, begun.pair, agent)
        name, session_id = definition.name, "/".join(begun.pair)
        return TaskTurn(begun.number, name, begun.thread, tools, agent, session_id, env)

    def _tool_session(self, turn: ParentTurn, sandbox: Sandbox, begun: BegunTask) -> ToolSession:
        """Make a task's own side of the tools; the person and the lock are its session's."""
        approver = TurnApprover(self._respondent, begun.thread)
        tools = ToolSession(
            approvals=Approvals(approver, self._respondent.granted),
            spill=spill_of(begun.thread),
            asker=TurnAsker(self._respondent),
        )
        tools.task = begun.number
        tools.writing = self._tools.writing
        tools.web.search = turn.config.search
        if sandbox is not turn.sandbox:
            tools.elsewhere = str(sandbox.folder or f"the files of task {begun.number}")
        return tools


def _source(turn: ParentTurn, worker: Worker) -> ToolSource | None:
    """Return what brings the tools of those MCP servers of the parent's that are its own too."""
    definition = worker.definition
    declared = servers_of(definition, turn.config)
    if not declared or worker.spec.kind == "embedded":
        return None
    return turn.servers.source(declared, definition.policy, definition.mcp_tools)


def _sandbox(turn: ParentTurn, definition: AgentDefinition) -> Sandbox:
    """Return where a task's tools act: where its parent's do, or in less of it."""
    parent = turn.definition
    if definition.name == parent.name or definition.cwd is not None:
        is_same = definition.sandbox == parent.sandbox and (
            definition.cwd is None
            or parent.cwd is None
            or os.path.realpath(definition.cwd) == os.path.realpath(parent.cwd)
        )
        if is_same:
            return turn.sandbox
    return VirtualSandbox() if definition.cwd is None else turn.sandbox_at(definition.cwd)
