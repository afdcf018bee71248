"""A name that nobody knows is told with the nearest one, and in short, however long it is."""

from __future__ import annotations

from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon

ENDLESS = "x" * 10_000_000


async def refusal(client: Daemon, method: str, params: dict[str, Any]) -> str:
    """Send what is refused; return the words."""
    with pytest.raises(RpcError) as caught:
        await client.request(method, params)
    return str(caught.value)


async def test_a_method_or_command_with_a_name_of_megabytes_is_refused_in_a_few_words() -> None:
    async with daemon() as client:
        told = [
            await refusal(client, ENDLESS, {}),
            await refusal(client, "workspace/executeCommand", {"command": ENDLESS}),
        ]
        await client.still_answers()
    name = repr("x" * 200) + "…"
    assert told == [
        f"-32601 no method {name} None",
        f"-32602 no command {name} {{'path': 'command'}}",
    ]
