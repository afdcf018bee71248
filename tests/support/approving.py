"""An agent that asks before it acts, a client that answers, and what the thread keeps of that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.daemon import Daemon
from support.person import pair, stored, write_agent
from treadle.thread.records import APPROVAL_START, ApprovalRecord, decode_record

AGENT = "careful"
PERMISSION = "session/requestPermission"
QUESTIONS = "session/ask"
DIALOG = "window/showMessageRequest"


def client_that(**can: bool) -> dict[str, Any]:
    """Return the capabilities of a client that can answer something of ours."""
    return {"experimental": {"treadle": can}}


def write(path: str, text: str = "hello\n", call_id: str = "") -> dict[str, Any]:
    """A call of `write`."""
    named = {"id": call_id} if call_id else {}
    return {"name": "write", "arguments": {"path": path, "content": text}, **named}


def careful_agent(
    folder: Path, *replies: dict[str, Any] | list[dict[str, Any]], **front: Any
) -> Path:
    """Write an agent whose scripted model makes some batches of calls, and then says `Done.`, anew.

    Args:
        folder: for its script and its work.
        replies: each a model call's calls, or a whole line of the script.
        front: further keys of the agent's file.

    Returns:
        The folder that its tools work in.
    """
    lines = [{"calls": reply} if isinstance(reply, list) else reply for reply in replies]
    script = folder / "script.jsonl"
    script.write_text("\n".join(map(json.dumps, [*lines, {"text": "Done."}])))
    work = folder / "work"
    work.mkdir(exist_ok=True)
    keys = {
        "model": f"scripted:{script}",
        "permissions": "ask",
        "sandbox": "local",
        "cwd": work,
        **front,
    }
    write_agent(AGENT, **keys)
    return work


def here(instance: str = "test", **members: Any) -> dict[str, Any]:
    """Return the params of a method of that agent's session."""
    return pair(instance, AGENT, **members)


def asked(client: Daemon, method: str = PERMISSION) -> list[dict[str, Any]]:
    """Return the params of what the daemon has asked so far."""
    return [request["params"] for request in client.asked if request["method"] == method]


def answer(client: Daemon, number: int, **result: Any) -> None:
    """Answer one of the daemon's requests, by its place among all of them."""
    client.send({"jsonrpc": "2.0", "id": client.asked[number]["id"], "result": result})


def withdrawn(client: Daemon) -> list[Any]:
    """Return the ids of the daemon's requests that it has taken back."""
    return [params["id"] for params in client.of("$/cancelRequest")]


async def results(client: Daemon, instance: str = "test") -> list[str]:
    """Return what the session's calls came to."""
    read = await client.request("session/read", here(instance))
    return [one["content"] for one in read["messages"] if one["role"] == "tool"]


def approvals(instance: str = "test") -> list[ApprovalRecord]:
    """Return what the thread keeps of asking."""
    lines = stored(AGENT, instance).read_bytes().splitlines()
    found = [decode_record(line).approval for line in lines if line.startswith(APPROVAL_START)]
    return [record for record in found if record is not None]


def decisions(instance: str = "test") -> list[tuple[str, str, str]]:
    """Return tool, outcome and who decided, of each record."""
    return [(one.tool, one.outcome, one.by) for one in approvals(instance)]


def states(client: Daemon) -> list[str]:
    """Return the states that the session went through."""
    return [params["state"] for params in client.of("session/state")]
