"""What a person says to a turn while it runs, and how it enters there.

The layer belongs directly inside the loop, whose condition asks the same inbox: text enters
before a pass, after the results of the one before, and sends the loop into another pass where it
was about to end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from treadle.errors import ConfigurationError
from treadle.stack.stack import App
from treadle.thread.message import Message
from treadle.thread.records import StopReason
from treadle.turn.env import Env

# Ends of an answer that was cut short: the person has something to say to that.
_CUT_SHORT: frozenset[StopReason] = frozenset({"max_tokens", "refusal"})


class Inbox:
    """Messages on their way into a turn; one inbox serves one turn at a time.

    It is sealed at the moment at which its turn decides to end, and opened by the next one.
    """

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()
        self._is_sealed = False

    @property
    def is_sealed(self) -> bool:
        """Whether its turn takes nothing more."""
        return self._is_sealed

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits to enter."""
        return not self._waiting

    @property
    def waiting(self) -> tuple[Message, ...]:
        """What waits to enter, in order of arrival."""
        return tuple(self._waiting)

    def put(self, *messages: Message) -> bool:
        """Say something to the turn; all of it enters, in order of arrival, or nothing does.

        Returns:
            Whether it will enter; if not, start a turn with it.

        Raises:
            ConfigurationError: a message is not a person's.
        """
        if any(message.role != "user" for message in messages):
            raise ConfigurationError("only a person's messages can enter a turn that runs")
        if not self._is_sealed:
            self._waiting.extend(messages)
        return not self._is_sealed

    def take(self) -> Message | None:
        """Take out what waits longest; None where nothing does."""
        return self._waiting.popleft() if self._waiting else None

    def change(self, change: Callable[[Message], Message]) -> None:
        """Put another message in the place of each that waits."""
        self._waiting = deque(map(change, self._waiting))

    def seal(self) -> None:
        """Take nothing more; what waits can still be taken out."""
        self._is_sealed = True

    def seal_if_empty(self) -> bool:
        """Seal it unless something waits.

        Contract: a turn that ends by its own decision asks this at the moment of deciding, and
        goes on when the answer is False.

        Returns:
            Whether it is sealed.
        """
        if not self._waiting:
            self._is_sealed = True
        return self._is_sealed

    def open(self) -> None:
        """Take messages again, for a turn that begins."""
        self._is_sealed = False


class Steering:
    """Lets an inbox's messages into the turn.

    None is lost: where the turn ends for another reason than by deciding to, what waits is added
    to it unanswered.

    Args:
        app: the rest of the stack: one pass of the loop.
        inbox: the one that the loop asks; without one nobody can say anything.
    """

    def __init__(self, app: App[Env], *, inbox: Inbox) -> None:
        self._app = app
        self._inbox = inbox

    async def __call__(self, env: Env) -> None:
        """Let in what waits, then pass the env inwards.

        Raises:
            StorageDegraded: what was said could not be kept.
        """
        if env.iteration == 1:
            self._inbox.open()
        try:
            # While it still waits here: a cancel must not find a message on its way.
            await env.prepare(*self._inbox.waiting)
            await self._let_in(env)
            await self._app(env)
        except BaseException:
            self._inbox.seal()
            await self._let_in(env)
            raise
        if env.should_exit and env.stop_reason in _CUT_SHORT and not self._inbox.is_empty:
            env.should_exit, env.stop_reason = False, None
        if env.should_exit:
            self._inbox.seal()
            await self._let_in(env)

    async def _let_in(self, env: Env) -> None:
        while (message := self._inbox.take()) is not None:
            await env.append(message)
