"""The first minute of a connection: what may be said before, in and after `initialize`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.daemon import RpcError, daemon
from treadle.protocol.methods import command_of, own_names
from treadle.version import __version__


async def test_initialize_says_who_we_are_and_what_we_can_do(tmp_path: Path) -> None:
    async with daemon(initialize=False) as client:
        assert await client.initialize() == {
            "capabilities": {
                "positionEncoding": "utf-16",
                "textDocumentSync": {"openClose": True, "change": 2, "save": True},
                "executeCommandProvider": {
                    "commands": [command_of(name) for name in own_names("request")],
                    "workDoneProgress": True,
                },
                "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
                "experimental": {
                    "treadle": {
                        "protocolVersion": 1,
                        "methods": own_names("request"),
                        "notifications": own_names("event"),
                        "clientRequests": own_names("client_request"),
                        "dataDir": str(tmp_path / "data"),
                        "pid": client.process.pid,
                    }
                },
            },
            "serverInfo": {"name": "treadle", "version": __version__},
        }


async def test_a_request_before_initialize_is_refused_and_initialize_still_works() -> None:
    async with daemon(initialize=False) as client:
        for method in ("session/list", "shutdown", "no/such"):
            with pytest.raises(RpcError) as refused:
                await client.request(method, {})
            assert refused.value.code == -32002
        await client.initialize()
        await client.still_answers()


async def test_a_second_initialize_is_refused() -> None:
    async with daemon() as client:
        with pytest.raises(RpcError) as refused:
            await client.initialize()
        assert refused.value.code == -32600
        await client.still_answers()


async def test_notifications_before_initialize_are_dropped_and_nothing_precedes_its_reply() -> None:
    async with daemon(initialize=False) as client:
        client.notify("initialized")
        client.notify("session/close", {"agent": "assistant", "instance": "a"})
        client.notify("$/cancelRequest", {"id": 1})
        client.notify("no/such", {"x": 1})
        result = await client.initialize()
        assert client.log == [{"jsonrpc": "2.0", "id": 1, "result": result}]


async def test_initialize_answers_once_when_sent_twice_in_one_write() -> None:
    async with daemon(initialize=False) as client:
        first, second = client.ask("initialize", {}), client.ask("initialize", {})
        await client.until(lambda: len(client.log) == 2)
        assert first.result()["serverInfo"]["name"] == "treadle"
        with pytest.raises(RpcError) as refused:
            await second
        assert refused.value.code == -32600


@pytest.mark.parametrize(
    ("treadle", "path"),
    [
        (True, ""),
        ([], ""),
        ("yes", ""),
        ({"optOut": "session/delta"}, ".optOut"),
        ({"optOut": ["session/delta", 1]}, ".optOut[1]"),
        ({"requestPermission": "yes"}, ".requestPermission"),
        ({"ask": None}, ".ask"),
        ({"requestTrust": 1}, ".requestTrust"),
    ],
)
async def test_misshapen_options_are_refused_with_their_path_and_a_second_try_works(
    treadle: object, path: str
) -> None:
    async with daemon(initialize=False) as client:
        with pytest.raises(RpcError) as refused:
            await client.initialize(capabilities={"experimental": {"treadle": treadle}})
        assert refused.value.code == -32602
        assert refused.value.data == {"path": f"capabilities.experimental.treadle{path}"}
        await client.initialize()
        await client.still_answers()


async def test_other_misshapen_params_of_initialize_are_refused_with_their_path() -> None:
    async with daemon(initialize=False) as client:
        for params, path in [
            ({"processId": "1"}, "processId"),
            ({"processId": 1.5}, "processId"),
            ({"capabilities": []}, "capabilities"),
            ({"workspaceFolders": [{"name": "no uri"}]}, "workspaceFolders[0].uri"),
        ]:
            with pytest.raises(RpcError) as refused:
                await client.request("initialize", params)
            assert (refused.value.code, refused.value.data) == (-32602, {"path": path})
        await client.initialize()


STRANGERS: list[dict[str, Any]] = [
    {},
    {"capabilities": None},
    {"capabilities": {}},
    {"capabilities": {"experimental": None}},
    {"capabilities": {"experimental": True}},
    {"capabilities": {"experimental": []}},
    {"capabilities": {"experimental": {"snippetTextEdit": True}}},
    {"capabilities": {"experimental": {"treadle": None}}},
    {"processId": None, "rootUri": None, "workspaceFolders": None, "clientInfo": None},
    {"rootUri": "untitled:Untitled-1", "workspaceFolders": [{"uri": "http://[x", "name": "?"}]},
    {"initializationOptions": {"jsonrpc": "2.0"}, "trace": 3, "clientInfo": 7, "_meta": {"_0": 1}},
]


@pytest.mark.parametrize("params", STRANGERS, ids=str)
async def test_a_client_that_never_heard_of_us_is_welcome(params: dict[str, Any]) -> None:
    async with daemon(initialize=False) as client:
        result = await client.request("initialize", params)
        assert result["capabilities"]["experimental"]["treadle"]["pid"] == client.process.pid
        client.notify("initialized", {})
        await client.still_answers()
        assert client.events == []


async def test_initialize_without_params_is_answered() -> None:
    async with daemon(initialize=False) as client:
        assert (await client.request("initialize"))["serverInfo"]["name"] == "treadle"


async def test_the_client_may_be_its_own_process_id() -> None:
    async with daemon(initialize=False) as client:
        await client.initialize(processId=os.getpid())
        await client.still_answers()
