"""What a session holds while it is open, and how that is got and given back."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path

from treadle.agents.definition import AgentDefinition
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


@dataclass(slots=True)
class Opened:
    """An open session's thread, place and model.

    The thread comes from the record; everything else comes from the agent, anew at each turn.
    """

    pair: Pair
    services: Services
    options: SessionOptions
    thread: Thread
    sandbox: Sandbox
    _completions: dict[ModelSpec, Completion] = field(default_factory=dict)

    async def agent(self, max_turns: int | None) -> Agent:
        """Build the agent for one turn from its definition as it stands now.

        Args:
            max_turns: the prompt's own bound on model calls.

        Raises:
            RequestFailed: the agent is gone or broken, or no model can answer.
        """
        definition, spec = await asyncio.to_thread(self._definition, max_turns)
        return default_agent(
            thread=self.thread,
            instructions=definition.instructions,
            max_turns=definition.max_turns or DEFAULT_MAX_TURNS,
            tools=advertised_tools(definition),
            sandbox=self.sandbox,
            completion=self._completion(spec),
        )

    def close(self) -> None:
        """Give back everything held; safe to call twice."""
        self.thread.close()
        self._completions.clear()

    def _definition(self, max_turns: int | None) -> tuple[AgentDefinition, ModelSpec]:
        catalogue = self.services.catalogue
        definition = narrow(catalogue.find(self.pair.agent), self.options)
        if max_turns is not None:
            definition = narrow(definition, SessionOptions(max_turns=max_turns))
        return definition, choose_model(definition, catalogue.config(), os.environ)

    def _completion(self, spec: ModelSpec) -> Completion:
        """Return the session's completion for a model; it keeps the encoded history."""
        if spec not in self._completions:
            self._completions.clear()
            self._completions[spec] = self.services.models.completion(spec)
        return self._completions[spec]


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
    durable = services.catalogue.config().sessions.durability == "file"
    thread = (
        Thread.open(
            thread_path(services.folders.data, *pair), agent=pair.agent, instance=pair.instance
        )
        if durable
        else Thread.in_memory()
    )
    return Opened(pair, services, options, thread, _sandbox(definition, default_cwd))


def _sandbox(definition: AgentDefinition, default_cwd: Path | None) -> Sandbox:
    cwd = definition.cwd or default_cwd
    if definition.sandbox == "local" and cwd is not None:
        return LocalSandbox(cwd)
    return VirtualSandbox()
