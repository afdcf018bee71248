"""Servers that nobody here wrote, through `treadle serve`: what a model and a person get."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.mcp.houses import (
    by_command,
    everything_over_http,
    here,
    node_server,
    python_server,
    results,
    visit,
    visitor,
)
from support.scripts import calls


@pytest.fixture(params=["stdio", "streamable HTTP"])
async def everything(request: pytest.FixtureRequest) -> AsyncIterator[dict[str, Any]]:
    """The declaration of npm's server of everything."""
    if request.param == "stdio":
        yield by_command(node_server("server-everything"))
        return
    async with everything_over_http() as url:
        yield {"url": url, "start": "eager"}


async def test_everything_is_listed_called_and_answered(everything: dict[str, Any]) -> None:
    visitor(
        "all",
        everything,
        calls(("all__echo", {"message": "hello"}), ("all__get-sum", {"a": 19, "b": 23})),
        calls(
            ("all__get-tiny-image", {}), ("all__get-structured-content", {"location": "Chicago"})
        ),
    )
    async with visit("all") as client:
        await client.request("session/prompt", here(prompt="Go"))
        echo, total, image, weather = await results(client)
        assert echo["content"] == "Echo: hello" and total["content"].endswith("42.")
        assert [block["type"] for block in image["content"]][-1] == "image"
        assert "temperature" in str(weather["content"])
        assert not any(one.get("isError") for one in (echo, total, image, weather))


async def test_what_everything_refuses_is_told_to_the_model(everything: dict[str, Any]) -> None:
    visitor("all", everything, calls(("all__get-sum", {"a": "many", "b": 1}), ("all__echo", {})))
    async with visit("all") as client:
        await client.request("session/prompt", here(prompt="Go"))
        wrong, missing = await results(client)
        assert wrong["isError"] and "many" in wrong["content"]
        assert missing["isError"] and "message" in missing["content"]


async def test_how_far_everything_is_is_told(everything: dict[str, Any]) -> None:
    call = calls(("all__trigger-long-running-operation", {"duration": 0.6, "steps": 3}))
    visitor("all", everything, call)
    async with visit("all") as client:
        await client.request("session/prompt", here(prompt="Go"))
        told = client.of("session/toolProgress")
        assert told and told[-1]["total"] == 3 and told[-1]["done"] <= 3
        (done,) = await results(client)
        assert "completed" in done["content"]


async def test_a_call_of_everything_is_cancelled_at_once_and_the_next_one_works(
    everything: dict[str, Any],
) -> None:
    visitor(
        "all",
        everything,
        calls(("all__trigger-long-running-operation", {"duration": 120, "steps": 1200})),
        calls(("all__echo", {"message": "still here"})),
    )
    async with visit("all") as client:
        running = client.ask("session/prompt", here(prompt="Go"))
        await client.until(lambda: bool(client.of("session/toolProgress")))
        cancelled = await client.request("session/cancel", here())
        assert cancelled["cancelled"]
        assert (await running)["stopReason"] == "cancelled"
        await client.request("session/prompt", here(prompt="Again"))
        stopped, echo = await results(client)
        assert stopped["isError"] and "may have had effects" in stopped["content"]
        assert echo["content"] == "Echo: still here"


async def test_tools_that_everything_adds_later_are_there_too(everything: dict[str, Any]) -> None:
    # It knows what the client can do only after the handshake, and adds these then.
    visitor("all", everything, calls(("all__get-roots-list", {})))
    async with visit("all") as client:

        def has_more() -> bool:
            told = [one for one in client.of("mcp/status") if one["state"] == "ready"]
            return any("all__get-roots-list" in one["tools"] for one in told)

        await client.until(has_more)
        await client.request("session/prompt", here(prompt="Go"))
        (roots,) = await results(client)
        assert "root" in roots["content"].lower()


