"""A thread that is compacted in tests: what is said in it, what is told of it, and ladders."""

from __future__ import annotations

import asyncio
from typing import Any

from support.turns import look
from treadle.compaction.compactor import Compactor
from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import tokens_of
from treadle.compaction.ladder import CompactionEnv, Strategy, rest
from treadle.compaction.settings import CompactionSettings
from treadle.compaction.sliding_window import SlidingWindow
from treadle.compaction.told import Compacted, Compacting
from treadle.compaction.tool_results import ToolResults
from treadle.errors import ContextOverflow
from treadle.models.scripted import Reply, Scripted
from treadle.sandbox.virtual import VirtualSandbox
from treadle.stack.stack import App
from treadle.thread.message import Message, Usage
from treadle.thread.thread import Thread
from treadle.tools.tool import tool
from treadle.turn.agent import Agent
from treadle.turn.default import default_agent
from treadle.turn.events import TurnDone
from treadle.turn.steering import Inbox

Told = Compacting | Compacted
Ladder = App[CompactionEnv]

WINDOW = 1_000
OVERFLOW = ContextOverflow("too long")


def slide() -> Ladder:
    """Make a ladder that needs no model."""
    return ToolResults(SlidingWindow(rest))


@tool(capability="read")
async def browse() -> str:
    """Read a page."""
    return "p" * 1_000


class Summary(Strategy):
    """Says a few words in the place of all that may go, at a price."""

    name = "summarize"

    async def work(self, env: CompactionEnv) -> Conversation | None:
        env.usage += Usage(40, 2)
        conversation = env.conversation
        gone = set(range(len(conversation.entries))) - conversation.protected
        return conversation.without(gone).summarised("we spoke") if gone else None


class Awaiting:
    """A ladder that lets others run some times, and then slides."""

    def __init__(self, times: int = 1) -> None:
        self.begun = asyncio.Event()
        self._times = times

    async def __call__(self, env: CompactionEnv) -> None:
        for _ in range(self._times):
            self.begun.set()
            await asyncio.sleep(0)
        await slide()(env)


class Talk:
    """A thread, its compactor and what is told, from turn to turn."""

    def __init__(self, thread: Thread, ladder: Ladder | None = None, **settings: Any) -> None:
        self.thread = thread
        self.told: list[Told] = []
        self.done: list[TurnDone] = []
        self.inbox = Inbox()
        self.compactor = Compactor(
            settings=CompactionSettings(**settings),
            window=WINDOW,
            ladder=ladder or slide(),
            tell=self.told.append,
        )

    def agent(self, model: Any, instructions: str = "Be brief.") -> Agent:
        """Stack the daemon's layers for one turn."""
        agent = default_agent(
            thread=self.thread,
            instructions=instructions,
            max_turns=25,
            tools=[look, browse],
            sandbox=VirtualSandbox(),
            completion=model,
            inbox=self.inbox,
            compactor=self.compactor,
            max_retries=0,
        )
        return agent.on("done", lambda _, done: self.done.append(done))

    async def say(self, prompt: str, *replies: Reply | str, **options: Any) -> Scripted:
        """Run a turn; return the model, which knows what it was asked."""
        model = Scripted(replies)
        await self.agent(model, **options).start(prompt)
        return model

    @property
    def ends(self) -> list[Compacted]:
        """How each compaction ended; each has begun before that, and only once."""
        begun = [told.id for told in self.told[::2]]
        assert [type(told) for told in self.told] == [Compacting, Compacted] * len(begun)
        ends = [told for told in self.told if isinstance(told, Compacted)]
        assert [end.id for end in ends] == begun and len({*begun}) == len(begun)
        return ends


async def filled(thread: Thread, characters: int = 400, turns: int = 4) -> None:
    """Say something before: turns of about 200 tokens each."""
    for number in range(1, turns + 1):
        thread.start_turn()
        await thread.append(Message("user", f"{number}{'q' * characters}"))
        await thread.append(Message("assistant", f"{number}{'a' * characters}"))
        await thread.end_turn("end_turn", Usage(), 1)


def size_of_request(model: Scripted, number: int = 0) -> int:
    """Return how large a request was, without its tools."""
    return tokens_of(model.requests[number].messages)
