"""The strategy Summarize: a model writes down what was said, and that takes its place.

    transcript ─▶ chunk ─▶ summariser ─▶ judged ─▶ the next chunk, with this summary folded in

Owns the rounds: how much is read at once, what is asked again and how often, how long all of it
may take, and that the last good round stands where a later one fails. Refuses to know which model
writes.
"""

from __future__ import annotations

import asyncio
import logging

from treadle.compaction.conversation import Conversation
from treadle.compaction.counting import CHARACTERS_OF_TOKEN, tokens_of
from treadle.compaction.fence import LINE_CHARACTERS
from treadle.compaction.judging import judged
from treadle.compaction.ladder import CompactionEnv, Strategy
from treadle.compaction.request import INSTRUCTIONS, request
from treadle.compaction.resting import Rest
from treadle.compaction.sections import fitted
from treadle.compaction.summariser import NoSummary, Summariser
from treadle.compaction.transcript import Chunk, Transcript
from treadle.errors import ContextOverflow, ModelUnreachable, TreadleError
from treadle.stack.stack import App
from treadle.thread.message import Message

logger = logging.getLogger(__name__)

# Less is hardly longer than the headings of a summary: no call is spent on it.
LEAST_TOKENS = 200

# A page or two more than anyone needs to go on; of a small window, a sixth leaves room to talk.
SUMMARY_TOKENS = 4_000
PART_OF_WINDOW = 6

# Room for something under each heading, also where what stays fills the target by itself.
LEAST_SUMMARY_TOKENS = 250

# The part of a window that is filled, as counted: text in some languages is half again as much.
FILLED = 0.75

# A chunk below this is read with less sense than it costs.
LEAST_CHUNK_CHARACTERS = 800

# Enough for a conversation several windows long; the longest messages of a longer one are
# shortened, and what is then still left stays as it is.
MAX_ROUNDS = 6

# How often, in all, a chunk is halved because it was too much, and a reply asked for again.
MAX_OVERFLOWS = 4
MAX_REFUSED_REPLIES = 2

# For all that is asked for one summary, with what is asked again: whoever waits for the turn has
# then waited long enough. What one answer may take (`runtime.summarising`) is less.
ROUNDS_SECONDS = 300.0


class Summarize(Strategy):
    """Puts a summary in the place of what is older than the newest steps; the task stays.

    A summariser that has failed rests a while, and is asked nothing unless a person wants it.

    Args:
        app: the rest of the ladder.
        summariser: writes it.
        rest: remembers that it failed.
        seconds: how long one summary may take, whatever is asked for it.
    """

    name = "summarize"

    def __init__(
        self,
        app: App[CompactionEnv],
        *,
        summariser: Summariser,
        rest: Rest | None = None,
        seconds: float = ROUNDS_SECONDS,
    ) -> None:
        super().__init__(app)
        self._summariser = summariser
        self._rest = rest or Rest()
        self._seconds = seconds

    async def work(self, env: CompactionEnv) -> Conversation | None:
        """Summarise, in as many rounds as it takes.

        Raises:
            ContextOverflow: the summariser's window is too small for any of it.
            NoSummary: what it says is no summary.
            Resting: it failed a short while ago.
            TreadleError: it failed, or takes too long.
        """
        if not env.is_asked_for:
            self._rest.require_none()
        rounds = _Rounds(self._summariser, env)
        try:
            await self._in_time(rounds)
            self._rest.end()
        except TreadleError as error:
            self._rest.begin(error)
            if rounds.made is None:
                raise
            logger.warning("a later round of a summary failed: %s", error.message)
        return rounds.made

    async def _in_time(self, rounds: _Rounds) -> None:
        """Run all the rounds under one deadline.

        Raises:
            TreadleError: one failed for good, or it is over.
        """
        try:
            async with asyncio.timeout(self._seconds) as deadline:
                await rounds.run()
        except TimeoutError:
            if not deadline.expired():
                raise
            raise ModelUnreachable(
                f"the summary was not finished within {self._seconds:g} seconds"
            ) from None


