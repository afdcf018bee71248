"""A conversation with one session after the other: what is asked, and what is shown of it.

Owns the way from the person's words to the protocol and from its notifications to what a face
shows. Refuses to know how words are typed and how anything looks.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from treadle.cli import exit_codes
from treadle.cli.chat import commands, wording
from treadle.cli.chat.items import (
    Called,
    Face,
    Note,
    Returned,
    Said,
    SpeechEnded,
    Spoke,
    Status,
    Thought,
)
from treadle.cli.client import Client, RemoteError, local_client
from treadle.cli.prompt import EMBEDDED_NOTE

# The last exchange is shown when a session opens: so many messages hold one with a few tools.
SHOWN_MESSAGES = 8

# What is worst comes last; a script is told the worst of what happened.
_BY_WEIGHT = (
    exit_codes.OK,
    exit_codes.ENDED_EARLY,
    exit_codes.INTERRUPTED,
    exit_codes.USAGE,
    exit_codes.FAILED,
)


class Conversation:
    """Talks to a daemon for one face.

    Args:
        client: the connection to the daemon, which calls `take` for each notification.
        agent: whom it talks to first.
        instance: in which session.
        face: shows what happens.
    """

    def __init__(self, client: Client, agent: str, instance: str, face: Face) -> None:
        self.face = face
        self.address = {"agent": agent, "instance": instance}
        self.shows_reasoning = False
        self.last_thought: Thought | None = None
        self.unsent: list[str] = []  # prompts whose turn never began
        self.worst = exit_codes.OK
        self.left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._client = client
        self._model = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._prompts = 0  # how many of our own are in flight
        self._running = False
        self._doing, self._since = "", 0.0
        self._reasoning: list[str] = []
        self._reasoning_since = 0.0
        self._told: object = None  # the last error that was shown
        self._armed = False
        self._noted_embedded = False

    @property
    def busy(self) -> bool:
        """Whether a turn runs or is about to."""
        return self._running or self._prompts > 0

    async def ask(
        self, method: str, params: dict[str, Any] | None = None, *, pair: bool = True
    ) -> Any:
        """Send a request; with `pair` it is about the session that we are in.

        Raises:
            RemoteError: it was answered with an error.
        """
        return await self._client.request(
            method, {**(self.address if pair else {}), **(params or {})}
        )

    async def open(self) -> None:
        """Open the session and show where it was.

        Raises:
            RemoteError: it cannot be opened.
        """
        self._now("opening")
        try:
            opened = await self.ask("session/resume")
            self._model = await self._model_name()
            recent = []
            if self.face.interactive and opened["thread"]["messages"]:
                recent = await commands.last_messages(self, SHOWN_MESSAGES)
        finally:
            self._now("")
        for item in commands.items_of(_last_exchange(recent)):
            self.face.show(item)
        for line in wording.mended(opened["report"]):
            self.face.show(Note(line, "warning"))
        if self.face.interactive:
            self.face.show(Note(wording.where_it_was(opened)))

    async def go_to(self, agent: str, instance: str) -> None:
        """Go to another session; the one before is given back once the other is open.

        Raises:
            RemoteError: it cannot be opened; we are where we were.
        """
        before, self.address = self.address, {"agent": agent, "instance": instance}
        try:
            await self.open()
        except RemoteError:
            self.address = before
            self._now("")
            raise
        if before != self.address:
            await self._client.request("session/close", before)

    def submit(self, text: str) -> None:
        """Take what the person entered: a command, or words for the agent."""
        self.disarm()
        line = text.strip()
        if line.startswith("/") and not line.startswith("//"):
            self.face.show(Said(line, typed=True))
            self._start(self._command(line))
        elif line:
            self.say(text[text.index("/") + 1 :] if line.startswith("//") else text)

    def say(self, text: str) -> None:
        """Say something to the agent; while a turn runs, that steers it."""
        self.disarm()
        self.face.show(Said(text, typed=True))
        self._start(self._steer(text) if self.busy else self._prompt(text))

    def interrupt(self) -> bool:
        """Cancel the turn; the second time in a row, leave.

        Returns:
            Whether a turn was there to be cancelled.
        """
        if self._armed:
            self.leave(exit_codes.INTERRUPTED)
            return False
        self._armed = True
        if self.busy:
            self._doing = "cancelling"
            self._start(self._cancel())
        self._show_status()
        return self.busy

    def disarm(self) -> None:
        """Let the next interrupt be a first one: the person goes on."""
        if self._armed:
            self._armed = False
            self._show_status()

    def leave(self, code: int) -> None:
        """End the chat; what runs is interrupted and kept."""
        if not self.left.done():
            self.left.set_result(code)

    async def idle(self) -> None:
        """Wait until nothing is going on, or the chat is left.

        Raises:
            OSError: what happened could not be shown.
        """
        while (self._tasks or self._running) and not self.left.done():
            ends: list[asyncio.Future[Any]] = [*self._tasks, self.left]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if self.left.done():
            self.left.result()

    async def settle(self) -> None:
        """Wait for what is still in flight; to be called once the daemon is shut down."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def take(self, method: str, params: dict[str, Any]) -> None:
        """Take a notification of the daemon."""
        handler = _HANDLERS.get(method)
        here = all(params.get(key) == value for key, value in self.address.items())
        if handler is not None and here:
            handler(self, params)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something, and tell of a failure; what nobody foresaw ends the chat."""
        try:
            await work
        except RemoteError as error:
            self._tell_error(error.error)
        except commands.UsageError as error:
            self._count(exit_codes.USAGE)
            self.face.show(Note(str(error), "error"))
        except Exception as error:
            if not self.left.done():
                self.left.set_exception(error)

    async def _command(self, line: str) -> None:
        was = self._doing
        if not self.busy:
            self._now(line.split()[0])
        try:
            await commands.run(self, line)
        finally:
            if not self.busy and not was:
                self._now("")

    async def _prompt(self, text: str) -> None:
        self._prompts += 1
        if self._prompts == 1 and not self._running:
            self._now("waiting for the model")
        try:
            result = await self.ask("session/prompt", {"prompt": text})
        finally:
            self._prompts -= 1
            if not self.busy:
                self._now("")
        if result.get("messages") is None:
            self.unsent.append(text)
        elif result["text"]:
            self._note_embedded()

    async def _steer(self, text: str) -> None:
        await self.ask("session/steer", {"text": text})

    async def _cancel(self) -> None:
        await self.ask("session/cancel")

    async def _model_name(self) -> str:
        listed = await self.ask("agent/list", pair=False)
        name = self.address["agent"]
        return next((each["model"] or "" for each in listed["agents"] if each["name"] == name), "")

    def _note_embedded(self) -> None:
        if self._model == "embedded" and not self._noted_embedded:
            self._noted_embedded = True
            self.face.show(Note(EMBEDDED_NOTE))

    def _now(self, doing: str) -> None:
        """Note what goes on; the clock runs from when nothing did."""
        if doing and not self._doing:
            self._since = time.monotonic()
        self._doing = doing
        self._show_status()

    def _show_status(self) -> None:
        hint = "Ctrl-C again leaves" if self._armed else ""
        self.face.status(
            Status(
                **self.address,
                model=self._model,
                doing=self._doing,
                since=self._since,
                is_turn=self.busy,
                hint=hint,
            )
        )

    def misused(self) -> None:
        """Note that what was entered made no sense; the exit code tells that."""
        self._count(exit_codes.USAGE)

    def _count(self, code: int) -> None:
        self.worst = max(self.worst, code, key=_BY_WEIGHT.index)

    def _tell_error(self, error: dict[str, Any]) -> None:
        """Tell of an error; the end of a turn and its prompt's reply bring the same one."""
        if error == self._told:
            self._told = None
            return
        self._told = error
        self._count(exit_codes.FAILED)
        self.face.show(Note(wording.failure(error), "error"))

    def _on_state(self, params: dict[str, Any]) -> None:
        self._running = params["state"] == "running"
        if self._running and not self._doing:
            self._now("waiting for the model")
        elif not self.busy:
            self._now("")

    def _on_delta(self, params: dict[str, Any]) -> None:
        if params["kind"] == "reasoning":
            if not self._reasoning:
                self._reasoning_since = time.monotonic()
                self._now("thinking")
            self._reasoning.append(params["text"])
            return
        self._end_thought()
        if self._doing not in ("writing", "cancelling"):
            self._now("writing")
        self.face.show(Spoke(params["text"]))

    def _on_tool_call(self, params: dict[str, Any]) -> None:
        self._end_speech()
        self._now(f"running {params['name']}")
        self.face.show(Called(params["name"], params["arguments"]))

    def _on_tool_result(self, params: dict[str, Any]) -> None:
        self._now("waiting for the model")
        self.face.show(
            Returned(
                params["name"],
                params["ok"],
                params["content"],
                params["truncated"],
                params["durationMs"] / 1000,
            )
        )

    def _on_retrying(self, params: dict[str, Any]) -> None:
        self._end_speech()
        self._now("waiting to try again")
        self.face.show(Note(wording.retrying(params), "warning"))

    def _on_done(self, params: dict[str, Any]) -> None:
        self._end_speech()
        self._told = None
        if error := params.get("error"):
            self._tell_error(error)
            return
        self._count(exit_codes.of_stop_reason(params["stopReason"]))
        if told := wording.early_end(params["stopReason"]):
            self.face.show(Note(told, "warning"))

    def _end_thought(self) -> None:
        if not self._reasoning:
            return
        text, self._reasoning = "".join(self._reasoning), []
        seconds = time.monotonic() - self._reasoning_since
        self.last_thought = Thought(text, seconds, in_full=self.shows_reasoning)
        self.face.show(self.last_thought)

    def _end_speech(self) -> None:
        self._end_thought()
        self.face.show(SpeechEnded())


_HANDLERS = {
    "session/state": Conversation._on_state,
    "session/delta": Conversation._on_delta,
    "session/toolCall": Conversation._on_tool_call,
    "session/toolResult": Conversation._on_tool_result,
    "session/retrying": Conversation._on_retrying,
    "session/done": Conversation._on_done,
}


def _last_exchange(messages: list[Any]) -> list[Any]:
    """Return the messages from the last one that the person said."""
    said = [index for index, message in enumerate(messages) if message["role"] == "user"]
    return messages[said[-1] :] if said else messages


@contextlib.asynccontextmanager
async def conversation_with(face: Face, agent: str, instance: str) -> AsyncIterator[Conversation]:
    """Start a daemon and a conversation with it; at the end both have come to rest."""
    async with local_client(lambda method, params: chat.take(method, params)) as client:
        chat = Conversation(client, agent, instance, face)
        yield chat
    await chat.settle()
