"""What a session holds while it is open, and how that is got and given back."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from treadle.agents.definition import AgentDefinition, SandboxKind
from treadle.agents.model_choice import choose_model
from treadle.agents.options import SessionOptions, advertised_tools, narrow
from treadle.models.completion import Completion
from treadle.models.spec import ModelSpec
from treadle.runtime.outbox import Pair
from treadle.runtime.services import Services
from treadle.sandbox.local import LocalSandbox
from treadle.sandbox.sandbox import Sandbox
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.paths import thread_path
from treadle.thread.thread import Thread
from treadle.turn.agent import Agent
from treadle.turn.default import default_agent

# Model calls of one prompt where neither the prompt nor the agent says.
DEFAULT_MAX_TURNS = 25


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


class Opened:
    """An open session's thread, place and model.

    The thread comes from the record; everything else comes from the agent, anew at each turn,
    but for the folder, which is fixed when the pair opens.

    Args:
        pair: whose session.
        services: the daemon's.
        options: what the client asked for when it opened.
        place: where its tools act.
        thread: the pair's.
    """

    def __init__(
        self,
        pair: Pair,
        services: Services,
        options: SessionOptions,
        place: Place,
        thread: Thread,
    ) -> None:
        self.options = options
        self.thread = thread
        self._pair = pair
        self._services = services
        self._place = place
        self._model: tuple[ModelSpec, Completion] | None = None

    async def agent(self, max_turns: int | None) -> Agent:
        """Build the agent for one turn from its definition as it stands now.

        Args:
            max_turns: the prompt's own bound on model calls.

        Raises:
            RequestFailed: the agent is gone or broken, or no model can answer.
        """
        definition, spec = await asyncio.to_thread(self._definition, max_turns)
        if definition.sandbox != self._place.kind:
            self._place = Place.of(definition.sandbox, self._place.cwd)
        return default_agent(
            thread=self.thread,
            instructions=definition.instructions,
            max_turns=definition.max_turns or DEFAULT_MAX_TURNS,
            tools=advertised_tools(definition),
            sandbox=self._place.sandbox,
            completion=self._completion(spec),
        )

    def close(self) -> None:
        """Give back everything held; safe to call twice.

        Whatever is left behind of a turn can say nothing more: the thread refuses it.
        """
        self.thread.close()

    def _definition(self, max_turns: int | None) -> tuple[AgentDefinition, ModelSpec]:
        catalogue = self._services.catalogue
        definition = narrow(catalogue.find(self._pair.agent), self.options)
        if max_turns is not None:
            definition = narrow(definition, SessionOptions(max_turns=max_turns))
        return definition, choose_model(definition, catalogue.config(), os.environ)

    def _completion(self, spec: ModelSpec) -> Completion:
        """Return the session's completion; while the model is the same it is the same one,
        which keeps the encoded history.
        """
        if self._model is None or self._model[0] != spec:
            self._model = spec, self._services.models.completion(spec)
        return self._model[1]


def open_session(
    pair: Pair, services: Services, options: SessionOptions, default_cwd: Path | None
) -> Opened:
    """Open a pair; blocking, so it is called in a worker thread.

    Args:
        pair: whose session.
        services: the daemon's.
        options: what the client asks for; they may only narrow.
        default_cwd: the client's own folder, for an agent that works in one and names none.

    Raises:
        RequestFailed: no such agent, options that widen, a thread that is held or unreadable.
    """
    definition = narrow(services.catalogue.find(pair.agent), options)
    is_durable = services.catalogue.config().sessions.durability == "file"
    place = Place.of(definition.sandbox, definition.cwd or default_cwd)
    # The thread last: nothing after it can fail and leave its lock behind.
    thread = (
        Thread.open(
            thread_path(services.folders.data, *pair), agent=pair.agent, instance=pair.instance
        )
        if is_durable
        else _memory_thread(pair, services.memory)
    )
    return Opened(pair, services, options, place, thread)


def _memory_thread(pair: Pair, kept: dict[Pair, Thread]) -> Thread:
    """Return a thread that goes on where the pair's last one in memory ended."""
    thread = Thread.in_memory()
    if before := kept.get(pair):
        thread.messages[:] = before.messages
        thread.turns = before.turns
        thread.created = False
    kept[pair] = thread
    return thread
