"""Providers keep what they have read of a prompt: its bytes stay as they are, as far as they may.

The endpoint is strict, so that nothing here holds for conversations alone that others refuse.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from support.daemon import Daemon, daemon
from support.model_server import Answer, ModelServer, Request, last_user_text
from support.person import on, pair, write_agent
from support.small_window import LONG, SUMMARY, is_summary
from support.strict_model import StrictModel

INSTRUCTIONS = "You count, and you never forget the rule of the seventh basket: \u00fcber alles."


class Counting:
    """Reads a file in each third turn, with two calls at once, and sums up when it is asked to."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self, request: Request) -> Answer:
        if is_summary(request):
            return Answer(SUMMARY)
        said = last_user_text(request)
        if said.startswith("read") and request["messages"][-1]["role"] == "user":
            self._calls += 1
            calls: list[tuple[str, str | dict[str, str]]] = [("read", {"path": "a.txt"})] * 2
            return Answer(calls=calls, call_prefix=f"c{self._calls}-")
        return Answer(f"Re {said[:20]}")


def is_of_turn(body: bytes) -> bool:
    return not is_summary(json.loads(body))


def conversation_of(body: bytes) -> bytes:
    """Return the bytes up to the end of the conversation."""
    return body[: body.index(b'],"tools":')]


def beside_of(body: bytes) -> tuple[bytes, bytes]:
    """Return what stands before the conversation, with its instructions, and what is behind it."""
    system = json.dumps(json.loads(body)["messages"][0]["content"], ensure_ascii=False).encode()
    at = body.index(system) + len(system)
    return body[:at], body[body.index(b'],"tools":') :]


async def say(client: Daemon, turns: range) -> None:
    for number in turns:
        prompt = f"{'read' if number % 3 == 0 else 'count'} {number} {LONG}"
        await client.request("session/prompt", pair("a", "counter", prompt=prompt))


async def talked(folder: Path, turns: int, window: int) -> tuple[list[bytes], int, StrictModel]:
    """Talk with a daemon, and then with another one; return turns' requests, and compactions."""
    (folder / "a.txt").write_text("apples\n" * 20, encoding="utf-8")
    (folder / "AGENTS.md").write_text("Pears are no apples.\n", encoding="utf-8")
    write_agent(
        "counter",
        INSTRUCTIONS,
        tools="[read, grep]",
        sandbox="local",
        cwd=json.dumps(str(folder)),
        compaction=f"{{window: {window}}}",
    )
    model = StrictModel(Counting())
    compactions = 0
    async with ModelServer(model) as server:
        for part in (range(turns // 2), range(turns // 2, turns)):
            async with daemon(env=on(server)) as client:
                await say(client, part)
                ended = client.of("session/compacted")
                compactions += sum(one["outcome"] == "completed" for one in ended)
        bodies = [body for body in server.bodies if is_of_turn(body)]
    return bodies, compactions, model


async def test_while_nothing_is_compacted_each_request_goes_on_where_the_one_before_ended(
    tmp_path: Path,
) -> None:
    bodies, compactions, model = await talked(tmp_path, turns=8, window=200_000)
    assert (len(bodies), compactions, model.refused) == (11, 0, [])
    for earlier, later in pairwise(bodies):
        assert conversation_of(later).startswith(conversation_of(earlier) + b",")
    assert len({beside_of(body) for body in bodies}) == 1


async def test_a_compaction_changes_what_is_behind_the_instructions_once_and_nothing_else(
    tmp_path: Path,
) -> None:
    bodies, compactions, model = await talked(tmp_path, turns=24, window=4_000)
    assert compactions >= 4 and model.refused == []
    goes_on = [
        conversation_of(later).startswith(conversation_of(earlier) + b",")
        for earlier, later in pairwise(bodies)
    ]
    assert goes_on.count(False) == compactions
    # Instructions before, tools behind: the same bytes after any number of compactions.
    (same,) = {beside_of(body) for body in bodies}
    assert "the seventh basket: \u00fcber alles.".encode() in same[0]
