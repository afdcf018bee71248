"""A chat at a real terminal: binds the conversation, its face, the keys and the draft together.

Owns the life of all four, from the first picture to the last. Refuses to know how anything looks.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindingsBase

from treadle.cli import exit_codes
from treadle.cli.chat.conversation import Conversation, conversation_with
from treadle.cli.chat.endings import LastBound, signals, warnings_told
from treadle.cli.chat.items import Note
from treadle.cli.chat.keys import key_bindings
from treadle.cli.chat.store import Draft, History
from treadle.cli.chat.terminal import Terminal
from treadle.folders import find_folders

# A draft on disk is at most this old when the process is killed without a word.
DRAFT_SECONDS = 1.0


async def chat_at_terminal(agent: str, instance: str, *, own: bool) -> int:
    """Chat with one session, and with those that the person goes to; return the exit code.

    Raises:
        RemoteError: the session cannot be opened.
    """
    return await _Chat(find_folders().data).run(agent, instance, own=own)


class _Chat:
    def __init__(self, data: Path) -> None:
        self._data = data
        self._bound = LastBound()
        self._chat: Conversation | None = None
        self._is_open = False
        self._early: list[str] = []  # what was entered while the session was being opened
        self._address: dict[str, str] = {}
        self._draft: Draft
        self._face = Terminal(History(data), self._keys, self._end, self._typed)

    async def run(self, agent: str, instance: str, *, own: bool) -> int:
        try:
            with signals(self._interrupt, self._end) as self._bound, warnings_told(self._warn):
                async with conversation_with(self._face, agent, instance, own=own) as self._chat:
                    return await self._converse(self._chat)
        finally:
            if self._chat is not None:
                self._keep_unsent(self._chat)

    async def _converse(self, chat: Conversation) -> int:
        # In this order: the first picture already says what goes on.
        opening = asyncio.create_task(self._open(chat))
        screen = asyncio.create_task(self._face.run())
        keeping = asyncio.create_task(self._keep_drafts())
        try:
            await self._until_done(opening, screen, chat)
            await self._until_done(chat.left, screen, chat)
            return await chat.left
        finally:
            keeping.cancel()
            if chat.activity.is_turn:
                self._face.show(Note(chat.what_leaving_means))
            self._face.stop()
            with contextlib.suppress(EOFError):
                await screen

    async def _until_done(
        self, future: asyncio.Future[Any], screen: asyncio.Task[None], chat: Conversation
    ) -> None:
        """Wait for something, for the end of the chat, or for that of the terminal.

        Raises:
            Exception: why what was waited for, or the screen, has failed.
        """
        ends: list[asyncio.Future[Any]] = [future, screen, chat.left]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            future.result()
        elif screen.done():
            with contextlib.suppress(EOFError):
                screen.result()
            self._end()
        if not future.done():
            future.cancel()

    async def _open(self, chat: Conversation) -> None:
        await chat.open()
        self._is_open = True
        self._follow_address()
        for text in self._early:
            chat.submit(text)

    def _keys(self, buffer: Buffer) -> KeyBindingsBase:
        return key_bindings(
            buffer,
            on_enter=self._enter,
            on_interrupt=self._interrupt,
            on_end=self._quit,
            on_choice=lambda choices: self._face.show(Note("  ".join(choices))),
        )

    def _enter(self, text: str) -> None:
        if self._chat is not None and self._is_open:
            self._chat.submit(text)
        else:
            self._early.append(text)

    def _interrupt(self) -> None:
        if self._chat is None:
            return
        was_turn = self._chat.activity.is_turn
        self._chat.interrupt()
        if not was_turn and self._face.buffer.text:
            self._face.clear()

    def _typed(self) -> None:
        if self._chat is not None and self._face.buffer.text:
            self._chat.activity.disarm()

    def _quit(self) -> None:
        if self._chat is not None:
            self._chat.leave(exit_codes.OK)

    def _end(self) -> None:
        """The terminal is gone, or we were told to end."""
        self._bound.start()
        if self._chat is not None:
            self._chat.leave(exit_codes.INTERRUPTED)

    def _warn(self, text: str) -> None:
        self._face.show(Note(text, "warning"))

    def _follow_address(self) -> None:
        """Have the draft be that of the session that we are in."""
        assert self._chat is not None
        if self._chat.address == self._address:
            return
        if self._address:
            # What was typed there was sent, such as the command that led here, or comes along.
            self._draft.save("")
        self._address = dict(self._chat.address)
        self._draft = Draft(self._data, **self._address)
        draft = self._draft.load()
        if draft and not self._face.buffer.text:
            self._face.offer(draft)
            self._face.show(Note("what you had typed and not sent is back in the input"))

    async def _keep_drafts(self) -> None:
        while True:
            await asyncio.sleep(DRAFT_SECONDS)
            if self._is_open:
                self._follow_address()
                self._keep_draft([])

    def _keep_draft(self, unsent: list[str]) -> None:
        self._draft.save("\n".join([*unsent, self._face.buffer.text]))

    def _keep_unsent(self, chat: Conversation) -> None:
        """Keep at the end what was never sent, also where the session was never open."""
        if self._is_open:
            self._keep_draft(chat.unsent)
            return
        self._draft = Draft(self._data, **chat.address)
        # Nobody has seen the one that lies there.
        typed = [self._draft.load(), *self._early, self._face.buffer.text]
        self._draft.save("\n".join(filter(None, typed)))
