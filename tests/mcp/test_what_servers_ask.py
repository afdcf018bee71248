"""A server of an open session asks the person and the model, and has prompts to say."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from support.line import Line
from support.person import write_agent

LINES = Path(__file__).parents[1] / "support" / "mcp" / "lines.py"
HERE = {"agent": "helper", "instance": "a"}

# Its two tools ask, and answer with what they were told; it has a prompt and a resource.
ASKING = """
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SAID = {"role": "user", "content": {"type": "text", "text": "Sum it up"}}
ASKS = {
    "elicit": ("elicitation/create", {"message": "How many?", "requestedSchema": FORM}),
    "sample": ("sampling/createMessage", {"maxTokens": 50, "messages": [SAID]}),
}

def initialize(request):
    version = request["params"]["protocolVersion"]
    capabilities = {"tools": {}, "prompts": {}, "resources": {}}
    info = {"name": "lines", "version": "1"}
    answer(
        request, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
    )

def list(request):
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ASKS]
    prompts = [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]
    everything = {
        "tools": tools, "prompts": prompts, "resources": [{"uri": "note:1", "name": "one"}],
        "resourceTemplates": [],
    }
    kind = request["method"].partition("/")[0]
    answer(request, {kind: everything[kind], "resourceTemplates": []})

def get(request):
    said = "Greet " + request["params"]["arguments"]["who"]
    answer(request, {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]})

def call(request):
    method, params = ASKS[request["params"]["name"]]
    write({"id": "ours", "method": method, "params": params})
    while (reply := read()).get("id") != "ours":
        pass
    told = reply.get("result") or {"refused": True}
    answer(request, text(json.dumps(told)))
