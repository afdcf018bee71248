"""Sub-agents: what one may do, never more than its parent, and whom it asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.daemon import daemon
from support.scripts import calls, says, scripted_agent
from support.tasks import names_of_texts, prompt_parent, results_of


async def test_a_sub_agent_has_no_tasks_and_no_tool_that_its_parent_lacks(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("secret")
    scripted_agent(
        "boss",
        calls(("task", {"prompt": "Go.", "agent": "helper"})),
        says("Done."),
        tools="[task, todo]",
        permissions="auto",
    )
    scripted_agent(
        "helper",
        calls(
            ("task", {"prompt": "Deeper."}),
            ("read", {"path": "a.txt"}),
            ("write", {"path": "b.txt", "content": "x"}),
            ("todo", {"items": []}),
        ),
        says("Done."),
        permissions="auto",
        sandbox="local",
        cwd=tmp_path,
    )
    async with daemon() as client:
        await prompt_parent(client, "x")
        results = await results_of(client, "x/task-1", "helper")
    assert [text.split(".")[0] for text in results] == [
        "There is no tool 'task'",
        "There is no tool 'read'",
        "There is no tool 'write'",
        "The list is empty",
    ]
    assert names_of_texts(tmp_path) == ["a.txt"]


async def test_a_read_only_parent_has_no_child_that_writes(tmp_path: Path) -> None:
    front = {"sandbox": "local", "cwd": tmp_path}
    scripted_agent(
        "boss", calls(("task", {"prompt": "Go.", "agent": "free"})), says("Done."), **front
    )
    scripted_agent(
        "free",
        calls(("write", {"path": "b.txt", "content": "x"}), ("shell", {"command": "touch c.txt"})),
        says("Done."),
        permissions="auto",
        **front,
    )
    async with daemon() as client:
        await prompt_parent(client, "x")
    assert names_of_texts(tmp_path) == []


async def test_a_virtual_parent_has_no_local_child(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("secret")
    scripted_agent(
        "boss",
        calls(("task", {"prompt": "Go.", "agent": "free"})),
        says("Done."),
        permissions="auto",
    )
    scripted_agent(
        "free",
        calls(("read", {"path": str(tmp_path / "a.txt")}), ("read", {"path": "a.txt"})),
        says("Done."),
        permissions="auto",
        sandbox="local",
        cwd=tmp_path,
    )
    async with daemon() as client:
        await prompt_parent(client, "x")
        results = await results_of(client, "x/task-1", "free")
    assert len(results) == 2
    assert not any("secret" in text for text in results)


async def test_the_same_agent_works_in_the_same_place(tmp_path: Path) -> None:
    scripted_agent(
        "boss",
        calls(
            ("write", {"path": "a.txt", "content": "pelican"}),
            ("task", {"prompt": "Go."}),
        ),
        says("Done."),
        permissions="auto",
    )
    async with daemon() as client:
        # The script begins anew for the task: the same file cannot be written unread.
        await prompt_parent(client, "x")
        results = await results_of(client, "x/task-1")
    assert "read" in results[0]
    assert results[1].startswith("There is no tool 'task'.")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"prompt": "Go.", "agent": "helpr"}, "There is no agent 'helpr'. Did you mean helper?"),
        ({"prompt": "  "}, "The prompt is empty: say what is to be done."),
        ({"prompt": "Go.", "agent": "broken"}, "The agent broken cannot do it: broken.md, line 3"),
        ({"prompt": "Go.", "agent": "keyless"}, "The agent keyless cannot do it: "),
        ({"prompt": "Go.", "agent": "elsewhere"}, "the agent elsewhere is answered by gpt-x"),
        ({"prompt": "Go.", "agent": "apart"}, "the agent apart works in a folder of its own"),
        ({"prompt": "Go.", "agent": "failing"}, "[task-1, failing: error after 1 model call]\nNo."),
        ({"prompt": "Go.", "agent": "endless"}, "[task-1, endless: max_turns after 2 model calls]"),
        ({"prompt": "Go.", "agent": "cut"}, "[task-1, cut: max_tokens after 1 model call]\nHalf"),
    ],
)
async def test_every_failure_is_a_result(
    tmp_path: Path, arguments: dict[str, Any], told: str
) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    scripted_agent("boss", calls(("task", arguments)), says("Well."), cwd=mine)
    scripted_agent("helper", says("Fine."))
    scripted_agent("broken", says("Fine."), permissions="all")
    scripted_agent("apart", says("Fine."), cwd=other)
    scripted_agent("failing", {"error": {"reason": "model_auth", "message": "No.", "status": 401}})
    scripted_agent("endless", calls(("todo", {"items": []})), max_turns=2)
    scripted_agent("cut", says("Half", finish="length"))
    elsewhere = scripted_agent("elsewhere", says("Fine."))
    elsewhere.write_text("---\nmodel: gpt-x\nbase_url: http://127.0.0.1:9/v1\n---\nHi\n")
    elsewhere.with_name("keyless.md").write_text(
        "---\nmodel: gpt-x\nbase_url: http://127.0.0.1:9/v1\napi_key_env: NOT_THERE\n---\nHi\n"
    )
    async with daemon() as client:
        outcome = await prompt_parent(client, "x")
        assert (outcome["text"], outcome["stopReason"]) == ("Well.", "end_turn")
        (result,) = await results_of(client, "x")
    assert result.startswith(told), result


async def test_a_person_is_asked_with_the_parents_pair_and_sees_which_task(tmp_path: Path) -> None:
    front = {"permissions": "ask", "sandbox": "local", "cwd": tmp_path}
    below = tmp_path / "below"
    below.mkdir()
    scripted_agent(
        "boss",
        calls(
            ("task", {"prompt": "Go.", "agent": "same"}),
        ),
        calls(("task", {"prompt": "Go.", "agent": "below"})),
        says("Done."),
        **front,
    )
    write = calls(("shell", {"command": "echo x >> c.txt"}))
    scripted_agent("same", write, says("Done."), **front)
    scripted_agent("below", write, says("Done."), **{**front, "cwd": below})
    async with daemon(initialize=False) as client:
        client.answers["session/requestPermission"] = lambda _: {"outcome": "allow_session"}
        experimental = {"treadle": {"requestPermission": True}}
        await client.initialize(capabilities={"experimental": experimental})
        await prompt_parent(client, "x")
        await prompt_parent(client, "x")
    asked = [one["params"] for one in client.asked]
    assert [
        (one["agent"], one["instance"], one["turn"], one["task"], one["detail"]) for one in asked
    ] == [
        ("boss", "x", 1, 1, "shell: echo x >> c.txt"),
        ("boss", "x", 1, 2, f"in {below}: shell: echo x >> c.txt"),
    ]
    assert (tmp_path / "c.txt").read_text() == "x\nx\n"
    assert (below / "c.txt").read_text() == "x\nx\n"
