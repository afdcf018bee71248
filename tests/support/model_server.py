"""A chat-completions server that misbehaves on request.

Owns an OpenAI-compatible endpoint on loopback, in the test's own event loop, and what it was
sent. Refuses to know Treadle: it is driven through its socket alone, like any real endpoint.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from support.waiting import Waitable

Request = dict[str, Any]


@dataclass
class Answer:
    """One streamed reply, and everything that can be wrong with it.

    Counts of chunks (`pause_after`, `drop_after`) count pieces of reasoning, text and calls in
    the order in which they are sent; the opening chunk that names the role is not counted.
    """

    text: str | list[str] = ""  # a string is sent word by word, a list piece by piece
    reasoning: str | list[str] = ""
    reasoning_field: str = "reasoning_content"  # or "reasoning"
    refusal: str = ""
    calls: list[tuple[str, str | dict[str, Any]]] = field(default_factory=list)
    call_index: bool = True  # False: chunks carry no `index`
    call_id: bool = True  # False: no call has an `id`
    call_prefix: str = "call_"  # what every `id` begins with; the call's index follows
    split_arguments: int = 0  # characters in a piece of arguments; 0 sends them whole
    interleave_calls: bool = False  # pieces of parallel calls take turns
    usage: dict[str, Any] | None = None
    finish_reason: str | None = ""  # "" fits the content; None sends none: a truncated answer

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: dict[str, Any] | str | None = None  # a body in place of the stream; a str as it is

    delay_seconds: float = 0  # before the first byte
    hang_up: bool = False  # instead of the first byte
    interval_seconds: float = 0  # before each piece
    pause_after: int | None = None  # then wait for `go_on`
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    drop_after: int | None = None  # then cut the connection

    stream_error: dict[str, Any] | str | None = None  # an error object after the content
    broken_chunk: bool = False  # half a JSON object after the content
    empty_choices: bool = False  # chunks with `choices: []` and null between the pieces
    keep_alive: bool = False  # comment lines between the pieces
    raw_events: list[str] = field(default_factory=list)  # data lines, as they are, at the end
    line_end: str = "\n"  # or "\r\n", or "\r"
    byte_by_byte: bool = False
    done: bool = True  # False: no [DONE]
    hold_done: bool = False  # wait for `go_on` before [DONE]


class ModelServer(Waitable):
    """Serves what `answer(request)` says, until the `async with` block ends.

    Args:
        answer: called with each request's decoded body, in order of arrival. What it raises is
            answered with status 500 and raised again when the block ends.
    """

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        super().__init__()
        self._answer = answer
        self._handlers: set[asyncio.Task[None]] = set()
        self._failures: list[Exception] = []
        self.base_url = ""
        self.requests: list[Request] = []
        self.bodies: list[bytes] = []  # of each request, as it came
        self.headers: list[dict[str, str]] = []  # of each request, names in lower case
        self.connections = 0  # how many were ever opened
        self.open_connections = 0
        self.open_requests = 0  # requests whose answer is under way

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()
        if self._failures and error is None:
            raise self._failures[0]

    async def _on_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        handler = asyncio.current_task()
        assert handler is not None
        self._handlers.add(handler)
        self._count(connections=1, open_connections=1)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the peer left, or the block ended: both are ordinary ends of a connection
        finally:
            writer.transport.abort()
            self._handlers.discard(handler)
            self._count(open_connections=-1)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other; a client that leaves ends an answer at once."""
        next_byte = asyncio.create_task(reader.read(1))
        try:
            while first := await next_byte:
                path, headers, body = await _read_request(first, reader)
                next_byte = asyncio.create_task(reader.read(1))
                self._count(open_requests=1)
                reply = asyncio.create_task(self._reply(path, headers, body, writer))
                try:
                    await asyncio.wait({reply, next_byte}, return_when=asyncio.FIRST_COMPLETED)
                    left = not reply.done() and next_byte.result() == b""
                    if left:
                        return
                    await reply
                finally:
                    await _stop(reply)
                    self._count(open_requests=-1)
        finally:
            await _stop(next_byte)

    async def _reply(
        self, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        if path.partition("?")[0] != "/v1/chat/completions":
            await _send(writer, 404, {}, _error_body({"message": f"no such path: {path}"}))
            return
        request = json.loads(body)
        self.requests.append(request)
        self.bodies.append(body)
        self.headers.append(headers)
        self.changed()
        try:
            answer = self._answer(request)
        except Exception as failure:
            self._failures.append(failure)
            answer = Answer(status=500, error=f"the test's answer function raised {failure!r}")
        await asyncio.sleep(answer.delay_seconds)
        if answer.hang_up:
            writer.close()
        elif answer.status != 200 or answer.error is not None:
            await _send(writer, answer.status, answer.headers, _error_body(answer.error))
        else:
            await _stream(writer, answer)

    def _count(self, **changes: int) -> None:
        for name, change in changes.items():
            setattr(self, name, getattr(self, name) + change)
        self.changed()


def in_order(*answers: Answer) -> Callable[[Request], Answer]:
    """Answer requests with `answers`, one after the other; one too many fails the test."""
    left = list(answers)

    def answer(request: Request) -> Answer:
        assert left, f"nobody expected a request that ends with {last_user_text(request)!r}"
        return left.pop(0)

    return answer


def memory(request: Request) -> Answer:
    """Answer with the name that the conversation holds, the one said last."""
    names = re.findall(r"[Mm]y name is (\w+)", "\n".join(map(_text, request["messages"])))
    text = f"Your name is {names[-1]}." if names else "I do not know your name."
    usage = {"prompt_tokens": 10 * len(request["messages"]), "completion_tokens": 5}
    return Answer(text, usage=usage)


def echo(request: Request) -> Answer:
    """Answer with what was said."""
    return Answer(last_user_text(request))


def last_user_text(request: Request) -> str:
    """Return the text of the request's last user message; empty when there is none."""
    said = [message for message in request["messages"] if message["role"] == "user"]
    return _text(said[-1]) if said else ""


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


async def _read_request(
    first: bytes, reader: asyncio.StreamReader
) -> tuple[str, dict[str, str], bytes]:
    head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return head[0].split(" ")[1], headers, body


async def _send(
    writer: asyncio.StreamWriter, status: int, headers: dict[str, str], body: bytes
) -> None:
    _write_head(
        writer,
        status,
        {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers},
    )
    writer.write(body)
    await writer.drain()


async def _stream(writer: asyncio.StreamWriter, answer: Answer) -> None:
    headers = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
    _write_head(writer, 200, headers | answer.headers)
    async for event in _events(writer, answer):
        step = 1 if answer.byte_by_byte else max(len(event), 1)
        for start in range(0, len(event), step):
            piece = event[start : start + step]
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _events(writer: asyncio.StreamWriter, answer: Answer) -> AsyncIterator[bytes]:
    """Yield the stream's events as bytes, pausing or cutting the connection where asked."""
    end = answer.line_end

    def event(data: str) -> bytes:
        return f"data: {data}{end}{end}".encode()

    yield event(_chunk({"role": "assistant", "content": ""}))
    sent = 0
    for delta in _deltas(answer):
        if sent == answer.pause_after:
            await answer.go_on.wait()
        if sent == answer.drop_after:
            break
        if answer.interval_seconds:
            await asyncio.sleep(answer.interval_seconds)
        if answer.keep_alive:
            yield f": still here{end}{end}".encode()
        if answer.empty_choices:
            yield event('{"id":"c","choices":[]}')
            yield event('{"id":"c","choices":null,"usage":null}')
        yield event(_chunk(delta))
        sent += 1
    if sent == answer.pause_after:
        await answer.go_on.wait()
    if answer.drop_after is not None:
        await writer.drain()
        writer.transport.abort()
        raise ConnectionResetError("dropped, as the test asked")
    for data in _tail(answer):
        if data == "[DONE]" and answer.hold_done:
            await answer.go_on.wait()
        yield event(data)


def _deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    for piece in _pieces(answer.reasoning):
        yield {answer.reasoning_field: piece}
    for piece in _pieces(answer.text):
        yield {"content": piece}
    if answer.refusal:
        yield {"refusal": answer.refusal}
    calls = [list(_call_deltas(answer, index)) for index in range(len(answer.calls))]
    while any(calls):
        for pieces in calls if answer.interleave_calls else [next(filter(None, calls))]:
            if pieces:
                yield {"tool_calls": [pieces.pop(0)]}


def _call_deltas(answer: Answer, index: int) -> Iterator[dict[str, Any]]:
    name, arguments = answer.calls[index]
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    place = {"index": index} if answer.call_index else {}
    identity = {"id": f"{answer.call_prefix}{index}", "type": "function"} if answer.call_id else {}
    step = answer.split_arguments
    first = "" if step else text
    yield {**place, **identity, "function": {"name": name, "arguments": first}}
    for start in range(0, len(text), step) if step else ():
        yield {**place, "function": {"arguments": text[start : start + step]}}


def _tail(answer: Answer) -> Iterator[str]:
    """Yield what comes after the content: faults, the reason it ended, usage, the end mark."""
    yield from answer.raw_events
    if answer.broken_chunk:
        yield '{"choices":[{"index":0,"delta":{"cont'
    if answer.stream_error is not None:
        yield json.dumps({"error": answer.stream_error})
    reason = answer.finish_reason
    if reason == "":
        reason = "tool_calls" if answer.calls else "stop"
    if reason is not None:
        yield _chunk({}, reason)
    if answer.usage is not None:
        yield json.dumps({"id": "c", "choices": [], "usage": answer.usage})
    if answer.done:
        yield "[DONE]"


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": [choice]})


def _pieces(text: str | list[str]) -> list[str]:
    return text if isinstance(text, list) else re.findall(r"\s*\S+\s*$|\s*\S+|\s+", text)


def _error_body(error: dict[str, Any] | str | None) -> bytes:
    if isinstance(error, str):
        return error.encode()
    return json.dumps({"error": error or {"message": "the test asked for this error"}}).encode()


def _write_head(writer: asyncio.StreamWriter, status: int, headers: dict[str, str]) -> None:
    lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))


async def _stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
        await task
