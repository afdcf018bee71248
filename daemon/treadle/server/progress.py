"""What a client hears of its own request under the tokens that it gave: `$/progress`.

Owns begin, report and end, which tokens are in use, and what is held back for a slow client.
Refuses to know what is asked, and how a prompt is stopped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.compaction.told import Compacted, Compacting
from treadle.errors import InvalidParams, TreadleError
from treadle.models.completion import Delta
from treadle.protocol.base import ProgressToken, WireStruct
from treadle.protocol.editor import (
    PartialReasoning,
    PartialText,
    ProgressParams,
    ProgressValue,
    WorkDoneBegin,
    WorkDoneEnd,
    WorkDoneReport,
)
from treadle.runtime.outbox import TurnEnded, TurnPayload
from treadle.secrets import known
from treadle.server.bridge_compaction import compact_result, compaction_words
from treadle.server.joining import Joined, is_late
from treadle.turn.events import Retrying, StepStarted, ToolCallStarted, ToolProgressed

Send: TypeAlias = Callable[[str, WireStruct], None]
"""Sends one notification. Contract: must not raise or block."""

Aside: TypeAlias = Callable[[Coroutine[Any, Any, Any]], None]
"""Does something that no request waits for, until it ends or the connection does."""

Stop: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]
"""Stops what is shown; called when the client wants that."""

# An editor shows one line, and not a long one.
MAX_MESSAGE_CHARACTERS = 80


@dataclass(slots=True)
class _Held:
    """Neighbouring deltas of one kind that have not been sent."""

    kind: Literal["text", "reasoning"]
    joined: Joined = field(default_factory=Joined)


class Progress:
    """One request's progress, under one or two tokens.

    Args:
        send: sends one notification.
        pending_bytes: how much of what was sent the client has not taken.
        work_done: the token for what goes on.
        partial: the token for pieces of the answer.
        title: what the work is.
        stop: stops it.
    """

    def __init__(
        self,
        send: Send,
        pending_bytes: Callable[[], int],
        *,
        work_done: ProgressToken | None,
        partial: ProgressToken | None,
        title: str,
        stop: Stop,
    ) -> None:
        self._send = send
        self._pending_bytes = pending_bytes
        self._work_done = work_done
        self._partial = partial
        self._title = title
        self._held: _Held | None = None
        self._sent: list[str] = []
        self._is_shown = False
        self._saying = ""
        self._end_message = ""
        self.stop = stop

    def begin(self) -> None:
        """Say that the work begins."""
        if self._work_done is not None:
            self._is_shown = True
            self._tell(self._work_done, WorkDoneBegin(title=self._title, cancellable=True))

    def take(self, payload: StepStarted | TurnPayload) -> None:
        """Tell of an event of what was asked for what belongs under the tokens."""
        if isinstance(payload, StepStarted):
            self._saying = ""
            self._report("waiting for the model")
        elif isinstance(payload, Delta):
            self._take_delta(payload)
        elif isinstance(payload, ToolCallStarted):
            arguments = msgspec.json.encode(payload.call.arguments).decode()
            self._report(f"{payload.call.name} {arguments}")
        elif isinstance(payload, ToolProgressed):
            self._report(f"{payload.call.name} {payload.message}")
        elif isinstance(payload, Retrying):
            self._report(f"{payload.reason}: again in {payload.retry_in_seconds:.0f} s")
        elif isinstance(payload, Compacting):
            self._report(f"compacting a conversation of {payload.tokens:,} tokens")
        elif isinstance(payload, Compacted):
            self._end_message = compaction_words(compact_result(payload))
            self._report(self._end_message)
        elif isinstance(payload, TurnEnded):
            self._end_message = payload.error.message if payload.error else payload.done.stop_reason

    def has_sent(self, text: str) -> bool:
        """Whether a text has gone out in parts, to its end."""
        return self._partial is not None and "".join(self._sent).endswith(text)

    def release(self) -> None:
        """Send what was held back for a slow client."""
        held, self._held = self._held, None
        if held is not None and self._partial is not None:
            piece = PartialText if held.kind == "text" else PartialReasoning
            self._tell(self._partial, piece(text=held.joined.text))

    def end(self, error: TreadleError | None) -> None:
        """Say that the work is over; nothing follows but the request's reply."""
        self.release()
        if self._is_shown and self._work_done is not None:
            message = error.message if error else self._end_message
            self._is_shown = False
            self._tell(self._work_done, WorkDoneEnd(message=_one_line(message)))

    def _take_delta(self, delta: Delta) -> None:
        if delta.kind != self._saying:
            self._saying = delta.kind
            self._report("answering" if delta.kind == "text" else "thinking")
        if self._partial is None:
            return
        if self._held is not None and self._held.kind != delta.kind:
            self.release()
        if self._held is None:
            self._held = _Held(delta.kind)
        self._held.joined.add(delta.text)
        if delta.kind == "text":
            self._sent.append(delta.text)
        if self._held.joined.is_full or not is_late(self._pending_bytes()):
            self.release()

    def _report(self, message: str) -> None:
        if self._is_shown and self._work_done is not None:
            self._tell(self._work_done, WorkDoneReport(message=_one_line(message)))

    def _tell(self, token: ProgressToken, value: ProgressValue) -> None:
        self._send("$/progress", ProgressParams(token=token, value=value))


