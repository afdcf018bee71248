"""Whatever an OpenAI-compatible model sends, the turn ends as the protocol says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.daemon import Daemon
from support.model_server import Answer, ModelServer, in_order
from support.person import conversation, pair

NOTES = {"one.txt": "first\n", "two.txt": "second\n", "three.txt": "third\n"}


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "client"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def _text(client: Daemon, kind: str = "text") -> str:
    return "".join(one["text"] for one in client.of("session/delta") if one["kind"] == kind)


def _results(server: ModelServer, request: int) -> list[tuple[str, str]]:
    """Return the results that a request tells, by the id of their call."""
    messages = server.requests[request]["messages"]
    return [(one["tool_call_id"], one["content"]) for one in messages if one["role"] == "tool"]


def _assert_in_order(client: Daemon, *instances: str) -> None:
    for instance in instances:
        seqs = [
            event["params"]["seq"]
            for event in client.events
            if event["params"].get("instance") == instance
        ]
        assert seqs == list(range(1, len(seqs) + 1))


async def test_text_and_reasoning_arrive_as_they_come_and_are_told_apart() -> None:
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    answer = Answer("Four it is.", reasoning="Two and two.", usage=usage)
    async with conversation(in_order(answer)) as (client, _):
        result = await client.request("session/prompt", pair("t", prompt="2 + 2?"))
        read = await client.request("session/read", pair("t"))

    assert _text(client) == result["text"] == "Four it is."
    assert _text(client, "reasoning") == read["messages"][1]["reasoning"] == "Two and two."
    assert result["usage"] == {
        "inputTokens": 7,
        "outputTokens": 5,
        "cachedTokens": 3,
        "reasoningTokens": 2,
    }
    [done] = client.of("session/done")
    assert done == {
        **pair("t"),
        "seq": done["seq"],
        "turn": 1,
        "stopReason": "end_turn",
        "text": "Four it is.",
        "usage": result["usage"],
    }


async def test_a_tool_reads_in_the_client_s_folder_and_the_model_goes_on(tmp_path: Path) -> None:
    answers = in_order(Answer(calls=[("read", {"path": "one.txt"})]), Answer("It says first."))
    root = _folder(tmp_path).as_uri()
    async with conversation(answers, rootUri=root) as (client, server):
        result = await client.request("session/prompt", pair("r", prompt="What does it say?"))

    assert (result["text"], result["steps"], result["messages"]) == ("It says first.", 2, [0, 3])
    [call] = client.of("session/toolCall")
    [landed] = client.of("session/toolResult")
    assert call == {
        **pair("r"),
        "seq": 2,
        "turn": 1,
        "id": "call_0",
        "name": "read",
        "arguments": {"path": "one.txt"},
        "capability": call["capability"],
    }
    assert "first" in landed["content"]
    assert (landed["id"], landed["ok"], landed["truncated"]) == ("call_0", True, False)
    assert _results(server, 1) == [("call_0", landed["content"])]
    _assert_in_order(client, "r")


async def test_results_of_parallel_calls_stand_in_the_order_of_the_calls(tmp_path: Path) -> None:
    calls: list[tuple[str, str | dict[str, Any]]] = [
        ("read", {"path": name}) for name in (*NOTES, "missing.txt")
    ]
    answers = in_order(
        Answer(calls=calls, interleave_calls=True, split_arguments=3), Answer("Read.")
    )
    root = _folder(tmp_path).as_uri()
    async with conversation(answers, rootUri=root) as (client, server):
        result = await client.request("session/prompt", pair("p", prompt="Read all"))

    assert result["stopReason"] == "end_turn"
    results = _results(server, 1)
    assert [call for call, _ in results] == ["call_0", "call_1", "call_2", "call_3"]
    for (_, content), text in zip(results, NOTES.values(), strict=False):
        assert text.strip() in content
    assert [one["ok"] for one in client.of("session/toolResult")] == [True, True, True, False]


async def test_calls_without_index_or_id_are_told_apart(tmp_path: Path) -> None:
    calls: list[tuple[str, str | dict[str, Any]]] = [
        ("read", {"path": "one.txt"}),
        ("read", {"path": "two.txt"}),
    ]
    answers = in_order(
        Answer(calls=calls, call_index=False),
        Answer(calls=calls[:1], call_index=False, call_id=False),
        Answer("Read."),
    )
    root = _folder(tmp_path).as_uri()
    async with conversation(answers, rootUri=root) as (client, server):
        result = await client.request("session/prompt", pair("i", prompt="Read"))

    assert (result["text"], result["steps"]) == ("Read.", 3)
    ids = [call for call, _ in _results(server, 2)]
    assert len(set(ids)) == 3
    asked = [
        call["id"]
        for message in server.requests[2]["messages"]
        for call in message.get("tool_calls") or ()
    ]
    assert ids == asked


async def test_arguments_that_cannot_be_used_come_back_as_results_to_act_on() -> None:
    bad = ["", "{}", "null", "[1]", '{"path": ', '{"path": 5}', "no json"]
    answers = [Answer(calls=[("read", arguments)]) for arguments in bad]
    answers.append(Answer(calls=[("reed", {"path": "x"})]))
    async with conversation(in_order(*answers, Answer("I give up."))) as (client, server):
        result = await client.request("session/prompt", pair("a", prompt="Read"))

    assert (result["text"], result["steps"]) == ("I give up.", len(bad) + 2)
    results = [content for _, content in _results(server, -1)]
    assert len(results) == len(bad) + 1
    assert all("path" in content for content in results[:-1]), results
    assert "'reed'" in results[-1]
    assert "read" in results[-1]
    for message in server.requests[-1]["messages"]:
        for call in message.get("tool_calls") or ():
            assert call["function"]["arguments"].startswith("{")


async def test_chunks_without_choices_and_keep_alives_are_skipped() -> None:
    answer = Answer("One two three", empty_choices=True, keep_alive=True, line_end="\r\n")
    async with conversation(in_order(answer)) as (client, _):
        result = await client.request("session/prompt", pair("e", prompt="Count"))

    assert (result["text"], result["stopReason"]) == ("One two three", "end_turn")


async def test_an_answer_that_is_cut_short_by_the_provider_says_so() -> None:
    answers = in_order(
        Answer("One two", finish_reason="length"),
        Answer(refusal="I will not."),
        Answer("Bad wo", finish_reason="content_filter"),
    )
    async with conversation(answers) as (client, _):
        outcomes = [
            await client.request("session/prompt", pair("c", prompt="Go on")) for _ in range(3)
        ]

    assert [(one["stopReason"], one["text"]) for one in outcomes] == [
        ("max_tokens", "One two"),
        ("refusal", "I will not."),
        ("refusal", "Bad wo"),
    ]


async def test_five_thousand_deltas_arrive_in_order_and_whole() -> None:
    pieces = [f"{number} " for number in range(5000)]
    async with conversation(in_order(Answer(pieces))) as (client, _):
        result = await client.request("session/prompt", pair("d", prompt="Count"))

    deltas = client.of("session/delta")
    assert sum(one.get("joined", 1) for one in deltas) == 5000
    assert _text(client) == result["text"] == "".join(pieces)
    seq = 1
    for event in client.events[1:-2]:
        seq += event["params"].get("joined", 1)
        assert event["params"]["seq"] == seq
    assert [one["params"]["seq"] for one in client.events[-2:]] == [seq + 1, seq + 2]


async def test_text_of_every_kind_survives_the_way_there_and_back() -> None:
    odd = "naïve 🐟 \u2028 \x00 \\ud800 \r\n\tend"
    async with conversation(in_order(Answer([odd]), Answer("ok"))) as (client, server):
        result = await client.request("session/prompt", pair("o", prompt=odd))
        await client.request("session/close", pair("o"))
        await client.request("session/prompt", pair("o", prompt="Again"))

    assert result["text"] == odd
    assert [one["content"] for one in server.requests[1]["messages"][1:]] == [odd, odd, "Again"]


async def test_a_model_that_numbers_its_calls_anew_at_each_step_is_told_them_apart(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes.txt").write_text("pelican\n")
    steps = iter([Answer(calls=[("read", {"path": "notes.txt"})])] * 3 + [Answer("Done.")] * 2)
    async with conversation(lambda _: next(steps), rootUri=tmp_path.as_uri()) as (client, server):
        answer = await client.request("session/prompt", pair("ids", prompt="Read it thrice"))
        await client.request("session/prompt", pair("ids", prompt="And?"))
    assert (answer["text"], answer["steps"]) == ("Done.", 4)
    for request in server.requests[-2:]:
        called = [call["id"] for m in request["messages"] for call in m.get("tool_calls", ())]
        answered = [m["tool_call_id"] for m in request["messages"] if m["role"] == "tool"]
        assert called == answered
        assert len(set(called)) == 3
