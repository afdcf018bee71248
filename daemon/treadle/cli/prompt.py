"""`treadle prompt`: say one thing to an agent and print its answer as it comes."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import typer

from treadle.cli import exit_codes
from treadle.cli.client import Client, RemoteError, client_of
from treadle.cli.options import (
    DEFAULT_AGENT,
    DEFAULT_INSTANCE,
    AgentOption,
    InstanceOption,
    JsonOption,
    NoDaemonOption,
)
from treadle.cli.person import AtTerminal
from treadle.cli.streams import say, tell, to_json
from treadle.process.waking import wake_on_signals

# Half a billion parameters are soon taken for all that there is.
EMBEDDED_NOTE = (
    "(The embedded model answered: it is tiny and often wrong. For a real one set TREADLE_MODEL, "
    "and OPENAI_BASE_URL and OPENAI_API_KEY as it needs.)"
)


# What a request is answered with that its client has withdrawn: LSP's RequestCancelled.
CANCELLED = -32800


class WhenBusy(enum.Enum):
    """What becomes of a prompt while a turn runs."""

    queue = "queue"
    reject = "reject"
    steer = "steer"


def prompt(
    text: Annotated[
        str | None,
        typer.Argument(help="What to say; without it, or with -, standard input is read."),
    ] = None,
    agent: AgentOption = DEFAULT_AGENT,
    instance: InstanceOption = DEFAULT_INSTANCE,
    as_json: JsonOption = False,
    key: Annotated[
        str | None,
        typer.Option(help="Under which this runs once, however often it is said, also anew."),
    ] = None,
    when_busy: Annotated[
        WhenBusy, typer.Option(help="While a turn runs: wait, be refused, or enter it.")
    ] = WhenBusy.queue,
    no_daemon: NoDaemonOption = False,
) -> None:
    """Say one thing to an agent; it remembers what was said to the same instance before."""
    said = text if text is not None and text != "-" else _standard_input()
    asked = {"agent": agent, "instance": instance, "prompt": said, "whenBusy": when_busy.value}
    if key is not None:
        asked["key"] = key
    raise typer.Exit(asyncio.run(_prompt(asked, as_json=as_json, own=no_daemon)))


def _standard_input() -> str:
    """Read the prompt from standard input, without the line end that closes it."""
    if sys.stdin.isatty():
        tell("treadle: type the prompt, and end it with Ctrl-D on a new line")
    return sys.stdin.read().removesuffix("\n")


async def _prompt(asked: dict[str, Any], *, as_json: bool, own: bool) -> int:
    address = {name: asked[name] for name in ("agent", "instance")}
    heard = _Heard()
    show = _print_json if as_json else heard.take
    person = AtTerminal()
    # A script that is killed takes its turn along, as one does that has a daemon of its own.
    async with client_of(show, person.answer, own=own, can_ask=person.is_there) as client:
        is_behind = False
        if client.is_shared:
            opened = await client.request("session/resume", address)
            _tell_where(opened)
            is_behind = opened["state"] != "idle"
        async with _interrupts_cancel(client, address, is_behind=is_behind):
            try:
                result = await client.request("session/prompt", asked)
            except RemoteError as error:
                is_cancelled = error.error["code"] == CANCELLED
                if not (as_json or is_cancelled):
                    raise
                if as_json:
                    _print_json("error", error.error)
                return exit_codes.INTERRUPTED if is_cancelled else exit_codes.of_error(error.reason)
        if as_json:
            _print_json("result", result)
        else:
            model = await client.model_of(address["agent"]) if result["text"] else ""
            if not heard.has_spoken:
                say(result["text"], end="")  # what a prompt of the same key was answered before
            _finish(result, embedded=model == "embedded")
    return exit_codes.of_stop_reason(result["stopReason"])


@contextlib.asynccontextmanager
async def _interrupts_cancel(
    client: Client, address: dict[str, str], *, is_behind: bool
) -> AsyncIterator[None]:
    """Let Ctrl-C cancel the turn, so that what was said is kept and the daemon ends in order.

    Args:
        client: asks the daemon.
        address: the session.
        is_behind: another client's turn runs there, which is not to be cancelled.
    """
    loop = asyncio.get_running_loop()
    cancels: set[asyncio.Task[Any]] = set()

    def cancel() -> None:
        if is_behind:
            client.cancel("session/prompt")
            return
        cancels.add(asyncio.ensure_future(client.request("session/cancel", dict(address))))

    wake_on_signals(loop)
    before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(cancel))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        await asyncio.gather(*cancels)


def _tell_where(opened: dict[str, Any]) -> None:
    """Say where the session works, if that is not here: others watch it there."""
    cwd = opened.get("cwd")
    if cwd is not None and not _is_here(cwd):
        tell(f"treadle: this session works in {cwd}, where others have it open")


def _is_here(folder: str) -> bool:
    try:
        return Path(folder).samefile(os.curdir)
    except OSError:
        return False


class _Heard:
    """What is heard of the turn, printed as it comes; `has_spoken` once that was text."""

    has_spoken = False

    def take(self, method: str, params: dict[str, Any]) -> None:
        """Take a notification."""
        if method == "session/delta" and params["kind"] == "text" and "task" not in params:
            self.has_spoken = True
        _print_event(method, params)


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
