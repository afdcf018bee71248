"""An agent on a `ModelServer`: what most tests of models begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from support.model_server import Answer, ModelServer, in_order
from treadle.models.completion import Delta
from treadle.models.openai import OpenAICompletion
from treadle.thread.message import Message
from treadle.turn.agent import Agent
from treadle.turn.env import Env
from treadle.turn.events import TurnDone

# A key that a test can look for in whatever a person may read.
KEY = "sk-secret-0123456789"


@dataclass
class Peer:
    """An agent, the endpoint it talks to, and what its turns told."""

    agent: Agent
    server: ModelServer
    envs: list[Env] = field(default_factory=list)
    deltas: list[Delta] = field(default_factory=list)
    done: list[TurnDone] = field(default_factory=list)

    async def ask(self, text: str = "Hi") -> Message:
        """Run one turn; return the last message."""
        return (await self.agent.start(text)).messages[-1]

    @property
    def said(self) -> list[Message]:
        """What the assistant said in the last turn, also in one that failed."""
        return [message for message in self.envs[-1].messages if message.role == "assistant"]


@asynccontextmanager
async def model_peer(*answers: Answer, timeout_seconds: float = 10.0) -> AsyncIterator[Peer]:
    """Connect an agent to an endpoint that gives `answers` in order."""
    async with (
        ModelServer(in_order(*answers)) as server,
        OpenAICompletion("m", server.base_url, KEY, timeout_seconds) as completion,
    ):
        peer = Peer(Agent().run(completion), server)
        peer.agent.on("turn", lambda env, _: peer.envs.append(env))
        peer.agent.on("delta", lambda _, delta: peer.deltas.append(delta))
        peer.agent.on("done", lambda _, done: peer.done.append(done))
        yield peer
