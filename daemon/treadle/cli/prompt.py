"""`treadle prompt`: say one thing to an agent and print its answer as it comes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from typing import Annotated, Any

import typer

from treadle.cli import exit_codes
from treadle.cli.client import Client, RemoteError, local_client
from treadle.cli.options import (
    DEFAULT_AGENT,
    DEFAULT_INSTANCE,
    AgentOption,
    InstanceOption,
    JsonOption,
)
from treadle.cli.person import AtTerminal
from treadle.cli.streams import say, tell, to_json
from treadle.process.waking import wake_on_signals

# Half a billion parameters are soon taken for all that there is.
EMBEDDED_NOTE = (
    "(The embedded model answered: it is tiny and often wrong. For a real one set TREADLE_MODEL, "
    "and OPENAI_BASE_URL and OPENAI_API_KEY as it needs.)"
)


def prompt(
    text: Annotated[
        str | None,
        typer.Argument(help="What to say; without it, or with -, standard input is read."),
    ] = None,
    agent: AgentOption = DEFAULT_AGENT,
    instance: InstanceOption = DEFAULT_INSTANCE,
    as_json: JsonOption = False,
) -> None:
    """Say one thing to an agent; it remembers what was said to the same instance before."""
    said = text if text is not None and text != "-" else _standard_input()
    raise typer.Exit(asyncio.run(_prompt(agent, instance, said, as_json)))


def _standard_input() -> str:
    """Read the prompt from standard input, without the line end that closes it."""
    if sys.stdin.isatty():
        tell("treadle: type the prompt, and end it with Ctrl-D on a new line")
    return sys.stdin.read().removesuffix("\n")


async def _prompt(agent: str, instance: str, text: str, as_json: bool) -> int:
    address = {"agent": agent, "instance": instance}
    show = _print_json if as_json else _print_event
    person = AtTerminal()
    async with local_client(show, person.answer, can_ask=person.is_there) as client:
        async with _interrupts_cancel(client, address):
            try:
                result = await client.request("session/prompt", {**address, "prompt": text})
            except RemoteError as error:
                if as_json:
                    _print_json("error", error.error)
                    return exit_codes.FAILED
                raise
        if as_json:
            _print_json("result", result)
        else:
            is_embedded = bool(result["text"]) and await client.model_of(agent) == "embedded"
            _finish(result, embedded=is_embedded)
    return exit_codes.of_stop_reason(result["stopReason"])


@contextlib.asynccontextmanager
async def _interrupts_cancel(client: Client, address: dict[str, str]) -> AsyncIterator[None]:
    """Let Ctrl-C cancel the turn, so that what was said is kept and the daemon ends in order."""
    loop = asyncio.get_running_loop()
    cancels: set[asyncio.Task[Any]] = set()

    def cancel() -> None:
        cancels.add(asyncio.ensure_future(client.request("session/cancel", dict(address))))

    wake_on_signals(loop)
    before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(cancel))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        await asyncio.gather(*cancels)


def _print_event(method: str, params: dict[str, Any]) -> None:
    if "task" in params:
        _print_task(method, params)
    elif method == "session/delta" and params["kind"] == "text":
        say(params["text"], end="")
    elif method == "session/toolCall":
        arguments = json.dumps(params["arguments"], ensure_ascii=False)
        tell(f"[{params['name']} {arguments}]")
    elif method == "session/retrying":
        tell(f"treadle: {params['reason']}; trying again in {params['retryInSeconds']:.0f} s")
    elif method == "session/compacted" and params["outcome"] == "completed":
        tokens = params["tokens"]
        tell(f"treadle: compacted from {tokens['before']:,} to {tokens['after']:,} tokens")


def _print_task(method: str, params: dict[str, Any]) -> None:
    """Tell what a sub-agent calls; what it says is told by the result of its task."""
    if method == "session/toolCall":
        arguments = json.dumps(params["arguments"], ensure_ascii=False)
        tell(f"[task {params['task']}: {params['name']} {arguments}]")


def _print_json(method: str, params: Any) -> None:
    print(to_json({method: params}), flush=True)


def _finish(result: dict[str, Any], *, embedded: bool) -> None:
    say("")
    if result["stopReason"] != "end_turn":
        tell(f"treadle: the turn ended early: {result['stopReason']}")
    if embedded:
        tell(EMBEDDED_NOTE)
