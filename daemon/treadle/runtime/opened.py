"""What a session holds while it is open, and how that is got and given back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from treadle.agents.config import Config
from treadle.agents.definition import AgentDefinition, SandboxKind
from treadle.agents.model_choice import choose_model
from treadle.agents.options import SessionOptions, advertised_tools, narrow
from treadle.agents.servers import servers_of
from treadle.compaction.compactor import Compactor
from treadle.compaction.counting import tokens_of, tokens_of_tools
from treadle.errors import OptionsDiffer
from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.session_servers import SessionServers
from treadle.mcp.status import ServerEnd, ServerStatus
from treadle.models.completion import Completion
from treadle.models.spec import ModelSpec
from treadle.permissions.approvals import Approvals
from treadle.runtime.approver import TurnApprover, TurnAsker
from treadle.runtime.compactors import Compactors
from treadle.runtime.outbox import Pair
from treadle.runtime.respondent import Respondent
from treadle.runtime.said import spill_of
from treadle.runtime.sampler import TurnSampler
from treadle.runtime.services import Services
from treadle.runtime.stored import end_interrupted_tasks, open_stored
from treadle.runtime.tasks import ParentTurn, Tasks
from treadle.sandbox.local import LocalSandbox
from treadle.sandbox.overlay import Buffers, Overlay
from treadle.sandbox.sandbox import Sandbox
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.message import Message
from treadle.thread.thread import Thread
from treadle.tools.builtin import BUILTIN
from treadle.tools.commands.running import JobEnd
from treadle.tools.pipeline import DEFAULT
from treadle.tools.session import ToolSession
from treadle.tools.skills import Skill
from treadle.tools.tool import ToolSource
from treadle.turn.agent import Agent
from treadle.turn.default import default_agent
from treadle.turn.max_iterations import ModelCalls
from treadle.turn.skills import listed
from treadle.turn.steering import Inbox

# Model calls of one prompt where neither the prompt nor the agent says.
DEFAULT_MAX_TURNS = 25


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a pair is open: what the client asked for, and the folder it works in.

    They are fixed until the pair is closed, also while nothing is held for it.

    Args:
        options: what the client asked for.
        cwd: where its tools work.
        follows: that is the client's own folder, for an agent that works in one and names none.
    """

    options: SessionOptions
    cwd: Path | None
    follows: bool = False

    def is_left_by(self, folder: Path | None) -> bool:
        """Whether a client that works in `folder` would have the session work elsewhere."""
        return self.follows and None not in (folder, self.cwd) and folder != self.cwd

    def require(self, wanted: SessionOptions) -> None:
        """Refuse options other than those that are held to.

        Raises:
            OptionsDiffer: with the first that differs.
        """
        if difference := wanted.difference(self.options):
            field, is_, asked = difference
            now = f"without {field}" if is_ is None else f"with {field} {is_!r}"
            raise OptionsDiffer(
                f"the session is open {now}; close it to change that",
                field=field,
                is_=is_,
                wanted=asked,
            )


@dataclass(frozen=True, slots=True)
class Place:
    """Where tools act: the sandbox, and the agent's word and the folder that it was made by."""

    kind: SandboxKind
    cwd: Path | None
    sandbox: Sandbox

    @classmethod
    def of(cls, kind: SandboxKind, cwd: Path | None) -> Place:
        """Make a place; a local sandbox without a folder is a virtual one."""
        if kind == "local" and cwd is not None:
            return cls(kind, cwd, LocalSandbox(cwd))
        return cls(kind, cwd, VirtualSandbox())

    def seen_through(self, buffers: Buffers | None) -> Sandbox:
        """Return the sandbox as an editor shows it, where it is one that an editor can see."""
        if buffers is None or self.sandbox.folder is None:
            return self.sandbox
        return Overlay(self.sandbox, buffers)


@dataclass(frozen=True, slots=True)
class Released:
    """What a session's tools held: commands and MCP servers that were stopped, how each ended."""

    jobs: tuple[JobEnd, ...] = ()
    servers: tuple[ServerEnd, ...] = ()


