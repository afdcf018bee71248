"""`treadle watch`: look on while others talk to an agent.

Owns that nothing is missed or told twice, also when the daemon is restarted meanwhile. Refuses to
answer what is asked: whoever watches only looks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Annotated, Any

import typer

from treadle.cli import exit_codes
from treadle.cli.client import Client, client_of
from treadle.cli.options import (
    DEFAULT_AGENT,
    DEFAULT_INSTANCE,
    AgentOption,
    InstanceOption,
    JsonOption,
)
from treadle.cli.streams import say, tell, to_json
from treadle.errors import DaemonGone

# Of a tool's result, what tells what it is about.
RESULT_CHARACTERS = 120


def watch(
    agent: AgentOption = DEFAULT_AGENT,
    instance: InstanceOption = DEFAULT_INSTANCE,
    as_json: JsonOption = False,
    since: Annotated[
        int | None, typer.Option(min=0, help="The `seq` to go on behind, where that is kept.")
    ] = None,
) -> None:
    """Show live what happens in a session of the shared daemon, until Ctrl-C; answers nothing."""
    watching = Watching({"agent": agent, "instance": instance}, since, as_json=as_json)
    try:
        asyncio.run(watching.run())
    except KeyboardInterrupt:
        raise typer.Exit(exit_codes.INTERRUPTED) from None


class Watching:
    """One session, as it is shown.

    Args:
        address: the session.
        since: the number of the last event that is known.
        as_json: each message is one line of JSON.
    """

    def __init__(self, address: dict[str, str], since: int | None, *, as_json: bool) -> None:
        self._address = address
        self._at: dict[str, Any] = {} if since is None else {"since": since}
        self._as_json = as_json
        self._in_line = False

    async def run(self) -> None:
        """Watch for ever.

        Raises:
            DaemonUnreachable: there is none, and none can be started.
            OSError: what happens cannot be shown.
        """
        async with client_of(self._take, own=False, stays=True) as client:
            while True:
                # One that dies while it is asked is noticed by what follows.
                with contextlib.suppress(DaemonGone):
                    await self._attach(client)
                tell(f"treadle: {(await client.broken()).message}")
                await client.reconnect()

    async def _attach(self, client: Client) -> None:
        seen = await client.request("session/attach", {**self._address, **self._at})
        if self._as_json:
            say(to_json({"session/attach": seen}))
        elif seen.get("snapshot"):
            if seen["truncated"]:
                tell("treadle: what happened meanwhile is not kept; `treadle sessions show` has it")
            self._show_snapshot(seen["snapshot"])
        self._at = {"since": seen["seq"], "epoch": seen["epoch"]}

    def _take(self, method: str, params: dict[str, Any]) -> None:
        if any(params.get(name) != value for name, value in self._address.items()):
            return
        if "seq" in params:
            self._at = {**self._at, "since": params["seq"]}
        if self._as_json:
            say(to_json({method: params}))
        elif "task" not in params and (show := _SHOWN.get(method)):
            show(self, params)

    def _show_snapshot(self, snapshot: dict[str, Any]) -> None:
        for message in snapshot["messages"]:
            if message["role"] == "user":
                self._line(f"> {message['content']}")
            elif message["role"] == "assistant" and message.get("content"):
                self._line(str(message["content"]))
        for part in snapshot["said"]:
            self._on_delta(part)
        if not snapshot["messages"]:
            self._line(f"[{snapshot['state']}]")
        for question in snapshot["pending"]:
            self._on_asked(question)

    def _on_said(self, params: dict[str, Any]) -> None:
        self._line(f"> {params['text']}")

    def _on_delta(self, params: dict[str, Any]) -> None:
        if params["kind"] == "text":
            say(params["text"], end="")
            self._in_line = True

    def _on_call(self, params: dict[str, Any]) -> None:
        self._line(f"[{params['name']} {json.dumps(params['arguments'], ensure_ascii=False)}]")

    def _on_result(self, params: dict[str, Any]) -> None:
        first = " ".join(params["content"].split())[:RESULT_CHARACTERS]
        self._line(f"  {'' if params['ok'] else 'failed: '}{first}")

    def _on_asked(self, params: dict[str, Any]) -> None:
        asked = params["params"]
        what = asked.get("detail") or "; ".join(one["text"] for one in asked["questions"])
        self._line(f"[asks: {what}]")

    def _on_settled(self, params: dict[str, Any]) -> None:
        self._line(f"[{params['outcome'].replace('_', ' ')}]")

    def _on_compacted(self, params: dict[str, Any]) -> None:
        tokens = params["tokens"]
        self._line(f"[compacted: {params['outcome']}, {tokens['before']:,} to {tokens['after']:,}]")

    def _on_retrying(self, params: dict[str, Any]) -> None:
        self._line(f"[{params['reason']}; trying again in {params['retryInSeconds']:.0f} s]")

    def _on_done(self, params: dict[str, Any]) -> None:
        if params["stopReason"] != "end_turn":
            self._line(f"[the turn ended: {params['stopReason']}]")
        self._end_line()

    def _on_state(self, params: dict[str, Any]) -> None:
        if params["state"] == "closed":
            self._line("[closed]")

    def _line(self, text: str) -> None:
        self._end_line()
        say(text)

    def _end_line(self) -> None:
        if self._in_line:
            say("")
            self._in_line = False


_SHOWN = {
    "session/said": Watching._on_said,
    "session/delta": Watching._on_delta,
    "session/toolCall": Watching._on_call,
    "session/toolResult": Watching._on_result,
    "session/asked": Watching._on_asked,
    "session/settled": Watching._on_settled,
    "session/compacted": Watching._on_compacted,
    "session/retrying": Watching._on_retrying,
    "session/done": Watching._on_done,
    "session/state": Watching._on_state,
}
