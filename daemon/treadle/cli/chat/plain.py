"""The chat's face without a cursor: lines in, lines out, for dumb terminals and for pipes.

Owns the line mode. Standard output has answers and what a command was asked for, standard error
all the rest. Refuses to know the protocol. No escape is ever written.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from treadle.cli import exit_codes, streams
from treadle.cli.chat import wording
from treadle.cli.chat.conversation import Conversation, conversation_with
from treadle.cli.chat.endings import signals, warnings_told
from treadle.cli.chat.items import (
    Called,
    Item,
    Listing,
    Note,
    Returned,
    Said,
    SpeechEnded,
    Spoke,
    Status,
    Thought,
)
from treadle.cli.chat.lines import Lines, Prompts
from treadle.cli.chat.store import Draft
from treadle.folders import find_folders
from treadle.sanitise import clean, clean_line

# So much silence makes a person wonder.
SILENT_SECONDS = 5.0
# After that it is told half as often each time: it has been seen.
LESS_OFTEN = 2
# Enough of a tool's result to see what it is about.
RESULT_LINES = 3
# Two lines or three of a usual terminal, which wraps them.
RESULT_LINE_CHARACTERS = 200

# Stands before what the person says, as it does in a quoted mail.
_MARK = "> "


async def chat_in_lines(agent: str, instance: str, *, own: bool) -> int:
    """Chat with one session by lines; return the exit code of the worst that happened.

    Raises:
        RemoteError: the session cannot be opened.
        OSError: what happens cannot be told.
    """
    face = Plain(interactive=sys.stdin.isatty())
    prompts = Prompts()
    async with conversation_with(face, agent, instance, own=own) as chat:

        def end() -> None:
            chat.leave(exit_codes.INTERRUPTED)

        with (
            signals(chat.interrupt, end),
            warnings_told(lambda text: face.show(Note(text, "warning"))),
        ):
            code = await _converse(chat, face, prompts)
    unsent = [*chat.unsent, prompts.unfinished or ""]
    if any(unsent):
        Draft(find_folders().data, **chat.address).save("\n".join(filter(None, unsent)))
    return code or chat.hearing.worst


async def _converse(chat: Conversation, face: Plain, prompts: Prompts) -> int:
    telling = asyncio.create_task(face.tell_of_silence())
    try:
        await chat.open()
        if face.interactive:
            _offer_draft(chat, face)
        await _take_lines(chat, face, prompts)
        await chat.idle()
        chat.leave(exit_codes.OK)
        return await chat.left
    finally:
        telling.cancel()


async def _take_lines(chat: Conversation, face: Plain, prompts: Prompts) -> None:
    """Take line after line, until there are no more or the chat is left."""
    lines = Lines()
    while not chat.left.done():
        # A person may steer what runs; what comes from a pipe waits its turn.
        if not face.interactive:
            await chat.idle()
        marking = asyncio.create_task(face.mark_when_idle(chat, prompts))
        reading = asyncio.ensure_future(lines.next())
        ends: list[asyncio.Future[Any]] = [reading, chat.left]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        marking.cancel()
        if not reading.done():
            reading.cancel()
            return
        line = reading.result()
        if line is None:
            _refuse_unfinished(chat, face, prompts)
            return
        _take(chat, prompts.take(line))


def _take(chat: Conversation, prompt: tuple[str, bool] | None) -> None:
    if prompt is None:
        return
    text, is_block = prompt
    if is_block:
        chat.say(text)
    else:
        chat.submit(text)


def _refuse_unfinished(chat: Conversation, face: Plain, prompts: Prompts) -> None:
    if prompts.unfinished is not None:
        chat.hearing.count(exit_codes.USAGE)
        face.show(
            Note('the last """ was never closed; what stands behind it was not sent', "error")
        )


def _offer_draft(chat: Conversation, face: Plain) -> None:
    if draft := Draft(find_folders().data, **chat.address).load():
        face.offer(draft)


