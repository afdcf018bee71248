"""A session in this very process: `Session` as `import treadle` gives it, without a daemon.

Owns what a script sees of a session, and that all of it is given back. Refuses to know how a
session works: the runtime that carries it is the daemon's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from treadle.agents.options import SessionOptions
from treadle.compaction.told import Compacted, Compacting
from treadle.errors import ConfigurationError
from treadle.folders import find_folders
from treadle.mcp.status import ServerStatus
from treadle.models.completion import Delta
from treadle.permissions.modes import PermissionMode
from treadle.runtime import session as in_runtime
from treadle.runtime.compacting import CompactionAsked
from treadle.runtime.outbox import Pair, SessionEvent, StateChanged, TurnEnded
from treadle.runtime.prompt import Outcome, Prompt, Steered, WhenBusy
from treadle.runtime.runtime import Runtime
from treadle.stack.events import Events, Subscriber
from treadle.thread.message import Message
from treadle.thread.paths import validate_name
from treadle.turn.agent import prompt_messages
from treadle.turn.events import (
    Retrying,
    TaskTold,
    ToolCallStarted,
    ToolProgressed,
    ToolResultLanded,
)

# What subscribers hear, as agents' events are called where they are the same.
_NAMES: dict[type, str] = {
    Delta: "delta",
    ToolCallStarted: "tool_call",
    ToolProgressed: "tool_progress",
    ToolResultLanded: "tool_result",
    Retrying: "retrying",
    Compacting: "compacting",
    Compacted: "compacted",
    TurnEnded: "done",
    StateChanged: "state",
    ServerStatus: "mcp",
}


class Session:
    """The remembering session of a pair: the agent of the person's files, the daemon's threads.

    >>> async with await Session.resume("assistant", "user-42") as session:
    ...     outcome = await session.prompt("My name is Mac.")
    >>> outcome.text

    Make one with `Session.resume`. It has the pair's thread for itself until it is closed: a
    second one, here or in a daemon, gets ThreadLocked meanwhile.

    Attributes:
        agent: the agent's name.
        instance: the other half of the pair.
        path: the thread's file; None with `durability = "memory"`: then what was said lasts as
            long as this session.
    """

    def __init__(self, runtime: Runtime, pair: Pair, options: SessionOptions) -> None:
        self.agent, self.instance = pair
        self.path: Path | None = None
        self._runtime = runtime
        self._pair = pair
        self._options = options
        self._events = Events((*_NAMES.values(), "task"))
        self._is_closed = False

    @classmethod
    async def resume(
        cls,
        agent: str,
        instance: str,
        *,
        cwd: str | Path | None = None,
        model: str | None = None,
        tools: Collection[str] | None = None,
        permissions: PermissionMode | None = None,
        max_turns: int | None = None,
        data_dir: str | Path | None = None,
        config_dir: str | Path | None = None,
    ) -> Self:
        """Find or create a pair's thread and open it.

        Options narrow what the agent has, and never widen it.

        Args:
            agent: an agent's name: a file's in the configuration folder, or `assistant`.
            instance: any name; what was said under it is remembered under it.
            cwd: the folder that its tools work in. Without one, and where the agent names none,
                it sees no files.
            model: another model at the agent's own endpoint.
            tools: fewer tools.
            permissions: a stricter mode.
            max_turns: the most model calls of one prompt.
            data_dir: where threads lie; else `TREADLE_DATA_DIR`, else the platform's own folder.
            config_dir: where agents lie; else `TREADLE_CONFIG_DIR`, else the platform's own.

        Raises:
            InvalidParams: a name or an option that nothing could have.
            RequestFailed: no such agent, options that widen, a thread that somebody holds or
                that cannot be read: whatever `session/resume` answers.
            ConfigurationError: a folder that leads nowhere.
        """
        validate_name(agent, "agent")
        validate_name(instance, "instance")
        options = SessionOptions(
            cwd=None if cwd is None else _absolute(cwd),
            model=model,
            tools=None if tools is None else tuple(tools),
            permissions=permissions,
            max_turns=max_turns,
        )
        given = [None if one is None else str(one) for one in (data_dir, config_dir)]
        runtime = Runtime(await asyncio.to_thread(find_folders, *given))
        session = cls(runtime, Pair(agent, instance), options)
        try:
            thread, _ = await session._live().resume(options)
            session.path = thread.path
        except BaseException:
            await session.close()
            raise
        return session

    def on(self, name: str, fn: Subscriber) -> Self:
        """Subscribe `fn(session, payload)` to an event.

        The events are `state`, `mcp` (how one of the session's own MCP servers is doing, a
        `ServerStatus`), and of a turn `delta`, `tool_call`, `tool_progress`,
        `tool_result`, `retrying`, `compacting`, `compacted`, `task` and `done`, with the payloads
        that an agent's `on` gives. A `Compacted` has the messages that were given up (`gave_up`).

        Raises:
            ConfigurationError: an unknown event, or a coroutine function.
        """
        self._events.on(name, fn)
        return self

    async def prompt(
        self,
        prompt: str | Message | Sequence[Message],
        *,
        max_turns: int | None = None,
        when_busy: WhenBusy = "queue",
        key: str | None = None,
    ) -> Outcome:
        """Run one turn when its time comes, and wait for its outcome.

        Cancelling the caller stops the turn; what had been said is kept.

        Args:
            prompt: text, a message, or several messages.
            max_turns: this prompt's own bound on model calls.
            when_busy: while a turn runs: wait behind it, be refused, or enter it.
            key: under which the same prompt runs once, however often it is asked, also after a
                crash.

        Raises:
            ConfigurationError: the prompt says nothing, or the session is closed.
            InvalidParams: another prompt was asked under its key.
            Busy: something runs and the prompt does not want to wait.
            TreadleError: the turn ended with an error: the model's, a thread's.
        """
        asked = Prompt(
            messages=prompt_messages(prompt),
            options=self._options,
            max_turns=max_turns,
            when_busy=when_busy,
            key=key or None,
        )
        return await self._live().prompt(asked)

    async def steer(self, text: str) -> Steered:
        """Say something into the turn that runs; where none does, begin one and wait for nothing.

        Raises:
            ConfigurationError: it says nothing, or the session is closed.
        """
        return await self._live().steer(Prompt(prompt_messages(text), self._options))

    async def compact(self, instructions: str = "") -> Compacted:
        """Make the conversation shorter for the model, behind what was asked for before.

        Cancelling the caller stops it; the conversation is then as it was.

        Args:
            instructions: what is to be kept.

        Raises:
            ConfigurationError: the session is closed.
            RequestFailed: no model can answer, or the session cannot be opened.
        """
        return await self._live().compact(CompactionAsked(instructions, self._options))

    async def cancel(self) -> bool:
        """Stop the running turn or compaction. Return whether there was one."""
        return await self._live().cancel() is not None

    async def close(self) -> None:
        """Stop what runs and give everything back; a second call does nothing.

        Raises:
            StorageDegraded: not all that was said could be written; the message says where it is.
        """
        self._is_closed = True
        live = self._runtime.find(self._pair)
        try:
            if live is not None:
                await live.close()
        finally:
            await self._runtime.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _live(self) -> in_runtime.Session:
        """Return the runtime's session, with the subscribers told of what happens in it.

        Raises:
            ConfigurationError: this one is closed.
        """
        if self._is_closed:
            raise ConfigurationError("the session was closed; resume it again first")
        live = self._runtime.session(self._pair)
        live.outbox.watch(self._tell)
        return live

    def _tell(self, event: SessionEvent) -> None:
        payload = event.payload
        if type(payload) not in _NAMES:
            return  # what clients of a daemon tell each other
        if event.task is not None:
            told_of_task = TaskTold(event.task, _NAMES[type(payload)], payload)
            self._events.emit("task", self, told_of_task)
            return
        told = payload.done if isinstance(payload, TurnEnded) else payload
        self._events.emit(_NAMES[type(payload)], self, told)


def _absolute(path: str | Path) -> Path:
    """Return a folder as the runtime takes it; a script may write it as a shell does.

    Raises:
        ConfigurationError: it leads nowhere.
    """
    try:
        return Path(path).expanduser().absolute()
    except (RuntimeError, OSError) as error:
        raise ConfigurationError(
            f"cwd {str(path)!r} leads nowhere ({error}); write an absolute path"
        ) from error
