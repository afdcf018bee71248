"""A server that is spoken with: what it is asked, how long that may take, and what comes of it.

Owns deadlines, the pages of lists, the rounds of a call that asks something back, and that each
promise ends by an answer or by `RemoteError`. Refuses to know how messages come and go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import mcp_types as types
import msgspec
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, HEADER_MISMATCH
from pydantic import ValidationError

from treadle.mcp.judging import Judge
from treadle.mcp.lost import Lost
from treadle.mcp.remote import (
    Era,
    Host,
    Progress,
    RemoteError,
    RemotePrompt,
    RemoteResource,
    RemoteResult,
    RemoteTool,
)
from treadle.mcp.sdk import plain
from treadle.mcp.sdk.messages import TOOLS_BYTES
from treadle.mcp.sdk.refusal import told
from treadle.mcp.sdk.session import Session
from treadle.secrets import known
from treadle.tools.limits import cut_characters

# A list that is longer than this helps neither a model nor a person.
MOST_PAGES = 100
MOST_ENTRIES = 2_000

# How often a server may ask something back before it answers.
MOST_ROUNDS = 10

# How long a server is left alone that wants to be asked again, and nothing else.
ROUND_SECONDS = 0.25

# What is shown of an answer that is not what its tool promised.
TEXT_CHARACTERS = 4_000

# What is kept of a server's own name and version.
_NAME_CHARACTERS = 200

_EFFECTS = "; it may have had effects"
_CLOSED = "the connection was closed"

PageT = TypeVar("PageT", bound=types.PaginatedResult)
AnswerT = TypeVar("AnswerT")
_Inputs: TypeAlias = dict[str, types.InputResponse]


class Speaking:
    """The connection, as `remote.Connection` says.

    Args:
        session: it is open, and both sides have agreed how to speak.
        era: how.
        host: told what a person may want to know of a list.
        lost: told by the transport.
    """

    def __init__(self, session: Session, era: Era, host: Host, lost: Lost) -> None:
        self.era = era
        self.server = _name(session.server_info)
        self.offers = _offers(session.server_capabilities)
        self._session = session
        self._host = host
        self._lost = lost
        self._judges: dict[str, Judge] = {}
        self._waits: set[asyncio.Timeout] = set()
        self._is_over = False

    def end(self) -> None:
        """Let nobody wait any longer."""
        self._is_over = True
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(now)

    async def wait_lost(self) -> str:
        """Wait until nothing more can come; return why."""
        return await self._lost.wait()

    async def list_tools(self, seconds: float) -> tuple[RemoteTool, ...]:
        """Return all its tools."""
        return await self._within(seconds, self._tools)

    async def call(
        self, tool: str, arguments: dict[str, Any], *, seconds: float, progress: Progress
    ) -> RemoteResult:
        """Call a tool."""
        tell = progress

        # The SDK names the arguments.
        async def note(progress: float, total: float | None, message: str | None) -> None:
            tell(message or "", progress, total)

        async def ask(inputs: _Inputs | None, state: str | None) -> Any:
            return await self._session.call_tool(
                tool,
                arguments,
                progress_callback=note,
                input_responses=inputs,
                request_state=state,
                allow_input_required=True,
            )

        answer = await self._within(
            seconds, lambda: self._in_rounds(self._listed_again(ask)), effects=_EFFECTS
        )
        result = plain.result(answer)
        self._require_promised(tool, result)
        return result

    async def list_resources(self, seconds: float) -> tuple[RemoteResource, ...]:
        """Return all its resources, then the templates of some."""

        async def ask() -> tuple[RemoteResource, ...]:
            resources = await self._pages(
                lambda params: self._session.list_resources(params=params), "resources"
            )
            templates = await self._templates()
            return (*map(plain.resource, resources), *map(plain.template, templates))

        return await self._within(seconds, ask)

    async def read_resource(self, uri: str, seconds: float) -> tuple[dict[str, Any], ...]:
        """Return a resource's contents."""

        async def ask(inputs: _Inputs | None, state: str | None) -> Any:
            return await self._session.read_resource(
                uri, input_responses=inputs, request_state=state, allow_input_required=True
            )

        answer = await self._within(seconds, lambda: self._in_rounds(ask))
        return tuple(plain.plain(each) for each in answer.contents)

    async def list_prompts(self, seconds: float) -> tuple[RemotePrompt, ...]:
        """Return all its prompts."""

        async def ask() -> tuple[RemotePrompt, ...]:
            prompts = await self._pages(
                lambda params: self._session.list_prompts(params=params), "prompts"
            )
            return tuple(map(plain.prompt, prompts))

        return await self._within(seconds, ask)

    async def get_prompt(
        self, name: str, arguments: dict[str, str], seconds: float
    ) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Return a prompt's messages."""

        async def ask(inputs: _Inputs | None, state: str | None) -> Any:
            return await self._session.get_prompt(
                name,
                arguments,
                input_responses=inputs,
                request_state=state,
                allow_input_required=True,
            )

        answer = await self._within(seconds, lambda: self._in_rounds(ask))
        return tuple((each.role, plain.plain(each.content)) for each in answer.messages)

    async def _within(
        self, seconds: float, ask: Callable[[], Awaitable[AnswerT]], effects: str = ""
    ) -> AnswerT:
        """Ask something, and wait so long for what comes of it.

        Raises:
            RemoteError: nothing, or nothing good.
        """
        if self._is_over or self._lost.is_left or self._lost.why:
            raise RemoteError(self._lost.why or _CLOSED)
        wait = asyncio.timeout(seconds)
        self._waits.add(wait)
        try:
            async with wait:
                return await ask()
        except TimeoutError:
            raise self._ended(seconds, effects) from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise self._ended(None, effects) from None
            raise told(error) from None
        except (ValidationError, RuntimeError, ValueError, OSError) as error:
            raise told(error) from None
        finally:
            self._waits.discard(wait)

    def _ended(self, seconds: float | None, effects: str) -> RemoteError:
        """Say why there is no answer."""
        if self._lost.why:
            return RemoteError(f"{self._lost.why} while it answered{effects}")
        if self._is_over or self._lost.is_left:
            return RemoteError(f"{_CLOSED} while the server answered{effects}")
        if seconds is None:
            return RemoteError(f"the connection broke off while the server answered{effects}")
        return RemoteError(f"the server did not answer within {seconds:g} seconds{effects}")

    async def _tools(self) -> tuple[RemoteTool, ...]:
        tools = await self._pages(lambda params: self._session.list_tools(params=params), "tools")
        distinct: dict[str, types.Tool] = {}
        for each in tools:
            distinct.setdefault(each.name, each)
        self._judges = {
            name: Judge(each.output_schema) for name, each in distinct.items() if each.output_schema
        }
        return tuple(map(plain.tool, distinct.values()))

    async def _templates(self) -> list[Any]:
        try:
            return await self._pages(
                lambda params: self._session.list_resource_templates(params=params),
                "resource_templates",
            )
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                return []
            raise

    async def _pages(
        self,
        ask: Callable[[types.PaginatedRequestParams | None], Awaitable[PageT]],
        what: str,
    ) -> list[Any]:
        """Return what all pages of a list hold, within bounds."""
        found: list[Any] = []
        size_bytes = 0
        cursors: set[str] = set()
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await ask(types.PaginatedRequestParams(cursor=cursor) if cursor else None)
            found += getattr(page, what)
            size_bytes += len(page.model_dump_json()) if page.next_cursor else 0
            cursor = page.next_cursor
            if not cursor:
                return found[:MOST_ENTRIES]
            if cursor in cursors or len(found) >= MOST_ENTRIES or size_bytes > TOOLS_BYTES:
                break
            cursors.add(cursor)
        self._host.said("warning", f"the list of {what} has no end; {len(found)} of it are taken")
        return found[:MOST_ENTRIES]

    def _listed_again(
        self, ask: Callable[[_Inputs | None, str | None], Awaitable[Any]]
    ) -> Callable[[_Inputs | None, str | None], Awaitable[Any]]:
        """Ask once more where what we know of the tool is not what the server has by now."""

        async def asking(inputs: _Inputs | None, state: str | None) -> Any:
            try:
                return await ask(inputs, state)
            except MCPError as error:
                if error.code != HEADER_MISMATCH:
                    raise
            await self._tools()
            return await ask(inputs, state)

        return asking

    async def _in_rounds(self, ask: Callable[[_Inputs | None, str | None], Awaitable[Any]]) -> Any:
        """Ask, answer what the server asks back, and ask again."""
        answer = await ask(None, None)
        for _ in range(MOST_ROUNDS):
            if not isinstance(answer, types.InputRequiredResult):
                return answer
            # One after another: a person answers one question at a time.
            inputs = {
                key: await self._input(key, each)
                for key, each in (answer.input_requests or {}).items()
            }
            if not inputs:
                await asyncio.sleep(ROUND_SECONDS)
            answer = await ask(inputs or None, answer.request_state)
        raise RemoteError(
            f"the server asked something back {MOST_ROUNDS} times, and never answered"
        )

    async def _input(self, key: str, request: types.InputRequest) -> types.InputResponse:
        context = ClientRequestContext(session=self._session, request_id=key)
        answer = await self._session.dispatch_input_request(context, request)
        if isinstance(answer, types.ErrorData):
            raise RemoteError(f"the server asked for what it does not get: {answer.message}")
        return answer

    def _require_promised(self, tool: str, result: RemoteResult) -> None:
        """Go on with what a call came to.

        Raises:
            RemoteError: its structured content is not what the tool promises.
        """
        judge = self._judges.get(tool)
        if judge is None or result.is_error or result.structured is None:
            return
        try:
            judge.read(result.structured)
        except msgspec.ValidationError as error:
            text = "\n".join(each["text"] for each in result.blocks if each["type"] == "text")
            raise RemoteError(
                f"the tool's answer is not what it promises: {error}. Its text was: "
                f"{cut_characters(known().redact(text), TEXT_CHARACTERS)}"
            ) from None


def _name(info: types.Implementation | None) -> str:
    if info is None:
        return ""
    told = known().redact(f"{info.name} {info.version}".strip())
    return cut_characters(told, _NAME_CHARACTERS)


def _offers(told: types.ServerCapabilities | None) -> frozenset[str]:
    kinds = ("tools", "resources", "prompts")
    return frozenset(kind for kind in kinds if getattr(told, kind, None) is not None)
