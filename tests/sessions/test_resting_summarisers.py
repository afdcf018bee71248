"""Failing summaries as clients see them: not waited for again at once, and told as they are."""

from __future__ import annotations

import pytest

from support.daemon import Daemon, RpcError
from support.model_server import Answer, ModelServer, Request
from support.person import conversation
from support.small_window import SUMMARY, counter, is_summary, summing_up, told, write_counting

REFUSED = Answer(status=401, error={"error": {"message": "who are you?"}})


def problems(client: Daemon) -> list[tuple[str, dict[str, str]]]:
    """Return what each compaction came to, and what its strategies could not do."""
    return [
        (
            one["outcome"],
            {each["name"]: each.get("problem", "") for each in one["strategies"]},
        )
        for one in client.of("session/compacted")
    ]


def asked(server: ModelServer) -> int:
    return sum(map(is_summary, server.requests))


async def test_a_summariser_that_refuses_is_asked_once_and_by_hand_again() -> None:
    write_counting()
    answers = [REFUSED]
    async with conversation(summing_up(lambda: answers[-1])) as (client, server):
        await told(client, 14)
        ends = problems(client)
        assert len(ends) > 1 and {outcome for outcome, _ in ends} == {"completed"}
        assert asked(server) == 1
        first, *others = [strategies["summarize"] for _, strategies in ends]
        assert "wants a key (401): who are you?" in first and not first.startswith("not asked")
        assert all(one.startswith("not asked, for it failed a short while ago") for one in others)
        answers.append(Answer(SUMMARY))
        result = await client.request("session/compact", counter())
        assert result["outcome"] == "completed"
        assert asked(server) == 2
        assert client.of("session/compacted")[-1]["summary"].startswith("## Objective")
        # It has answered, so it is asked by itself again.
        await told(client, 12, start=20)
        assert asked(server) > 2


async def test_an_endpoint_that_finds_a_small_conversation_too_long_is_told_as_it_is() -> None:
    write_counting()

    def too_long(_: Request) -> Answer:
        error = {"message": "too long", "code": "context_length_exceeded"}
        return Answer(status=400, error={"error": error})

    async with conversation(too_long) as (client, _):
        with pytest.raises(RpcError, match="context_overflow") as raised:
            await client.request("session/prompt", counter(prompt="Hello?"))
        said = str(raised.value)
        assert "does not fit" not in said
        assert "refuses the conversation as too long" in said
        assert "in a window that we take for 4000" in said and "`window` under" in said
