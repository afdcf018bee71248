"""A conversation with one session after the other: what the person enters, and what is asked.

Owns the way from the person's words to the protocol, and who waits for the answers. Refuses to
know how words are typed and how anything looks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from treadle.cli import exit_codes
from treadle.cli.chat import commands, wording
from treadle.cli.chat.activity import Activity
from treadle.cli.chat.asking import Asking
from treadle.cli.chat.hearing import Hearing
from treadle.cli.chat.items import Face, Note, Said
from treadle.cli.chat.remembered import items_of, last_exchange
from treadle.cli.chat.usage import UsageError
from treadle.cli.client import Client, RemoteError, client_of
from treadle.cli.prompt import EMBEDDED_NOTE
from treadle.errors import DaemonGone

# The last exchange is shown when a session opens: so many messages hold one with a few tools.
SHOWN_MESSAGES = 8

# The most that one page of the protocol holds.
PAGE_SIZE = 1000


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
        self.activity = Activity(face, {"agent": agent, "instance": instance})
        self.hearing = Hearing(face, self.activity)
        self.asking = Asking(face, self.activity)
        self.unsent: list[str] = []  # prompts whose turn never began
        self.left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._heard: dict[str, Any] = {}  # how far, of the session that we are in
        self._is_opening = False
        self._at_stake: list[str] = []  # what was said as the daemon went away
        self._client = client
        self._tasks: set[asyncio.Task[None]] = set()
        self._noted_embedded = False

    @property
    def address(self) -> dict[str, str]:
        """The session that we are in, as the protocol's members."""
        return self.activity.address

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request and return its result.

        Raises:
            RemoteError: it was answered with an error.
        """
        return await self._client.request(method, params)

    async def ask_here(self, method: str, **params: Any) -> Any:
        """Send a request about the session that we are in, and return its result.

        Args:
            method: one that takes a pair.
            params: what it takes beside the pair.

        Raises:
            RemoteError: it was answered with an error.
        """
        return await self.ask(method, {**self.address, **params})

    async def send(self, prompt: str | list[dict[str, Any]], typed: str) -> None:
        """Send a prompt and wait for its outcome.

        Args:
            prompt: text, or content blocks.
            typed: the words that it came of, which are given back where its turn never begins.

        Raises:
            RemoteError: the turn ended with an error.
        """
        self.activity.prompt_begins()
        try:
            result = await self.ask_here("session/prompt", prompt=prompt)
        except DaemonGone:
            self._at_stake.append(typed)
            raise
        finally:
            self.activity.prompt_ends()
        if result.get("messages") is None:
            self.unsent.append(typed)
        elif result["text"]:
            self._note_embedded()

    async def last_messages(self, number: int) -> list[Any]:
        """Return the last messages of the conversation, at most `number`, oldest first.

        Raises:
            RemoteError: they cannot be read.
        """
        wanted = number
        while True:
            params = {**self.address, "last": wanted, "limit": min(wanted, PAGE_SIZE)}
            pages = self._client.pages("session/read", params)
            read = [message async for page in pages for message in page["messages"]]
            held = [message for message in read if not message.get("rewound")]
            if len(held) >= number or len(read) < wanted:
                return held[-number:]
            # What was rewound is in between.
            wanted *= 2

    async def open(self) -> None:
        """Open the session and show where it was.

        Raises:
            RemoteError: it cannot be opened.
        """
        self.activity.now("opening")
        self._is_opening = True
        try:
            opened = await self.ask_here("session/resume")
            self.activity.model = await self._client.model_of(self.address["agent"])
            recent = []
            if self.face.interactive and opened["thread"]["messages"]:
                recent = await self.last_messages(SHOWN_MESSAGES)
            seen = await self.ask_here("session/attach")
        finally:
            self._is_opening = False
            self.activity.rest()
        self._heard = {"since": seen["seq"], "epoch": seen["epoch"]}
        snapshot = seen["snapshot"]
        turn = snapshot.get("turn")
        before = [message for message in recent if turn is None or message.get("turn") != turn]
        for item in items_of(last_exchange(before)):
            self.face.show(item)
        for line in wording.mended(opened["report"]):
            self.face.show(Note(line, "warning"))
        if self.face.interactive:
            self.face.show(Note(wording.where_it_was(opened)))
        self._join(snapshot)

    def _join(self, snapshot: dict[str, Any]) -> None:
        """Show the turn that runs, if one does, as far as it is."""
        if "turn" not in snapshot:
            return
        for item in items_of(snapshot["messages"]):
            self.face.show(item)
        self.hearing.take("session/state", {"state": snapshot["state"]})
        for part in snapshot["said"]:
            self.hearing.take("session/delta", part)

    async def stay_connected(self) -> None:
        """Come back to the daemon whenever it goes away; what was missed is then shown."""
        while True:
            gone = await self._client.broken()
            self.face.show(Note(gone.message, "warning"))
            self.activity.turn_runs(False)
            self.activity.now("connecting again")
            await self._client.reconnect()
            self.activity.rest()
            await self._guarded(self._resume())

    async def _resume(self) -> None:
        """Open the session anew, and find out what became of what was said last."""
        await self.ask_here("session/resume")
        seen = await self.ask_here("session/attach", **self._heard)
        self._heard = {"since": seen["seq"], "epoch": seen["epoch"]}
        self.face.show(Note("connected again; the thread is whole"))
        at_stake, self._at_stake = self._at_stake, []
        if not at_stake:
            return
        kept = [message["content"] for message in await self.last_messages(SHOWN_MESSAGES)]
        for typed in at_stake:
            if typed in kept:
                self.face.show(Note("the turn was interrupted; what you said is kept"))
            else:
                self.unsent.append(typed)
                self.face.show(Note(f"this was not sent, say it again: {typed}", "warning"))

    @property
    def what_leaving_means(self) -> str:
        """What becomes of the turn that runs when the chat is left."""
        if self._client.is_shared:
            return "the turn goes on without you; `treadle chat` or `treadle watch` shows it"
        return "ending the turn; what was said is kept"

    async def go_to(self, agent: str, instance: str) -> None:
        """Go to another session; the one before is given back once the other is open.

        Raises:
            RemoteError: it cannot be opened; we are where we were.
        """
        before = self.address
        self.activity.address = {"agent": agent, "instance": instance}
        try:
            await self.open()
        except RemoteError:
            self.activity.address = before
            raise
        if before != self.address:
            # Others may be in it, or a turn of it may be running.
            leave = "session/detach" if self._client.is_shared else "session/close"
            await self._client.request(leave, before)

    def submit(self, text: str) -> None:
        """Take what the person entered: a command, or words for the agent."""
        line = text.strip()
        if line.startswith("/") and not line.startswith("//"):
            self.activity.disarm()
            self.face.show(Said(line, typed=True))
            self._start(self._command(line))
        elif line:
            self.say(text[text.index("/") + 1 :] if line.startswith("//") else text)

    def say(self, text: str) -> None:
        """Say something: an answer to what is asked, or words for the agent, which steer a turn."""
        self.activity.disarm()
        self.face.show(Said(text, typed=True))
        if self.asking.take(text):
            return
        self._start(self._steer(text) if self.activity.is_turn else self.send(text, text))

    def interrupt(self) -> None:
        """Cancel the turn, if one runs; the second time in a row, leave."""
        if self.activity.arm():
            self.leave(exit_codes.INTERRUPTED)
        elif self.activity.is_turn:
            self._start(self._cancel())

    def leave(self, code: int) -> None:
        """End the chat; what runs is interrupted and kept."""
        if not self.left.done():
            self.left.set_result(code)

    async def idle(self) -> None:
        """Wait until nothing is going on, or the chat is left.

        Raises:
            OSError: what happened could not be shown.
        """
        while (self._tasks or self.activity.is_turn) and not self.left.done():
            # Asked for before anything can suspend: a change that comes at once is not missed.
            ends: list[asyncio.Future[Any]] = [*self._tasks, self.activity.change(), self.left]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if self.left.done():
            self.left.result()

    async def settle(self) -> None:
        """Wait for what is still in flight; to be called once the daemon is shut down."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def take(self, method: str, params: dict[str, Any]) -> None:
        """Take a notification of the daemon; those of other sessions are not for us.

        What has no instance is about all sessions of the agent: of servers that they share.
        """
        about = {"instance": self.address["instance"], **params}
        if any(about.get(key) != value for key, value in self.address.items()):
            return
        if method.startswith("session/"):
            if self._is_opening:
                return  # what is shown once it is open holds that already
            if "seq" in params:
                self._heard["since"] = params["seq"]
        if method == "session/settled":
            self.asking.settled(params)
        else:
            self.hearing.take(method, params)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something, and tell of a failure; what nobody foresaw ends the chat."""
        try:
            await work
        except RemoteError as error:
            self.hearing.tell_error(error.error)
        except DaemonGone:
            self.hearing.count(exit_codes.FAILED)  # which is told where it is mended
        except UsageError as error:
            self.hearing.count(exit_codes.USAGE)
            self.face.show(Note(str(error), "error"))
        except Exception as error:
            if not self.left.done():
                self.left.set_exception(error)

    async def _command(self, line: str) -> None:
        if not self.activity.is_turn:
            self.activity.now(line.split()[0])
        try:
            await commands.run(self, line)
        finally:
            self.activity.rest()

    async def _steer(self, text: str) -> None:
        await self.ask_here("session/steer", text=text)

    async def _cancel(self) -> None:
        await self.ask_here("session/cancel")

    def _note_embedded(self) -> None:
        if self.activity.model == "embedded" and not self._noted_embedded:
            self._noted_embedded = True
            self.face.show(Note(EMBEDDED_NOTE))


@contextlib.asynccontextmanager
async def conversation_with(
    face: Face, agent: str, instance: str, *, own: bool
) -> AsyncIterator[Conversation]:
    """Connect to a daemon and begin a conversation; at the end the client has come to rest.

    Args:
        face: shows it.
        agent: whom to talk to.
        instance: in which session.
        own: the daemon is one in this process, and comes to rest too.
    """
    chat: Conversation | None = None

    def take(method: str, params: dict[str, Any]) -> None:
        if chat is not None:
            chat.take(method, params)

    async def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert chat is not None
        return await chat.asking.answer(method, params)

    # A person who leaves finds the turn again; a pipe's end is the end of what it began.
    async with client_of(
        take, answer, own=own, can_ask=face.interactive, stays=face.interactive
    ) as client:
        chat = Conversation(client, agent, instance, face)
        staying = asyncio.create_task(chat.stay_connected())
        try:
            yield chat
        finally:
            staying.cancel()
    await chat.settle()
