"""What an editor that speaks only LSP gets: commands, progress, dialogs, settings, traces."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.request import url2pathname

import pytest

from support.daemon import Daemon, RpcError
from support.documents import link, opening, seen
from support.editors import LONG
from support.model_server import Answer, Request, echo, memory
from support.person import conversation, pair, write_agent

WINDOW = {"window": {"showDocument": {"support": True}, "workDoneProgress": True}}


def command(method: str, *arguments: object, **members: object) -> dict[str, Any]:
    name = "treadle." + method.replace("/", ".")
    return {"command": name, "arguments": list(arguments), **members}


async def run(client: Daemon, method: str, *arguments: object, **members: object) -> Any:
    return await client.request("workspace/executeCommand", command(method, *arguments, **members))


def progress(client: Daemon, token: str) -> list[Any]:
    return [told["value"] for told in client.of("$/progress") if told["token"] == token]


async def test_every_method_of_ours_is_a_command() -> None:
    async with conversation(memory) as (client, _):
        introduced = client.log[0]["result"]["capabilities"]
        methods = introduced["experimental"]["treadle"]["methods"]
        assert introduced["executeCommandProvider"]["commands"] == [
            "treadle." + method.replace("/", ".") for method in methods
        ]
        await run(client, "session/prompt", pair("c", prompt="My name is Mac."))
        listed = await run(client, "session/list", {})
        read = await run(client, "session/read", pair("c"))
        assert [each["instance"] for each in listed["sessions"]] == ["c"]
        assert read["messages"][0]["content"] == "My name is Mac."
        assert (await run(client, "session/close", pair("c")))["closed"] is True


async def test_a_person_types_words_and_sees_the_answer() -> None:
    async with conversation(memory) as (client, _):
        await run(client, "session/prompt", "assistant", "me", "My name", "is Mac.")
        answer = await run(client, "session/prompt", "assistant", "me", "What is my name?")
        await run(client, "session/close", "assistant", "me")
    assert answer["text"] == "Your name is Mac."
    shown = [each["message"] for each in client.of("window/showMessage")]
    assert shown[1:] == ["Your name is Mac.", "Closed."]


async def test_a_client_of_ours_shows_results_itself() -> None:
    ours = {"experimental": {"treadle": {}}}
    async with conversation(memory, capabilities=ours) as (client, _):
        await run(client, "session/prompt", pair("c", prompt="Hello"))
        assert client.of("window/showMessage") == []


async def test_a_long_answer_is_opened_as_a_document_that_only_its_owner_can_read() -> None:
    async with conversation(echo, capabilities=WINDOW) as (client, _):
        client.answers["window/workDoneProgress/create"] = lambda _: None
        client.answers["window/showDocument"] = lambda _: {"success": True}
        await run(client, "session/prompt", pair("../etc", prompt=LONG))
        await client.until(lambda: any("showDocument" in each["method"] for each in client.asked))
        [shown] = [each for each in client.asked if each["method"] == "window/showDocument"]
    assert _read_private(shown["params"]["uri"]) == LONG + "\n"


@pytest.mark.parametrize("answer", [{"success": False}, None, "no", {}])
async def test_a_document_that_the_editor_does_not_open_is_a_message_after_all(
    answer: object,
) -> None:
    async with conversation(echo, capabilities=WINDOW) as (client, _):
        client.answers["window/workDoneProgress/create"] = lambda _: None
        client.answers["window/showDocument"] = lambda _: answer
        await run(client, "session/prompt", pair("d", prompt=LONG))
        await client.until(lambda: bool(client.of("window/showMessage")))
        assert [each["message"] for each in client.of("window/showMessage")] == [LONG]


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"command": "treadle.session.promt"}, "command"),
        ({"command": "treadle.ui.ask"}, "command"),
        ({"command": "session/prompt"}, "command"),
        (command("session/prompt", {"agent": "assistant"}), "arguments[0].instance"),
        (command("session/prompt", pair("x", prompt=7)), "arguments[0].prompt"),
        (command("session/prompt", 7), "arguments[0]"),
        (command("session/prompt", "assistant", "me"), "arguments"),
        (command("session/prompt", "assistant", 7, "x"), "arguments"),
        (command("session/close", "assistant", "me", "more"), "arguments"),
        (command("session/prompt", "assistant", "me", "  "), "prompt"),
        (command("session/prompt"), "arguments"),
    ],
)
async def test_a_command_that_cannot_be_understood_says_where(
    params: dict[str, Any], path: str
) -> None:
    async with conversation(memory) as (client, _):
        with pytest.raises(RpcError) as refused:
            await client.request("workspace/executeCommand", params)
    assert (refused.value.code, refused.value.data["path"]) == (-32602, path)


async def test_a_command_s_error_is_the_method_s_own() -> None:
    async with conversation(memory) as (client, _):
        with pytest.raises(RpcError) as refused:
            await run(client, "session/prompt", "nobody", "me", "Hello")
    assert refused.value.reason == "unknown_agent"


async def test_a_person_who_names_no_agent_chooses_one() -> None:
    write_agent("inbox", "You sort mail.")
    async with conversation(echo, capabilities={"window": {"showMessage": {}}}) as (client, _):
        client.answers["window/showMessageRequest"] = lambda asked: asked["actions"][-1]
        await run(client, "session/prompt", "What is new?")
        listed = await run(client, "session/list", {})
    [asked] = client.asked
    assert asked["params"]["message"] == "Which agent?"
    assert [each["title"] for each in asked["params"]["actions"]] == ["assistant", "inbox"]
    assert [(each["agent"], each["instance"]) for each in listed["sessions"]] == [
        ("inbox", "default")
    ]


@pytest.mark.parametrize("answer", [None, {"title": "nobody"}, {"no": "title"}, "inbox", 7])
async def test_an_odd_choice_is_none(answer: object) -> None:
    write_agent("inbox", "You sort mail.")
    async with conversation(echo, capabilities={"window": {"showMessage": {}}}) as (client, _):
        client.answers["window/showMessageRequest"] = lambda _: answer
        await run(client, "session/prompt", "What is new?")
        listed = await client.request("session/list")
    assert [each["agent"] for each in listed["sessions"]] == ["assistant"]


async def test_settings_name_the_agent_that_a_person_means() -> None:
    write_agent("inbox", "You sort mail.")
    capabilities = {"workspace": {"configuration": True}}
    async with conversation(echo, capabilities=capabilities) as (client, _):
        client.answers["workspace/configuration"] = lambda _: [{"agent": "inbox", "instance": "me"}]
        await run(client, "session/prompt", "What is new?")
        listed = await client.request("session/list")
    assert client.asked[0]["params"] == {"items": [{"section": "treadle"}]}
    assert [(each["agent"], each["instance"]) for each in listed["sessions"]] == [("inbox", "me")]


async def test_a_cancelled_command_withdraws_its_dialog() -> None:
    write_agent("inbox", "You sort mail.")
    async with conversation(echo, capabilities={"window": {"showMessage": {}}}) as (client, _):
        answer = client.ask("workspace/executeCommand", command("session/prompt", "What is new?"))
        await client.until(lambda: bool(client.asked))
        client.notify("$/cancelRequest", {"id": answer.request_id})
        with pytest.raises(RpcError) as refused:
            await answer
        assert refused.value.code == -32800
        assert client.of("$/cancelRequest") == [{"id": client.asked[0]["id"]}]
        client.send({"jsonrpc": "2.0", "id": client.asked[0]["id"], "result": {"title": "inbox"}})
        assert await client.request("session/list") == {"sessions": []}


async def test_a_prompt_s_progress_begins_reports_and_ends_before_its_reply(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("pelican\n")

    def reads(request: Request) -> Answer:
        if request["messages"][-1]["role"] == "tool":
            return Answer("It says pelican.", reasoning="Hm.")
        return Answer(calls=[("read", {"path": "notes.txt"})])

    async with conversation(reads, rootUri=tmp_path.as_uri()) as (client, _):
        prompt = pair("p", prompt="Read it", workDoneToken="w", partialResultToken="p")
        result = await client.request("session/prompt", prompt)
        assert client.log[-1]["result"] == result
    assert result["text"] == ""
    work = progress(client, "w")
    assert work[0] == {"kind": "begin", "title": "assistant · p", "cancellable": True}
    assert work[1:-1] == [
        {"kind": "report", "message": "waiting for the model"},
        {"kind": "report", "message": 'read {"path":"notes.txt"}'},
        {"kind": "report", "message": "waiting for the model"},
        {"kind": "report", "message": "thinking"},
        {"kind": "report", "message": "answering"},
    ]
    assert work[-1] == {"kind": "end", "message": "end_turn"}
    parts = progress(client, "p")
    assert "".join(each["text"] for each in parts if each["kind"] == "text") == "It says pelican."
    assert "".join(each["text"] for each in parts if each["kind"] == "reasoning") == "Hm."


async def test_a_prompt_that_entered_a_turn_late_gets_the_text_that_it_has_not_heard() -> None:
    async with conversation(lambda _: Answer("Once upon a time.", pause_after=4)) as (client, _):
        first = client.ask("session/prompt", pair("p", prompt="Tell"))
        await client.until(lambda: len(client.of("session/delta")) == 4)
        late = pair("p", prompt="Short!", whenBusy="steer", partialResultToken="late")
        second = client.ask("session/prompt", late)
        await client.request("session/cancel", pair("p"))
        assert (await first)["text"] == (await second)["text"] == "Once upon a time."


async def test_prompts_keep_their_order_while_documents_are_loaded() -> None:
    async with conversation(echo) as (client, _):
        uri = "file:///notes.txt"
        client.notify("textDocument/didOpen", opening(uri, "one"))
        answers = [
            client.ask("session/prompt", pair("o", prompt=prompt)) for prompt in (link(uri), "two")
        ]
        assert [(await answer)["turn"] for answer in answers] == [1, 2]


async def test_progress_ends_with_the_error_that_the_prompt_ends_with() -> None:
    async with conversation(lambda _: Answer(status=401)) as (client, _):
        with pytest.raises(RpcError):
            await client.request("session/prompt", pair("p", prompt="Hi", workDoneToken=7))
    kinds = [told["value"]["kind"] for told in client.of("$/progress")]
    assert (kinds[0], kinds[-1]) == ("begin", "end")
    assert kinds.count("end") == 1


async def test_a_token_in_use_is_refused_and_free_again_after_its_request() -> None:
    async with conversation(lambda _: Answer("Never said.", pause_after=0)) as (client, _):
        first = client.ask("session/prompt", pair("a", prompt="Hi", workDoneToken="t"))
        await client.until(lambda: bool(progress(client, "t")))
        with pytest.raises(RpcError) as refused:
            await client.request("session/prompt", pair("b", prompt="Hi", partialResultToken="t"))
        assert refused.value.data == {"path": "partialResultToken"}
        client.notify("window/workDoneProgress/cancel", {"token": "t"})
        assert (await first)["stopReason"] == "cancelled"
        second = client.ask("session/prompt", pair("b", prompt="Hi", workDoneToken="t"))
        await client.until(lambda: [each["kind"] for each in progress(client, "t")][-1] != "end")
        client.notify("window/workDoneProgress/cancel", {"token": "t"})
        assert (await second)["stopReason"] == "cancelled"


async def test_cancelling_the_progress_of_a_prompt_that_waits_stops_that_one_alone() -> None:
    async with conversation(lambda _: Answer("Never said.", pause_after=0)) as (client, _):
        first = client.ask("session/prompt", pair("a", prompt="One", workDoneToken=1))
        second = client.ask("session/prompt", pair("a", prompt="Two", workDoneToken=2))
        await client.until(lambda: len(client.of("$/progress")) >= 2)
        client.notify("window/workDoneProgress/cancel", {"token": 2})
        client.notify("window/workDoneProgress/cancel", {"token": "no such"})
        assert (await second)["stopReason"] == "cancelled"
        assert not first.done()
        await client.request("session/cancel", pair("a"))
        assert (await first)["stopReason"] == "cancelled"


async def test_cancelling_the_progress_of_a_prompt_that_was_just_sent_stops_it() -> None:
    async with conversation(lambda _: Answer("Never said.", pause_after=0)) as (client, _):
        await client.request("session/list")
        sent = client.ask("session/prompt", pair("a", prompt="Hi", workDoneToken="now"))
        client.notify("window/workDoneProgress/cancel", {"token": "now"})
        assert (await sent)["stopReason"] == "cancelled"


async def test_a_command_shows_progress_under_a_token_that_the_editor_agreed_to() -> None:
    async with conversation(
        lambda _: Answer("Never said.", pause_after=0), capabilities=WINDOW
    ) as (client, _):
        client.answers["window/workDoneProgress/create"] = lambda _: None
        answer = client.ask(
            "workspace/executeCommand", command("session/prompt", pair("a", prompt="Hi"))
        )
        await client.until(lambda: bool(client.of("$/progress")))
        token = client.of("$/progress")[0]["token"]
        assert client.asked[0]["params"] == {"token": token}
        client.notify("window/workDoneProgress/cancel", {"token": token})
        assert (await answer)["stopReason"] == "cancelled"
        assert [each["kind"] for each in progress(client, token)][-1] == "end"


async def test_the_progress_that_an_editor_declines_is_not_told() -> None:
    async with conversation(echo, capabilities={"window": {}}) as (client, _):
        await run(client, "session/prompt", pair("a", prompt="Hi"))
        assert client.of("$/progress") == [] and client.asked == []


async def test_a_trace_tells_what_was_done_and_never_what_was_said() -> None:
    async with conversation(memory, trace="messages") as (client, _):
        await client.request("session/prompt", pair("t", prompt="My name is Mac."))
        client.notify("$/setTrace", {"value": "verbose"})
        await client.request("session/close", pair("t"))
        await client.until(lambda: len(client.of("$/logTrace")) == 2)
        client.notify("$/setTrace", {"value": "off"})
        await client.request("session/list")
        await client.request("session/list")
    first, second = client.of("$/logTrace")
    assert first["message"].startswith("session/prompt: ok after ") and "verbose" not in first
    assert second["message"].startswith("session/close: ok after ") and "verbose" in second


async def test_an_editor_is_told_of_warnings_and_a_script_is_not() -> None:
    odd = {"textDocument": None}
    for capabilities, told in (({"window": {}}, 1), ({}, 0)):
        async with conversation(memory, capabilities=capabilities) as (client, _):
            client.notify("textDocument/didOpen", odd)
            # Documents are taken before a link to one is looked up.
            await seen(client, "file:///x")
            await client.request("session/list")
            assert [each["message"] for each in client.of("window/logMessage")] == [
                "textDocument/didOpen could not be read (ClassValidationError)"
            ] * told


async def test_settings_that_change_reach_the_log() -> None:
    async with conversation(memory, capabilities={"window": {}}) as (client, _):
        client.notify(
            "workspace/didChangeConfiguration", {"settings": {"treadle": {"logLevel": "loud"}}}
        )
        await client.until(lambda: bool(client.of("window/logMessage")))
        assert "logLevel" in client.of("window/logMessage")[0]["message"]
        client.notify(
            "workspace/didChangeConfiguration", {"settings": {"treadle": {"logLevel": "debug"}}}
        )
        await client.request("session/list")


def _read_private(uri: str) -> str:
    """Return the text of a file in the data folder that only its owner can read."""
    path = Path(url2pathname(uri.removeprefix("file:")))
    assert path.stat().st_mode & 0o777 == 0o600
    # The agent's folder, and the one of all that is shown; nothing else was left there.
    assert [folder.stat().st_mode & 0o777 for folder in (path.parent, path.parent.parent)] == [
        0o700
    ] * 2
    assert list(path.parent.iterdir()) == [path]
    assert path.is_relative_to(os.environ["TREADLE_DATA_DIR"])
    return path.read_text(encoding="utf-8")