async def test_everything_asks_the_person_and_is_answered(everything: dict[str, Any]) -> None:
    visitor("all", everything, calls(("all__trigger-elicitation-request", {})))
    can = {"experimental": {"treadle": {"ask": True}}}
    async with visit("all", capabilities=can) as client:

        def has_more() -> bool:
            told = [one for one in client.of("mcp/status") if one["state"] == "ready"]
            return any("all__trigger-elicitation-request" in one["tools"] for one in told)

        await client.until(has_more)
        running = client.ask("session/prompt", here(prompt="Go"))
        await client.until(lambda: bool(client.asked))
        question = client.asked[0]
        assert question["method"] == "session/ask" and "all" in str(question["params"])
        # It asks for a name and for a dozen things that nobody has to say.
        (name,) = [one for one in question["params"]["questions"] if "legal name" in one["text"]]
        answers = {name["id"]: "Mac"}
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"answers": answers}}
        client.send(reply)
        await running
        (said,) = await results(client)
        assert "Mac" in str(said["content"])


async def test_the_servers_prompts_and_resources_can_be_used(everything: dict[str, Any]) -> None:
    visitor(
        "all",
        everything,
        calls(("all__list_resources", {})),
        calls(("all__read_resource", {"uri": "demo://resource/static/document/architecture.md"})),
    )
    async with visit("all") as client:
        listed = await client.request("mcp/prompts", here(server="all"))
        assert "simple-prompt" in str(listed)
        asked = here(server="all", name="args-prompt", arguments={"city": "Oslo"})
        prompt = await client.request("mcp/prompt", asked)
        assert "Oslo" in str(prompt["messages"])
        await client.request("session/prompt", here(prompt="Go"))
        resources, document = await results(client)
        assert "demo://resource/" in resources["content"]
        assert "architecture" in str(document["content"]).lower()


async def test_npms_server_of_files_reads_and_is_bound_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "notes.txt").write_text("Meeting at nine")
    (tmp_path / "out.txt").write_text("secret")
    visitor(
        "files",
        by_command(node_server("server-filesystem", str(tmp_path / "in"))),
        calls(
            ("files__read_text_file", {"path": str(tmp_path / "in" / "notes.txt")}),
            ("files__list_directory", {"path": str(tmp_path / "in")}),
            ("files__read_text_file", {"path": str(tmp_path / "out.txt")}),
        ),
        permissions="read_only",
        mcp_allow=["files__read_text_file", "files__list_directory"],
    )
    async with visit("files") as client:
        await client.request("session/prompt", here(prompt="Go"))
        notes, folder, outside = await results(client)
        assert notes["content"] == "Meeting at nine" and "notes.txt" in folder["content"]
        assert outside["isError"] and "secret" not in outside["content"]


async def test_what_a_read_only_agent_is_not_allowed_by_name_is_not_there(tmp_path: Path) -> None:
    visitor(
        "files",
        by_command(node_server("server-filesystem", str(tmp_path))),
        calls(("files__write_file", {"path": str(tmp_path / "made"), "content": "x"})),
        permissions="read_only",
        mcp_allow=["files__read_text_file"],
    )
    async with visit("files") as client:
        await client.request("session/prompt", here(prompt="Go"))
        (refused,) = await results(client)
        assert refused["isError"] and "There is no tool" in refused["content"]
        assert not (tmp_path / "made").exists()


async def test_a_server_of_time_in_python_counts_hours() -> None:
    given = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    declared = by_command(python_server("mcp_server_time", "--local-timezone", "UTC"))
    visitor("time", declared, calls(("time__convert_time", given)))
    async with visit("time") as client:
        await client.request("session/prompt", here(prompt="Go"))
        (told,) = await results(client)
        assert "21:00" in told["content"]


async def test_a_server_of_git_in_python_sees_the_sessions_folder(tmp_path: Path) -> None:
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("x")
    declared = by_command(python_server("mcp_server_git"))
    visitor(
        "git",
        declared,
        calls(("git__git_status", {"repo_path": str(tmp_path)})),
        sandbox="local",
        cwd=tmp_path,
    )
    async with visit("git") as client:
        await client.request("session/prompt", here(prompt="Go"))
        (told,) = await results(client)
        assert "new.txt" in told["content"]
        closed = await client.request("session/close", here())
        (server,) = closed["released"]["servers"]
        assert server["server"] == "git" and server["exit"] is not None