class ProgressBoard:
    """Every progress of one client, by its tokens.

    Args:
        send: sends one notification.
        pending_bytes: how much of what was sent the client has not taken.
        aside: does what no request waits for.
    """

    def __init__(self, send: Send, pending_bytes: Callable[[], int], aside: Aside) -> None:
        self._send = send
        self._pending_bytes = pending_bytes
        self._aside = aside
        self._by_token: dict[ProgressToken, Progress] = {}

    @contextlib.contextmanager
    def shown(
        self,
        *,
        work_done: ProgressToken | None,
        partial: ProgressToken | None,
        title: str,
        stop: Stop,
        agreed: Callable[[], Awaitable[bool]] | None = None,
    ) -> Iterator[Progress | None]:
        """Show progress from begin to end while the `with` block runs.

        Args:
            work_done: the token for what goes on.
            partial: the token for pieces of the answer.
            title: what the work is.
            stop: stops it.
            agreed: asked first, where the token is ours and not the client's.

        Yields:
            What takes the turn's events; None where nobody wants to hear of them.

        Raises:
            InvalidParams: a token is in use already.
        """
        if work_done is None and partial is None:
            yield None
            return
        tokens = self._free_tokens(work_done, partial)
        progress = Progress(
            self._send,
            self._pending_bytes,
            work_done=work_done,
            partial=partial,
            title=title,
            stop=stop,
        )
        # A client may give the same token for both.
        mine = dict.fromkeys(tokens, progress)
        self._by_token |= mine
        error: TreadleError | None = None
        try:
            if agreed is None:
                progress.begin()
            else:
                self._aside(self._begin_when_agreed(progress, agreed))
            yield progress
        except TreadleError as caught:
            error = caught
            raise
        finally:
            for token in mine:
                del self._by_token[token]
            progress.end(error)

    def cancel(self, token: ProgressToken) -> None:
        """Stop what is shown under a token; any other token is none of our business."""
        progress = self._by_token.get(token)
        if progress is not None:
            self._aside(progress.stop())

    def release_all(self) -> None:
        """Send what is held back: the client reads again."""
        for progress in self._by_token.values():
            progress.release()

    def _free_tokens(
        self, work_done: ProgressToken | None, partial: ProgressToken | None
    ) -> list[ProgressToken]:
        """Return the tokens that were given.

        Raises:
            InvalidParams: one is in use already.
        """
        tokens = {"workDoneToken": work_done, "partialResultToken": partial}
        for name, token in tokens.items():
            if token in self._by_token:
                raise InvalidParams(f"the token {token!r} is in use; take another one", path=name)
        return [token for token in tokens.values() if token is not None]

    async def _begin_when_agreed(
        self, progress: Progress, agreed: Callable[[], Awaitable[bool]]
    ) -> None:
        if await agreed() and progress in self._by_token.values():
            progress.begin()


def _one_line(text: str) -> str:
    # Before it is cut, for half a secret is not recognised any more.
    line = " ".join(known().redact(text).split())
    if len(line) <= MAX_MESSAGE_CHARACTERS:
        return line
    return line[: MAX_MESSAGE_CHARACTERS - 1] + "…"