class Opened:
    """An open session's thread, place, MCP servers and model.

    The thread comes from the record; everything else comes from the agent, anew at each turn,
    but for the folder, which is fixed when the pair opens.

    Args:
        pair: whose session.
        services: the daemon's.
        terms: on what it is open.
        place: where its tools act.
        thread: the pair's.
        respondent: whom its turns can ask.
        servers: the MCP servers that it has.
        declared: those that its agent declared when it was opened.
        idle_seconds: how long it is held without being used.
    """

    def __init__(
        self,
        pair: Pair,
        services: Services,
        terms: Terms,
        place: Place,
        thread: Thread,
        respondent: Respondent,
        servers: SessionServers,
        declared: tuple[ServerDeclaration, ...],
        idle_seconds: float,
    ) -> None:
        self.terms = terms
        self.servers = servers
        self.thread = thread
        self.idle_seconds = idle_seconds
        self._pair = pair
        self._services = services
        self._place = place
        self._declared = declared
        self._tools = ToolSession(
            approvals=Approvals(TurnApprover(respondent, thread), respondent.granted),
            spill=spill_of(thread),
            asker=TurnAsker(respondent),
        )
        self._tasks = Tasks(pair, services, thread, self._tools, respondent)
        self._tools.delegate = self._tasks
        self._model: tuple[ModelSpec, Completion] | None = None
        self._compactors = Compactors(services.models)

    async def begin(self) -> None:
        """Start what is to begin with the session."""
        await self.servers.use(self._declared, self._place.sandbox.folder, BUILTIN)

    async def agent(
        self, max_turns: int | None, inbox: Inbox, buffers: Buffers | None = None
    ) -> Agent:
        """Build the agent for one turn from its definition as it stands now.

        Args:
            max_turns: the prompt's own bound on model calls.
            inbox: what is said to the turn while it runs.
            buffers: what is open in the editor of whoever prompts.

        Raises:
            RequestFailed: the agent is gone or broken, or no model can answer.
        """
        definition, spec, config, skills = await asyncio.to_thread(self._definition, max_turns)
        self._tools.web.search, self._tools.skills = config.search, skills
        if definition.sandbox != self._place.kind:
            self._place = Place.of(definition.sandbox, self._place.cwd)
        definition = self._as_placed(definition)
        source = await self._source(definition, spec, config)
        limit = definition.max_turns or DEFAULT_MAX_TURNS
        turn = ParentTurn(
            definition=definition,
            tools=advertised_tools(definition, config),
            sandbox=self._place.seen_through(buffers),
            sandbox_at=lambda cwd: Place.of("local", cwd).seen_through(buffers),
            config=config,
            calls=ModelCalls(limit),
            max_turns=limit,
            servers=self.servers,
        )
        agent = default_agent(
            thread=self.thread,
            instructions=definition.instructions,
            max_turns=limit,
            tools=turn.tools,
            sandbox=turn.sandbox,
            policy=definition.policy,
            session=self._tools,
            completion=self._completion(spec),
            inbox=inbox,
            max_retries=config.models.max_retries,
            own_layers=definition.own_layers,
            pipeline=definition.own_pipeline or DEFAULT,
            skills=skills,
            calls=turn.calls,
            source=source,
            compactor=self._compactors.get(definition, spec, config, self._completion(spec)),
        )
        self._tasks.begin(agent, turn)
        self._tools.sampler = TurnSampler(
            self._completion(spec), turn.calls, spec.model, self._pair, agent
        )
        return agent

    async def compaction(self) -> tuple[Compactor, int]:
        """Return what compacts the conversation now, and how much is sent beside it.

        What MCP servers offer is left out of that, for no server is started or waited for; where
        a provider has counted, it is in the conversation's own figure.

        Raises:
            RequestFailed: the agent is gone or broken, or no model can answer.
        """
        definition, spec, config, skills = await asyncio.to_thread(self._definition, None)
        definition = self._as_placed(definition)
        told = [definition.instructions, listed(skills) if skills else ""]
        instructions = Message("system", "\n\n".join(filter(None, told)))
        specs = [tool.spec for tool in advertised_tools(definition, config)]
        overhead = tokens_of([instructions]) + tokens_of_tools(specs)
        compactor = self._compactors.get(definition, spec, config, self._completion(spec))
        return compactor, overhead

    async def _source(
        self, definition: AgentDefinition, spec: ModelSpec, config: Config
    ) -> ToolSource | None:
        """Have the MCP servers of the agent as it is now; return what brings their tools."""
        declared = servers_of(definition, config)
        taken = {*BUILTIN, *(tool.spec.name for tool in definition.own_tools)}
        await self.servers.use(declared, self._place.sandbox.folder, taken)
        # The embedded model is offered no tool that it could call there.
        if not declared or spec.kind == "embedded":
            return None
        self.servers.begin_turn(definition.policy)
        return self.servers.source(declared, definition.policy, definition.mcp_tools)

    @property
    def is_busy(self) -> bool:
        """Whether something of its tools goes on although no turn runs."""
        return self._tools.is_busy

    def _as_placed(self, definition: AgentDefinition) -> AgentDefinition:
        """Return the agent as its place lets it be: without a folder that is a virtual one."""
        if self._place.sandbox.folder is None:
            return replace(definition, sandbox="virtual", cwd=None)
        return replace(definition, cwd=self._place.cwd)

    async def release_tools(self) -> Released:
        """Give back what tools hold for the session, side by side; safe to call twice."""
        jobs, servers = await asyncio.gather(self._tools.close(), self.servers.close())
        return Released(tuple(jobs), tuple(servers))

    def close(self) -> None:
        """Give back the thread; safe to call twice.

        Whatever is left behind of a turn can say nothing more: the thread refuses it.
        """
        self.thread.close()

    def _definition(
        self, max_turns: int | None
    ) -> tuple[AgentDefinition, ModelSpec, Config, tuple[Skill, ...]]:
        """Return what the files say now: the agent, its model, the configuration, its skills."""
        catalogue = self._services.catalogue
        # Every agent's key is a secret to each of them; a file that has not changed costs a look.
        catalogue.list()
        definition = narrow(catalogue.find(self._pair.agent), self.terms.options)
        if max_turns is not None:
            definition = narrow(definition, SessionOptions(max_turns=max_turns))
        config = catalogue.config()
        spec = choose_model(definition, config, os.environ)
        # The embedded model is offered no tool to read them with.
        skills = () if spec.kind == "embedded" else catalogue.skills(definition.skills)
        there = tuple(skill.name for skill in skills)
        return replace(definition, skills=there), spec, config, skills

    def _completion(self, spec: ModelSpec) -> Completion:
        """Return the session's completion; while the model is the same it is the same one,
        which keeps the encoded history.
        """
        if self._model is None or self._model[0] != spec:
            self._model = spec, self._services.models.completion(spec)
        return self._model[1]