class Plain:
    """A face that writes lines.

    Args:
        interactive: whether a person types the lines.
    """

    def __init__(self, *, interactive: bool) -> None:
        self.interactive = interactive
        self._marks = interactive and sys.stderr.isatty()
        self._in_line = False  # whether standard output stands behind text
        self._held = ""  # half of a line end
        self._status = Status("", "")
        self._told_at = time.monotonic()

    def show(self, item: Item) -> None:
        """Write one more thing."""
        self._told_at = time.monotonic()
        match item:
            case Spoke(text):
                self._speak(text)
            case SpeechEnded():
                self._end_line()
            case Said(text, typed):
                if not typed:
                    self._out("".join(f"{_MARK}{line}\n" for line in clean(text).split("\n")))
            case Listing(text):
                self._out(clean(text) + "\n")
            case _:
                self._beside(_beside(item))

    def status(self, status: Status) -> None:
        """Tell of a hint; what goes on is told only when it takes long."""
        before, self._status = self._status, status
        if status.hint and status.hint != before.hint and not status.is_turn:
            self._beside(f"treadle: {status.hint}")

    def offer(self, draft: str) -> None:
        """Show words that were never sent: a line that is being typed cannot be filled in."""
        self.show(Note("these words were never sent:"))
        self._beside("\n".join(f"  {line}" for line in clean(draft).split("\n")))

    async def mark_when_idle(self, chat: Conversation, prompts: Prompts) -> None:
        """Show that a line is waited for, to a person."""
        await chat.idle()
        if self._marks and prompts.unfinished is None:
            self._end_line()
            print(_MARK, end="", file=sys.stderr, flush=True)

    async def tell_of_silence(self) -> None:
        """Tell now and then that something still goes on, while nothing else is told."""
        step, quiet_from = SILENT_SECONDS, self._told_at
        while True:
            if self._told_at != quiet_from or not self._status.doing:
                step, quiet_from = SILENT_SECONDS, self._told_at
            await asyncio.sleep(step)
            if self._status.doing and self._told_at == quiet_from:
                waited = wording.duration(time.monotonic() - self._status.since)
                self._beside(f"[still {clean_line(self._status.doing)}, {waited}]")
                step *= LESS_OFTEN

    def _speak(self, text: str) -> None:
        """Write a piece; half of a line end waits for its other half."""
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        self._out(clean(text.removesuffix("\r")))

    def _end_line(self) -> None:
        held, self._held = self._held, ""
        if self._in_line or held:
            self._out("\n")

    def _out(self, text: str) -> None:
        if text:
            print(text, end="", flush=True)
            self._in_line = not text.endswith("\n")

    def _beside(self, text: str) -> None:
        # On one screen a line of ours would begin behind the answer's last word.
        if self._in_line and sys.stdout.isatty():
            self._out("\n")
        streams.tell(text)


def _beside(item: Item) -> str:
    """Return what standard error says of an item."""
    match item:
        case Note(text):
            return "\n".join(f"treadle: {line}" for line in clean(text).split("\n"))
        case Thought(text, seconds, in_full):
            head = f"[{wording.thought(text, seconds)}]"
            return f"{head}\n{clean(text).strip()}" if in_full else head
        case Called(name, arguments):
            head = f"[{clean_line(f'{name} {wording.arguments(arguments)}')}]"
            changed = wording.fold_changes(wording.changes(name, arguments))
            return "\n".join([head, *(f"  {clean_line(line)}" for line in changed)])
        case Returned():
            return _result(item)
    raise AssertionError(f"not for standard error: {item}")


def _result(result: Returned) -> str:
    head = wording.result_head(clean_line(result.name), result.ok, result.truncated, result.seconds)
    content = wording.fold(clean(result.content), RESULT_LINES, RESULT_LINE_CHARACTERS)
    return "\n".join(f"  {line}" for line in [head, *content] if line)