"""

Open = Callable[..., Line]


@pytest.fixture
async def connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    """Make a connection to a daemon whose agent has the server, and a model with some replies."""
    lines: list[Line] = []

    def make(*replies: dict[str, Any], ask: bool = True, **declared: Any) -> Line:
        script = tmp_path / "script.jsonl"
        script.write_text("\n".join(map(json.dumps, replies or ({"text": "ok"},))))
        monkeypatch.setenv("TREADLE_MODEL", f"scripted:{script}")
        arguments = ["-I", "-S", str(LINES), ASKING]
        server = {"command": sys.executable, "args": arguments, **declared}
        write_agent("helper", permissions="auto", mcp_servers=json.dumps({"s": server}))
        line = Line(tmp_path, initialize=False)
        able = {"experimental": {"treadle": {"ask": ask}}}
        line.send(id="hello", method="initialize", params={"capabilities": able})
        line.log.pop()
        lines.append(line)
        return line

    yield make
    for line in lines:
        await line.end()


async def ask(line: Line, method: str, **params: Any) -> Any:
    request_id = f"{method}-{len(line.log)}"
    line.send(id=request_id, method=method, params={**HERE, **params})
    reply = await line.reply(request_id)
    return reply.get("result", reply.get("error"))


def results(line: Line) -> list[Any]:
    """Return what calls of tools came to, so far."""
    told = [each["params"] for each in line.log if each.get("method") == "session/toolResult"]
    return [json.loads(each["content"]) for each in told]


def statuses(line: Line) -> list[tuple[str, bool]]:
    """Return each state that was told, and whether it was a session's own server's."""
    told = [each["params"] for each in line.log if each.get("method") == "mcp/status"]
    return [(each["state"], "instance" in each and "seq" in each) for each in told]


def calls(tool: str) -> dict[str, Any]:
    return {"calls": [{"name": f"s__{tool}"}]}


async def test_a_server_asks_the_person_and_gets_a_number_back(connect: Open) -> None:
    line = connect(calls("elicit"), {"text": "done"})
    line.send(id="p", method="session/prompt", params={**HERE, "prompt": "go"})
    await line.until(lambda: any(each.get("method") == "session/ask" for each in line.log))
    (asked,) = [each for each in line.log if each.get("method") == "session/ask"]
    (question,) = asked["params"]["questions"]
    assert question["text"].startswith("The MCP server s asks you, in its own words:\n> How many?")
    line.send(id=asked["id"], result={"answers": {question["id"]: "7"}})
    assert (await line.reply("p"))["result"]["text"] == "done"
    assert results(line) == [{"action": "accept", "content": {"n": 7}}]


async def test_a_question_is_withdrawn_with_the_turn_that_it_was_asked_in(connect: Open) -> None:
    line = connect(calls("elicit"), {"text": "done"})
    line.send(id="p", method="session/prompt", params={**HERE, "prompt": "go"})
    await line.until(lambda: any(each.get("method") == "session/ask" for each in line.log))
    (asked,) = [each for each in line.log if each.get("method") == "session/ask"]
    assert (await ask(line, "session/cancel"))["cancelled"]
    await line.until(lambda: any(each.get("method") == "$/cancelRequest" for each in line.log))
    (withdrawn,) = [each for each in line.log if each.get("method") == "$/cancelRequest"]
    assert withdrawn["params"] == {"id": asked["id"]}


async def test_a_client_that_takes_no_questions_declines(connect: Open) -> None:
    line = connect(calls("elicit"), {"text": "done"}, ask=False)
    await ask(line, "session/prompt", prompt="go")
    assert [each["action"] for each in results(line)] == ["decline"]


async def test_a_server_has_the_model_answer_and_the_turn_pays_for_it(connect: Open) -> None:
    sampled = {"text": "In short.", "usage": {"input_tokens": 5, "output_tokens": 2}}
    line = connect(calls("sample"), sampled, {"text": "done"}, sampling=True)
    done = await ask(line, "session/prompt", prompt="go")
    assert (done["text"], done["usage"]) == ("done", {"inputTokens": 5, "outputTokens": 2})
    (told,) = results(line)
    assert told["content"] == {"type": "text", "text": "In short."}
    read = await ask(line, "session/read")
    said = [each["content"] for each in read["messages"] if each["role"] == "assistant"]
    assert said == ["", "done"]


async def test_a_server_that_may_not_ask_the_model_is_refused(connect: Open) -> None:
    line = connect(calls("sample"), {"text": "done"})
    assert (await ask(line, "session/prompt", prompt="go"))["text"] == "done"
    assert results(line) == [{"refused": True}]


async def test_a_servers_prompt_is_listed_filled_and_said(connect: Open) -> None:
    line = connect({"echo": True})
    listed = await ask(line, "mcp/prompts")
    argument = {"name": "who", "required": True}
    assert listed == {"prompts": [{"server": "s", "name": "greet", "arguments": [argument]}]}
    filled = await ask(line, "mcp/prompt", server="s", name="greet", arguments={"who": "Mac"})
    (message,) = filled["messages"]
    done = await ask(line, "session/prompt", prompt=message["content"])
    assert done["text"] == "Greet Mac"
    resources = await ask(line, "mcp/resources")
    assert resources == {"resources": [{"server": "s", "uri": "note:1", "name": "one"}]}


async def test_a_session_tells_of_its_server_from_its_start_to_its_end(connect: Open) -> None:
    line = connect()
    assert (await ask(line, "session/resume"))["mcp"] == [{"server": "s", "state": "stopped"}]
    await ask(line, "session/prompt", prompt="go")
    await line.until(lambda: ("ready", True) in statuses(line))
    (running,) = (await ask(line, "mcp/list"))["servers"]
    assert (running["state"], running["shared"]) == ("ready", False)
    assert running["tools"][:2] == ["s__elicit", "s__sample"]
    assert statuses(line)[:2] == [("starting", True), ("ready", True)]
    (released,) = (await ask(line, "session/close"))["released"]["servers"]
    assert released == {"server": "s", "pid": running["pid"], "exit": 0, "by": "end_of_input"}
    assert (await ask(line, "mcp/list"))["servers"] == [
        {"server": "s", "state": "stopped", "tools": [], "shared": False}
    ]


async def test_a_shared_server_is_told_of_without_a_session(connect: Open) -> None:
    line = connect(scope="agent")
    await ask(line, "session/prompt", prompt="go")
    await line.until(lambda: ("ready", False) in statuses(line))
    assert statuses(line)[:2] == [("starting", False), ("ready", False)]