def open_session(
    pair: Pair,
    services: Services,
    terms: Terms,
    respondent: Respondent,
    tell: Callable[[ServerStatus], None],
) -> Opened:
    """Open a pair; blocking, so it is called in a worker thread.

    Args:
        pair: whose session.
        services: the daemon's.
        terms: what the client asks for, which may only narrow, and its own folder, for an agent
            that works in one and names none.
        respondent: whom its turns can ask.
        tell: told how its MCP servers are doing.

    Raises:
        RequestFailed: no such agent, options that widen, a thread that is held or unreadable.
    """
    here = [terms.cwd] if terms.cwd else []
    definition = narrow(services.catalogue.find(pair.agent, here), terms.options)
    config = services.catalogue.config()
    settings, declared = config.sessions, servers_of(definition, config)
    place = Place.of(definition.sandbox, definition.cwd or terms.cwd)
    # The thread last: nothing after it can fail and leave its lock behind.
    thread = (
        open_stored(pair, services)
        if settings.durability == "file"
        else _memory_thread(pair, services.memory)
    )
    if thread.report.interrupted_turn is not None:
        end_interrupted_tasks(pair, services)
    follows = definition.cwd is None and definition.sandbox == "local"
    held = Terms(terms.options, place.cwd, follows)
    servers = SessionServers(services.mcp, pair.agent, tell)
    return Opened(
        pair, services, held, place, thread, respondent, servers, declared, settings.idle_seconds
    )


def _memory_thread(pair: Pair, kept: dict[Pair, Thread]) -> Thread:
    """Return a thread that goes on where the pair's last one in memory ended."""
    thread = kept[pair] = Thread.in_memory(after=kept.get(pair))
    return thread
