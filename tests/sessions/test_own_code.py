"""Agents in Python, through the daemon: own tools, own layers, and what they cannot break."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import RpcError
from support.model_server import Answer, Request, memory
from support.person import conversation, pair, write_agent
from treadle.folders import CONFIG_VARIABLE

COUNTER = """
import sys
from treadle import Definition, ToolError, tool

print("not for the wire")
sys.stdout.write("nor is this")

@tool(capability="read")
def inhabitants(city: str) -> int:
    \"\"\"Tell how many people live in a city.\"\"\"
    print("not for the wire either")
    return {"Oslo": 724290}[city]

class Budget:
    def __init__(self, app, *, limit):
        self.app, self.limit = app, limit
    async def __call__(self, env):
        await self.app(env)
        if sum(message.role == "assistant" for message in env.messages) >= self.limit:
            env.should_exit = True

def agent():
    return Definition("You count.", tools=[], own_tools=[inhabitants]).use(Budget, limit=LIMIT)
"""


@pytest.fixture
def write() -> Callable[..., Path]:
    """Write an agent in Python, the person's alone."""

    def write(name: str, text: str) -> Path:
        path = Path(os.environ[CONFIG_VARIABLE], "agents", f"{name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for each in (path, path.parent, path.parent.parent):
            each.chmod(0o700)
        return path

    return write


def _asks(city: str) -> Callable[[Request], Answer]:
    """Have the model ask for a city once, and then say what it was told."""

    def answer(request: Request) -> Answer:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return Answer(f"It is {last['content']}.")
        return Answer(calls=[("inhabitants", {"city": city})])

    return answer


async def test_own_tools_and_layers_work_in_a_session(write: Callable[..., Path]) -> None:
    write("counter", COUNTER.replace("LIMIT", "5"))
    async with conversation(_asks("Oslo")) as (client, server):
        done = await client.request("session/prompt", pair("a", "counter", prompt="Oslo?"))
        assert done["text"] == "It is 724290."
        tools = [tool["function"]["name"] for tool in server.requests[0]["tools"]]
        assert tools == ["inhabitants"]
        # The layer of the file as it is now ends the next turn after one model call.
        write("counter", COUNTER.replace("LIMIT", "1"))
        done = await client.request("session/prompt", pair("b", "counter", prompt="Oslo?"))
        assert (done["steps"], done["text"]) == (1, "")
        assert await client.end() == 0


PIPELINE = """
from treadle import Definition, tool
from treadle.tools.pipeline import default_stack

class Shout:
    def __init__(self, app):
        self.app = app
    async def __call__(self, env):
        await self.app(env)
        env.content = env.content.upper() + "!"

@tool(capability="read")
def inhabitants(city: str) -> str:
    \"\"\"Tell how many people live in a city.\"\"\"
    return f"many in {city}"

def agent():
    pipeline = default_stack().use(Shout).build()
    return Definition("You count.", tools=[], own_tools=[inhabitants], pipeline=pipeline)
"""


async def test_an_agent_may_bring_a_pipeline_that_its_calls_run_through(
    write: Callable[..., Path],
) -> None:
    write("loud", PIPELINE)
    async with conversation(_asks("Oslo")) as (client, _):
        done = await client.request("session/prompt", pair("a", "loud", prompt="Oslo?"))
        assert done["text"] == "It is MANY IN OSLO!."


async def test_a_tool_that_raises_is_a_result_that_the_model_reads(
    write: Callable[..., Path],
) -> None:
    write("counter", COUNTER.replace("LIMIT", "5"))
    async with conversation(_asks("Bergen")) as (client, _):
        await client.request("session/prompt", pair("a", "counter", prompt="Bergen?"))
        (result,) = client.of("session/toolResult")
        assert (result["ok"], "KeyError" in result["content"]) == (False, True)


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ("def __init__(self, app): raise ValueError('no')", "ValueError: no"),
        ("def __init__(self): pass", "TypeError: Layer.__init__() takes 1 positional argument"),
        (
            "def __init__(self, app): pass\n    async def __call__(self, env): env.nowhere",
            "AttributeError: 'Env' object has no attribute 'nowhere'",
        ),
    ],
)
async def test_a_layer_that_fails_ends_its_turn_with_words_and_nothing_else(
    write: Callable[..., Path], layer: str, said: str
) -> None:
    path = write(
        "odd",
        f"from treadle import Definition\nclass Layer:\n    {layer}\n"
        "def agent():\n    return Definition().use(Layer)\n",
    )
    async with conversation(memory) as (client, _):
        with pytest.raises(RpcError) as caught:
            await client.request("session/prompt", pair("a", "odd", prompt="Hello"))
        assert (caught.value.reason, caught.value.data["path"]) == ("invalid_agent", str(path))
        assert f"its layer Layer failed: {said}" in str(caught.value)
        write("odd", "from treadle import Definition\nagent = Definition\n")
        done = await client.request("session/prompt", pair("a", "odd", prompt="Hello"))
        assert done["stopReason"] == "end_turn"


async def test_an_error_of_the_model_is_not_taken_for_the_layers(
    write: Callable[..., Path],
) -> None:
    write("counter", COUNTER.replace("LIMIT", "5"))
    refused = Answer(status=401)
    async with conversation(lambda _: refused) as (client, _):
        with pytest.raises(RpcError) as caught:
            await client.request("session/prompt", pair("a", "counter", prompt="Hello"))
        assert caught.value.reason == "model_auth"


async def test_an_included_file_that_changes_reaches_the_next_turn() -> None:
    tone = write_agent("scribe", "You write.\n@include tone.md").with_name("tone.md")
    tone.write_text("Be kind.\n")
    async with conversation(memory) as (client, server):
        for text in ("Be kind.", "Be brief."):
            tone.write_text(f"{text}\n")
            await client.request("session/prompt", pair("a", "scribe", prompt="Hello"))
    systems: list[Any] = [request["messages"][0]["content"] for request in server.requests]
    assert systems == ["You write.\nBe kind.", "You write.\nBe brief."]
