"""Conversations made up by chance, against a model that refuses what is too large or unpaired."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from treadle.compaction.compactor import Compactor
from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import tokens_of, tokens_of_tools
from treadle.compaction.ladder import CompactionEnv, Strategy, rest
from treadle.compaction.oversize import Oversize
from treadle.compaction.settings import CompactionSettings
from treadle.compaction.sliding_window import SlidingWindow
from treadle.compaction.told import Compacted, Compacting
from treadle.compaction.tool_results import ToolResults
from treadle.errors import ContextOverflow, ModelUnreachable
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.message import Message, ToolCall, Usage
from treadle.thread.repair import view
from treadle.thread.thread import Thread
from treadle.tools.tool import tool
from treadle.turn.default import default_agent
from treadle.turn.env import Env
from treadle.turn.events import TurnDone
from treadle.turn.steering import Inbox

WINDOW = 2_000
INSTRUCTIONS = "Be brief."
# Of a summary; more than all else that a turn costs, so that it can be told from that.
PRICE = Usage(1_000_000, 1)


@tool(capability="read")
async def browse(size: int) -> str:
    """Read a page of a size.

    Args:
        size: in characters.
    """
    return "p" * size


class StrictModel:
    """Counts in its own way, refuses what does not fit or is no conversation, and talks on.

    Attributes:
        refused: how many requests were too large.
        answers: what it said, and at what price.
    """

    def __init__(self, chance: Random) -> None:
        self.refused = 0
        self.answers: list[tuple[str, Usage]] = []
        self._chance = chance
        self._tokens_of_one = chance.choice([0.5, 1.0, 1.0, 1.5])
        self._reports = chance.random() < 0.5
        self._calls = 0

    async def __call__(self, env: Env) -> None:
        assert list(env.messages[1:]) == view(env.messages[1:])
        assert env.messages[0] == Message("system", INSTRUCTIONS)
        assert any(message.role == "user" for message in env.messages)
        counted = int((tokens_of(env.messages) + tokens_of_tools(env.tools)) * self._tokens_of_one)
        if counted > WINDOW:
            self.refused += 1
            raise ContextOverflow("too long", window=WINDOW)
        await asyncio.sleep(0)
        usage = Usage(counted if self._reports else 0, self._chance.randrange(1, 9))
        calls = []
        if env.iteration < 6 and self._chance.random() < 0.6:
            for _ in range(self._chance.randrange(1, 3)):
                self._calls += 1
                size = self._chance.choice([10, 900, 2_500])
                calls.append(ToolCall(f"c{self._calls}", "browse", {"size": size}))
        text = f"{self._calls}" + "a" * self._chance.randrange(300)
        self.answers.append((text, usage))
        await env.append(Message("assistant", text, tool_calls=calls, usage=usage))


class Moody(Strategy):
    """Summarises, or fails, or takes a while, by chance."""

    name = "summarize"

    def __init__(self, chance: Random, app: Strategy) -> None:
        super().__init__(app)
        self._chance = chance

    async def work(self, env: CompactionEnv) -> Conversation | None:
        for _ in range(self._chance.randrange(4)):
            await asyncio.sleep(0)
        env.usage += PRICE
        if self._chance.random() < 0.3:
            raise ModelUnreachable("gone")
        conversation = env.conversation
        gone = set(range(len(conversation.entries))) - conversation.protected
        return conversation.without(gone).summarised("s" * 40) if gone else None


class Story:
    """One thread's life."""

    def __init__(self, seed: int, path: Path) -> None:
        self.chance = Random(seed)
        self.path = path
        self.is_file = seed % 2 == 0
        self.thread = Thread.open(path) if self.is_file else Thread.in_memory()
        self.model = StrictModel(self.chance)
        self.told: list[Compacting | Compacted] = []
        self.compactor = self._compactor()

    def _compactor(self) -> Compactor:
        ladder = ToolResults(Moody(self.chance, SlidingWindow(Oversize(rest))))
        settings = CompactionSettings(keep_steps=self.chance.randrange(3))
        return Compactor(settings=settings, window=WINDOW, ladder=ladder, tell=self.told.append)

    async def turn(self) -> None:
        inbox = Inbox()
        begun = len(self.model.answers)
        agent = default_agent(
            thread=self.thread,
            instructions=INSTRUCTIONS,
            max_turns=25,
            tools=[browse],
            sandbox=VirtualSandbox(),
            completion=self.model,
            inbox=inbox,
            compactor=self.compactor,
            max_retries=0,
        )
        ends: list[TurnDone] = []
        agent.on("done", lambda _, done: ends.append(done))
        if self.chance.random() < 0.3:
            agent.on("compacted", lambda *_: inbox.put(Message("user", "Hurry.")))
        task = asyncio.create_task(agent.start("q" * self.chance.choice([5, 300, 3_000])))
        if self.chance.random() < 0.25:
            for _ in range(self.chance.randrange(1, 30)):
                await asyncio.sleep(0)
            task.cancel()
        env: Env | None = None
        try:
            env = await task
        except asyncio.CancelledError:
            assert ends[0].stop_reason in ("cancelled", "end_turn")
        (done,) = ends
        said = self.model.answers[begun:]
        if env is not None:
            assert view(env.messages[1:]) == self.thread.view()
            assert done.text == said[-1][0] and done.steps == len(said)
            own = sum((usage for _, usage in said), Usage())
            paid = done.usage.input_tokens // PRICE.input_tokens
            assert done.usage == sum([PRICE] * paid, own)

    async def rewind(self) -> None:
        """Go back to anything that the conversation holds, also behind a compaction."""
        page = self.thread.reading().page(0, 1_000)
        held = [one.ordinal for one in page.messages if not one.rewound]
        await self.thread.rewind(self.chance.choice([at for at in held if at is not None] or [-1]))

    def reopen(self) -> None:
        before = self.thread.view()
        self.thread.close()
        again = Thread.open(self.path) if self.is_file else Thread.in_memory(after=self.thread)
        self.thread = again
        assert self.thread.view() == before
        self.compactor = self._compactor()


@pytest.mark.parametrize("decade", range(6))
async def test_whatever_happens_a_conversation_goes_on_within_its_window(
    decade: int, tmp_path: Path
) -> None:
    compacted = refused = 0
    for seed in range(decade * 10, decade * 10 + 10):
        story = Story(seed, tmp_path / f"{seed}.jsonl")
        try:
            for _ in range(9):
                what = story.chance.random()
                if what < 0.08:
                    await story.rewind()
                elif what < 0.2:
                    story.reopen()
                await story.turn()
        finally:
            story.thread.close()
        begun = [told.id for told in story.told if isinstance(told, Compacting)]
        ends = [told for told in story.told if isinstance(told, Compacted)]
        assert begun == [end.id for end in ends] and len({*begun}) == len(begun)
        for end in ends:
            is_smaller = end.tokens_after < end.tokens_before
            assert is_smaller == (end.outcome == "completed") == bool(end.gave_up)
        compacted += sum(end.outcome == "completed" for end in ends)
        refused += story.model.refused
    # A story in which nothing happens shows nothing.
    assert compacted > 15 and refused < compacted
