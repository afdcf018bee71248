"""Notifications that a client does not want."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.daemon import Daemon, daemon
from treadle.protocol.methods import own_names

# What the turn below causes: agents change by themselves, its tool has no progress to tell, there
# is no MCP server, nothing fills a window or asks anybody, and no other client is there.
OF_A_TURN = [
    name
    for name in own_names("event")
    if name not in ("agent/changed", "mcp/status", "session/toolProgress")
    and name not in ("session/compacting", "session/compacted")
    and name not in ("session/said", "session/asked", "session/settled")
]

PAIR = {"agent": "assistant", "instance": "a"}
SCRIPT = [
    {
        "error": {
            "reason": "model_rate_limited",
            "message": "Too fast.",
            "retry_after_seconds": 0.01,
        }
    },
    {"text": "Let me look.", "calls": [{"name": "read", "arguments": {"path": "a.txt"}}]},
    {"text": "It says hello.", "reasoning": "Easy."},
]


async def _one_turn(client: Daemon) -> set[str]:
    """Run a turn that causes all of `OF_A_TURN`; return those that came."""
    await client.request("session/prompt", {**PAIR, "prompt": "What does a.txt say?"})
    return {event["method"] for event in client.events}


@pytest.fixture
def script(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "a.txt").write_text("hello")
    path = tmp_path / "script.jsonl"
    path.write_text("\n".join(map(json.dumps, SCRIPT)))
    return {"TREADLE_MODEL": f"scripted:{path}"}


async def test_a_silent_client_gets_every_notification(
    script: dict[str, str], tmp_path: Path
) -> None:
    async with daemon(env=script, initialize=False) as client:
        await client.initialize(rootUri=tmp_path.as_uri())
        assert await _one_turn(client) == set(OF_A_TURN)


@pytest.mark.parametrize("unwanted", OF_A_TURN)
async def test_a_notification_that_was_opted_out_of_never_comes_and_the_others_do(
    unwanted: str, script: dict[str, str], tmp_path: Path
) -> None:
    async with daemon(env=script, initialize=False) as client:
        await client.initialize(
            rootUri=tmp_path.as_uri(),
            capabilities={"experimental": {"treadle": {"optOut": [unwanted, "no/such"]}}},
        )
        assert await _one_turn(client) == set(OF_A_TURN) - {unwanted}
        numbers = [event["params"]["seq"] for event in client.events]
        assert numbers == sorted(numbers)


async def test_a_client_may_opt_out_of_everything(script: dict[str, str], tmp_path: Path) -> None:
    async with daemon(env=script, initialize=False) as client:
        await client.initialize(
            rootUri=tmp_path.as_uri(),
            capabilities={"experimental": {"treadle": {"optOut": own_names("event")}}},
        )
        assert await _one_turn(client) == set()