class _Rounds:
    """The rounds of one summary; `made` is what the good ones came to."""

    def __init__(self, summariser: Summariser, env: CompactionEnv) -> None:
        self.made: Conversation | None = None
        self._summariser = summariser
        self._env = env
        self._transcript = Transcript(env.conversation)
        self._limit = self._bounded_limit()
        self._summary = fitted(env.conversation.summary, self._limit * CHARACTERS_OF_TOKEN)
        self._characters = self._room()
        self._overflows = 0
        self._refused: list[str] = []

    async def run(self) -> None:
        """Read one chunk after another.

        Raises:
            TreadleError: one failed for good.
        """
        if self._transcript.tokens(self._transcript.places) < LEAST_TOKENS:
            return
        if self._characters < LEAST_CHUNK_CHARACTERS:
            raise ContextOverflow(
                f"a window of {self._summariser.window:,} tokens is too small to summarise in",
                window=self._summariser.window,
            )
        # A chunk may end a line before it is full.
        whole = MAX_ROUNDS * (self._characters - LINE_CHARACTERS)
        self._transcript.bound(self._characters, whole)
        for _ in range(MAX_ROUNDS):
            chunk = await self._round()
            if chunk is None:
                return
            self._transcript.read(chunk)
            self._take()

    async def _round(self) -> Chunk | None:
        """Have the next chunk folded in; return it, or None where there is none.

        Raises:
            TreadleError: it failed, however small the chunk and however often it was asked.
        """
        while (chunk := self._transcript.next(self._characters)) is not None:
            try:
                self._summary = await self._fold(chunk)
                break
            except ContextOverflow:
                self._overflows += 1
                self._characters = chunk.characters // 2
                too_small = self._characters < LEAST_CHUNK_CHARACTERS
                if too_small or self._overflows > MAX_OVERFLOWS:
                    raise
            except NoSummary as error:
                self._env.usage += error.usage
                self._refused.append(error.message)
                if len(self._refused) > MAX_REFUSED_REPLIES:
                    raise
        return chunk

    async def _fold(self, chunk: Chunk) -> str:
        """Return the summary of a chunk and of all before it.

        Raises:
            TreadleError: the summariser failed, or what it said is none.
        """
        text = request(
            chunk.lines,
            earlier=self._summary,
            wishes=self._env.instructions,
            problem=self._refused[-1] if self._refused else "",
            tokens=self._limit,
        )
        said = await self._summariser.say(INSTRUCTIONS, text, self._limit)
        self._env.usage += said.usage
        return judged(
            said.text,
            chunk=chunk.lines,
            persons=self._transcript.messages_of(chunk),
            earlier=self._summary,
            most=self._limit * CHARACTERS_OF_TOKEN,
        )

    def _take(self) -> None:
        """Put the summary in the place of what has been read, where that makes less of it.

        Raises:
            NoSummary: it is as large as all that it is to replace.
        """
        covered = self._transcript.covered
        before = self._env.conversation
        if not covered:
            return
        made = before.without(covered).summarised(self._summary)
        if self._env.measure(made) < self._env.tokens:
            self.made = made
        elif covered == self._transcript.places:
            raise NoSummary("the summary is not smaller than what it is to replace")

    def _room(self) -> int:
        """Return how many characters of a transcript go into one request."""
        fixed = [
            Message("system", INSTRUCTIONS),
            Message(
                "user",
                request((), earlier=self._summary, wishes=self._env.instructions, tokens=1),
            ),
        ]
        room = int(self._summariser.window * FILLED) - self._limit - tokens_of(fixed)
        # A summary grows from round to round, up to its limit.
        room -= max(0, self._limit - tokens_of([Message("user", self._summary)]))
        return room * CHARACTERS_OF_TOKEN

    def _bounded_limit(self) -> int:
        """Return how many tokens the summary may have."""
        places = self._transcript.places
        before = self._env.conversation
        stays = before.without(
            places | {p for p, e in enumerate(before.entries) if e.made == "summary"}
        )
        earlier = tokens_of([Message("user", before.summary)]) if before.summary else 0
        grown = earlier + self._transcript.tokens(places) // 2
        most = min(SUMMARY_TOKENS, self._summariser.window // PART_OF_WINDOW, grown)
        room = self._env.target - self._env.measure(stays)
        # What was summarised is not forgotten because something large is in the way just now.
        return max(min(most, room), min(most, max(LEAST_SUMMARY_TOKENS, earlier)))
