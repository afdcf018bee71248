"""Sub-agents: a task's thread, its events and its end, through the daemon."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon, RpcError, daemon
from support.person import pair, stored, write_config
from support.scripts import calls, says, scripted_agent
from support.tasks import lines_of, prompt_parent, results_of
from support.waiting import PATIENCE_SECONDS, until_seen


async def test_a_task_has_a_thread_of_its_own_and_its_last_answer_is_the_result() -> None:
    scripted_agent(
        "boss",
        calls(("task", {"prompt": "Count to three.", "agent": "helper"})),
        says("It counted."),
    )
    scripted_agent("helper", calls(("todo", {"items": [{"text": "count"}]})), says("One two three"))
    async with daemon() as client:
        outcome = await prompt_parent(client, "x")
        assert (outcome["text"], outcome["stopReason"], outcome["steps"]) == (
            "It counted.",
            "end_turn",
            2,
        )
        assert await results_of(client, "x") == [
            "[task-1, helper: end_turn after 2 model calls]\nOne two three"
        ]
        read = await client.request("session/read", pair("x/task-1", "helper"))
        assert [one["role"] for one in read["messages"]] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
        assert read["messages"][0]["content"] == "Count to three."
    header = lines_of("helper", "x/task-1")[0]["thread"]
    assert header["parent"] == {"agent": "boss", "instance": "x"}
    assert lines_of("helper", "x/task-1")[-1]["turn"]["stop_reason"] == "end_turn"


async def test_a_tasks_events_carry_the_parents_pair_and_its_number() -> None:
    scripted_agent("boss", calls(("task", {"prompt": "Go.", "agent": "helper"})), says("Done."))
    scripted_agent("helper", calls(("todo", {"items": []})), says("Well done."))
    async with daemon() as client:
        await prompt_parent(client, "x")
        told = [
            (event["method"], event["params"].get("task"), event["params"].get("name"))
            for event in client.events
            if event["method"] not in ("session/state", "agent/changed")
        ]
        every = [event["params"] for event in client.events if "seq" in event["params"]]
    assert told == [
        ("session/toolCall", None, "task"),
        ("session/toolCall", 1, "todo"),
        ("session/toolResult", 1, "todo"),
        ("session/delta", 1, None),
        ("session/delta", 1, None),
        ("session/toolResult", None, "task"),
        ("session/delta", None, None),
        ("session/done", None, None),
    ]
    assert {(one["agent"], one["instance"]) for one in every} == {("boss", "x")}
    assert [one["seq"] for one in every] == list(range(1, len(every) + 1))
    assert {one["turn"] for one in every if "task" in one} == {1}


async def test_a_prompts_own_text_and_progress_are_not_its_tasks() -> None:
    scripted_agent("boss", calls(("task", {"prompt": "Go.", "agent": "helper"})), says("Mine."))
    scripted_agent("helper", says("Not mine."))
    async with daemon() as client:
        outcome = await prompt_parent(client, "x", partialResultToken="p")
        pieces = [one["value"]["text"] for one in client.of("$/progress")]
    assert ("".join(pieces), outcome["text"]) == ("Mine.", "")


async def test_tasks_of_one_step_run_side_by_side_and_without_places_of_their_own() -> None:
    write_config("[sessions]\nturns_in_flight = 1\n")
    several = [("task", {"prompt": f"{n}", "agent": "helper"}) for n in range(3)]
    scripted_agent("boss", calls(*several), says("All done."))
    scripted_agent("helper", {"echo": True})
    async with daemon() as client:
        outcome = await prompt_parent(client, "x")
        assert outcome["text"] == "All done."
        results = await results_of(client, "x")
    assert sorted(text.split("\n")[0] for text in results) == [
        f"[task-{n}, helper: end_turn after 1 model call]" for n in (1, 2, 3)
    ]
    assert [text.split("\n")[1] for text in results] == ["0", "1", "2"]


async def test_tasks_are_listed_only_where_they_are_asked_for_and_go_with_their_parent() -> None:
    scripted_agent("boss", calls(("task", {"prompt": "Go.", "agent": "helper"})), says("Done."))
    scripted_agent("helper", says("Fine."))

    async def listed(client: Daemon, **params: Any) -> list[str]:
        found = (await client.request("session/list", params))["sessions"]
        return sorted(f"{one['agent']}:{one['instance']}" for one in found)

    async with daemon() as client:
        await prompt_parent(client, "x")
        await client.request("session/resume", pair("x/task-9", "helper"))
        assert await listed(client) == ["boss:x", "helper:x/task-9"]
        assert await listed(client, tasks=True) == ["boss:x", "helper:x/task-1", "helper:x/task-9"]
        assert await client.request("session/delete", pair("x", "boss")) == {"deleted": True}
        assert await listed(client, tasks=True) == ["helper:x/task-9"]


async def test_a_parent_in_memory_has_tasks_in_memory() -> None:
    write_config('[sessions]\ndurability = "memory"\n')
    scripted_agent("boss", calls(("task", {"prompt": "Go.", "agent": "helper"})), says("Done."))
    scripted_agent("helper", says("Fine."))
    async with daemon() as client:
        await prompt_parent(client, "x")
        await prompt_parent(client, "x")
        read = await client.request("session/read", pair("x/task-2", "helper"))
        assert [one["content"] for one in read["messages"]] == ["Go.", "Fine."]
        every = (await client.request("session/list", {"tasks": True}))["sessions"]
        assert len(every) == 3
        assert len((await client.request("session/list"))["sessions"]) == 1
        await client.request("session/delete", pair("x", "boss"))
        assert (await client.request("session/list", {"tasks": True}))["sessions"] == []
    assert not stored("helper", "x/task-1").exists()


async def test_a_tasks_model_calls_count_as_the_parents_and_one_is_left_to_answer() -> None:
    scripted_agent(
        "boss", calls(("task", {"prompt": "Go.", "agent": "busy"})), says("So far."), max_turns=5
    )
    scripted_agent("busy", calls(("todo", {"items": []})))
    async with daemon() as client:
        outcome = await prompt_parent(client, "x")
        assert (outcome["text"], outcome["stopReason"], outcome["steps"]) == (
            "So far.",
            "end_turn",
            2,
        )
        (result,) = await results_of(client, "x")
        assert result.startswith("[task-1, busy: max_turns after 3 model calls]")
        outcome = await prompt_parent(client, "y", maxTurns=2)
        (result,) = await results_of(client, "y")
        assert result.startswith("No model calls are left for a task")
        assert outcome["stopReason"] == "end_turn"
    assert not stored("busy", "y/task-1").exists()


async def test_a_cancel_reaches_the_leaf_and_every_thread_says_so() -> None:
    scripted_agent("boss", calls(("task", {"prompt": "Go.", "agent": "slow"})), says("Done."))
    scripted_agent("slow", says("One two three", delay_seconds=600))
    async with daemon() as client:
        asked = client.ask("session/prompt", pair("x", "boss", prompt="Go."))
        await until_seen(lambda: stored("slow", "x/task-1").exists())
        await until_seen(lambda: len(lines_of("slow", "x/task-1")) > 2)
        assert await client.request("session/cancel", pair("x", "boss")) == {
            "cancelled": True,
            "turn": 1,
        }
        assert (await asked)["stopReason"] == "cancelled"
        assert lines_of("slow", "x/task-1")[-1]["turn"]["stop_reason"] == "cancelled"
        # Nothing holds it any more.
        await client.request("session/resume", pair("x/task-1", "slow"))


async def test_a_close_and_a_shutdown_end_tasks_as_their_parents() -> None:
    scripted_agent("boss", calls(("task", {"prompt": "Go.", "agent": "slow"})), says("Done."))
    scripted_agent("slow", says("One two three", delay_seconds=600))
    async with daemon() as client:
        for instance in ("x", "y"):
            client.ask("session/prompt", pair(instance, "boss", prompt="Go."))
            task = f"{instance}/task-1"
            await until_seen(lambda task=task: stored("slow", task).exists())
            await until_seen(lambda task=task: len(lines_of("slow", task)) > 2)
        await client.request("session/close", pair("x", "boss"))
        assert lines_of("slow", "x/task-1")[-1]["turn"]["stop_reason"] == "closed"
        assert await client.end() == 0
    assert lines_of("slow", "y/task-1")[-1]["turn"]["stop_reason"] == "interrupted"


async def test_after_a_kill_the_task_is_interrupted_and_the_next_one_has_the_next_number() -> None:
    scripted_agent("boss", calls(("task", {"prompt": "Go.", "agent": "slow"})), says("Done."))
    script = scripted_agent("slow", says("One", delay_seconds=600))
    async with daemon() as client:
        client.ask("session/prompt", pair("x", "boss", prompt="Go."))
        await until_seen(lambda: stored("slow", "x/task-1").exists())
        await until_seen(lambda: len(lines_of("slow", "x/task-1")) > 2)
        await client.kill()
    scripted_agent("slow", says("Two."))
    assert script.exists()
    async with daemon() as client:
        resumed = await client.request("session/resume", pair("x", "boss"))
        assert resumed["report"]["interruptedTurn"] == 1
        assert lines_of("slow", "x/task-1")[-1]["turn"]["stop_reason"] == "interrupted"
        await prompt_parent(client, "x")
        results = await results_of(client, "x")
    assert "interrupted" in results[0]
    assert results[1] == "[task-2, slow: end_turn after 1 model call]\nTwo."


async def test_a_command_that_a_task_leaves_behind_is_stopped_and_named(tmp_path: Path) -> None:
    front = {"permissions": "auto", "sandbox": "local", "cwd": tmp_path}
    scripted_agent(
        "boss", calls(("task", {"prompt": "Go.", "agent": "helper"})), says("Done."), **front
    )
    background = calls(("shell", {"command": "sleep 600", "background": True}))
    scripted_agent("helper", background, says("It runs."), **front)
    async with daemon() as client:
        await prompt_parent(client, "x")
        (result,) = await results_of(client, "x")
    assert result.split("\n") == [
        "[task-1, helper: end_turn after 2 model calls]",
        "[stopped, for it still ran: sleep 600]",
        "It runs.",
    ]


async def test_a_running_task_can_be_read_and_nobody_else_can_write_it() -> None:
    scripted_agent("boss", calls(("task", {"prompt": "Go.", "agent": "slow"})), says("Done."))
    scripted_agent("slow", says("One two three", delay_seconds=600))
    async with daemon() as client:
        asked = client.ask("session/prompt", pair("x", "boss", prompt="Go."))
        await until_seen(lambda: stored("slow", "x/task-1").exists())
        await until_seen(lambda: len(lines_of("slow", "x/task-1")) > 2)
        read = await client.request("session/read", pair("x/task-1", "slow"))
        assert [one["content"] for one in read["messages"]] == ["Go."]
        with pytest.raises(RpcError) as refused:
            await client.request("session/resume", pair("x/task-1", "slow"))
        assert refused.value.reason == "thread_locked"
        await client.request("session/cancel", pair("x", "boss"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asked
