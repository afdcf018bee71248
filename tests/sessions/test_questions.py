"""The tool `ask` and the progress of calls, through `treadle serve`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.approving import (
    PERMISSION,
    QUESTIONS,
    answer,
    asked,
    careful_agent,
    client_that,
    here,
    results,
    states,
    withdrawn,
)
from support.daemon import daemon, serving_after
from support.person import write_config
from support.process import posix_only
from treadle.tools.ask import NOBODY

OPTED_IN = client_that(ask=True)
SECRET = "sk-never-to-be-seen-4711"


def ask(*questions: dict[str, Any]) -> dict[str, Any]:
    """A call of `ask`."""
    return {"name": "ask", "arguments": {"questions": list(questions)}}


COLOUR = {"id": "colour", "text": "Which colour?", "options": ["red", "blue"]}
SIZE = {"id": "size", "text": "Which size?"}


async def test_a_person_is_asked_and_the_model_reads_the_answers(tmp_path: Path) -> None:
    careful_agent(tmp_path, [ask(COLOUR, SIZE)], permissions="read_only")
    async with daemon(initialize=False) as client:
        await client.initialize(capabilities=OPTED_IN)
        running = client.ask("session/prompt", here(prompt="Go"))
        await client.until(lambda: len(client.asked) == 1)
        assert asked(client, QUESTIONS) == [
            {
                "agent": "careful",
                "instance": "test",
                "turn": 1,
                "question": 1,
                "expiresInSeconds": 600.0,
                "questions": [COLOUR, SIZE],
            }
        ]
        assert states(client) == ["running", "waiting"]
        # One has no answer, and one is to no question.
        answer(client, 0, answers={"colour": "green\nor so", "other": "x"})
        assert (await running)["text"] == "Done."
        assert await results(client) == ["colour: green\nor so\nsize: (no answer)"]
        assert states(client) == ["running", "waiting", "running", "idle"]
        assert await client.end() == 0


@pytest.mark.parametrize(
    "capabilities",
    [{}, {"window": {"showMessage": {}}}, client_that(requestPermission=True)],
    ids=json.dumps,
)
async def test_where_nobody_can_be_asked_the_model_is_told_to_decide(
    capabilities: dict[str, Any], tmp_path: Path
) -> None:
    careful_agent(tmp_path, [ask(COLOUR)])
    async with daemon(initialize=False) as client:
        await client.initialize(capabilities=capabilities)
        assert (await client.request("session/prompt", here(prompt="Go")))["text"] == "Done."
        assert client.asked == []
        assert await results(client) == [NOBODY]
        assert states(client) == ["running", "idle"]


@pytest.mark.parametrize(
    "result", [None, {}, {"answers": ["red"]}, {"answers": {"colour": 1}}, "red"], ids=json.dumps
)
async def test_answers_that_make_no_sense_are_none(result: Any, tmp_path: Path) -> None:
    careful_agent(tmp_path, [ask(COLOUR)])
    async with daemon(initialize=False) as client:
        await client.initialize(capabilities=OPTED_IN)
        client.answers[QUESTIONS] = lambda _: result
        await client.request("session/prompt", here(prompt="Go"))
        assert await results(client) == [NOBODY]


async def test_questions_that_nobody_answers_in_time_are_withdrawn(tmp_path: Path) -> None:
    careful_agent(tmp_path, [ask(COLOUR)])
    program = serving_after(
        tmp_path,
        "import treadle.runtime.respondent as respondent",
        "respondent.APPROVAL_SECONDS = 0.05",
    )
    async with daemon(initialize=False, program=program) as client:
        await client.initialize(capabilities=OPTED_IN)
        await client.request("session/prompt", here(prompt="Go"))
        assert await results(client) == [NOBODY]
        assert withdrawn(client) == [client.asked[0]["id"]]


async def test_a_cancel_withdraws_questions(tmp_path: Path) -> None:
    careful_agent(tmp_path, [ask(COLOUR)])
    async with daemon(initialize=False) as client:
        await client.initialize(capabilities=OPTED_IN)
        running = client.ask("session/prompt", here(prompt="Go"))
        await client.until(lambda: len(client.asked) == 1)
        await client.request("session/cancel", here())
        assert (await running)["stopReason"] == "cancelled"
        assert withdrawn(client) == [client.asked[0]["id"]]


async def test_a_secret_in_an_answer_reaches_neither_model_nor_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", SECRET)
    write_config('[secrets]\nnames = ["A_TOKEN"]')
    careful_agent(tmp_path, [ask(COLOUR)])
    async with daemon(initialize=False) as client:
        await client.initialize(capabilities=OPTED_IN)
        client.answers[QUESTIONS] = lambda _: {"answers": {"colour": f"{'x' * 5100} {SECRET}"}}
        await client.request("session/prompt", here(prompt="Go"))
        (result,) = await results(client)
        assert result.startswith("colour: xxxx")
        assert len(result.encode()) < 5200
        assert "sk-" not in str(client.log)


async def test_an_agent_whose_tools_are_without_ask_asks_nothing(tmp_path: Path) -> None:
    careful_agent(tmp_path, [ask(COLOUR)], tools="[read]")
    async with daemon(initialize=False) as client:
        await client.initialize(capabilities=OPTED_IN)
        await client.request("session/prompt", here(prompt="Go"))
        assert client.asked == []


async def test_two_questions_of_one_id_are_an_error_that_the_model_reads(tmp_path: Path) -> None:
    careful_agent(tmp_path, [ask(COLOUR, COLOUR)])
    async with daemon(initialize=False) as client:
        await client.initialize(capabilities=OPTED_IN)
        await client.request("session/prompt", here(prompt="Go"))
        assert client.asked == []
        assert await results(client) == ["Two questions have the same id; give each its own."]


@posix_only
async def test_progress_comes_at_a_pace_between_a_call_and_its_result(
    tmp_path: Path,
) -> None:
    command = "for n in $(seq 500); do echo line $n; done"
    call = {"name": "shell", "arguments": {"command": command}, "id": "c1"}
    careful_agent(tmp_path, [call])
    async with daemon(initialize=False) as client:
        await client.initialize(capabilities=client_that(requestPermission=True))
        client.answers[PERMISSION] = lambda _: {"outcome": "allow_once"}
        await client.request("session/prompt", here(prompt="Go"))
        told = client.of("session/toolProgress")
        assert 0 < len(told) < 100
        assert {params["id"] for params in told} == {"c1"}
        assert all(params["message"].startswith("line ") for params in told)
        names = [event["method"] for event in client.events]
        first, last = names.index("session/toolCall"), names.index("session/toolResult")
        places = [place for place, name in enumerate(names) if name == "session/toolProgress"]
        assert first < places[0] and places[-1] < last
        seqs = [event["params"]["seq"] for event in client.events]
        assert seqs == sorted(seqs)
