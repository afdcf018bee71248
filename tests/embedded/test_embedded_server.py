"""The embedded model's process: there when it is needed, gone when it is not."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from treadle.errors import ContextOverflow, ModelUnreachable, NoModel
from treadle.models.completion import ToolSpec
from treadle.models.embedded import server as server_module
from treadle.models.embedded.files import FILE_VARIABLE
from treadle.models.embedded.model import EmbeddedModel
from treadle.models.embedded.server import EmbeddedServer, Running
from treadle.thread.message import Message, ToolCall, Usage
from treadle.turn.agent import Agent
from treadle.turn.env import Env

T = TypeVar("T")

BOUND_SECONDS = 20.0


async def bounded(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(BOUND_SECONDS):
        return await awaitable


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while not condition():  # noqa: ASYNC110 - looks at another process
            await asyncio.sleep(0.01)


def started(starts: Path) -> int:
    return len(list(starts.iterdir()))


class Offer:
    """Offers the tool `read` without ever running it."""

    def __init__(self, app: Callable[[Env], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, env: Env) -> None:
        path = {"type": "object", "properties": {"path": {}}, "required": ["path"]}
        env.tools = [ToolSpec("read", "Reads.", path)]
        await self._app(env)


def agent(model: EmbeddedModel, *, tools: bool = False) -> Agent:
    made = Agent().use(Offer) if tools else Agent()
    return made.run(model.completion())


async def test_turns_that_come_at_once_share_one_start(
    tmp_path: Path, starts: Path, fake: Callable[..., server_module.Command]
) -> None:
    model = EmbeddedModel(tmp_path, server=EmbeddedServer(tmp_path, command=fake()))
    assert started(starts) == 0

    turns = (agent(model).start(f"turn {number}") for number in range(5))
    envs = await bounded(asyncio.gather(*turns))

    assert [env.messages[-1].text for env in envs] == [f"turn {number}" for number in range(5)]
    assert started(starts) == 1
    await bounded(model.close())


async def test_an_answer_streams_and_is_said_once(
    tmp_path: Path, fake: Callable[..., server_module.Command]
) -> None:
    model = EmbeddedModel(tmp_path, server=EmbeddedServer(tmp_path, command=fake()))
    deltas: list[str] = []
    for tools in (False, True):
        deltas.clear()
        talk = agent(model, tools=tools).on("delta", lambda env, delta: deltas.append(delta.text))

        env = await bounded(talk.start('Hi "you" 😀'))

        said = Message(
            "assistant",
            'Hi "you" 😀',
            model="embedded",
            usage=Usage(input_tokens=3, output_tokens=4),
        )
        assert env.messages[1:] == [said]
        assert "".join(deltas) == 'Hi "you" 😀' and len(deltas) > 5
        assert env.model_calls == 1
    await bounded(model.close())


async def test_a_step_that_names_a_tool_is_a_call(
    tmp_path: Path, fake: Callable[..., server_module.Command]
) -> None:
    model = EmbeddedModel(tmp_path, server=EmbeddedServer(tmp_path, command=fake()))

    env = await bounded(agent(model, tools=True).start("call notes.txt"))

    (call,) = env.messages[-1].tool_calls
    assert call == ToolCall(call.id, "read", {"path": "notes.txt"})
    assert env.messages[-1].text == ""
    await bounded(model.close())


async def test_a_process_that_dies_in_a_turn_is_told_and_started_anew(
    tmp_path: Path, starts: Path, fake: Callable[..., server_module.Command]
) -> None:
    model = EmbeddedModel(tmp_path, server=EmbeddedServer(tmp_path, command=fake()))
    envs: list[Env] = []
    talk = agent(model).on("turn", lambda env, _: envs.append(env))

    with pytest.raises(ModelUnreachable, match=r"exit code 9\): out of luck"):
        await bounded(talk.start("die"))
    assert envs[-1].messages[-1] == Message("assistant", "die", model="embedded", partial=True)

    env = await bounded(talk.start("still there?"))
    assert env.messages[-1].text == "still there?"
    assert started(starts) == 2
    await bounded(model.close())


async def test_a_cancelled_turn_keeps_its_text_and_the_process_serves_on(
    tmp_path: Path, starts: Path, fake: Callable[..., server_module.Command]
) -> None:
    model = EmbeddedModel(tmp_path, server=EmbeddedServer(tmp_path, command=fake()))
    envs: list[Env] = []
    text: list[str] = []
    talk = agent(model, tools=True).on("turn", lambda env, _: envs.append(env))
    talk.on("delta", lambda env, delta: text.append(delta.text))
    turn = asyncio.create_task(talk.start("hang"))
    await until(lambda: "".join(text) == "hang")

    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bounded(turn)

    assert envs[-1].messages[-1] == Message("assistant", "hang", model="embedded", partial=True)
    assert (await bounded(talk.start("go on"))).messages[-1].text == "go on"
    assert started(starts) == 1
    await bounded(model.close())


async def test_a_conversation_larger_than_the_window_is_an_overflow(
    tmp_path: Path, fake: Callable[..., server_module.Command]
) -> None:
    model = EmbeddedModel(tmp_path, server=EmbeddedServer(tmp_path, command=fake()))

    with pytest.raises(ContextOverflow) as caught:
        await bounded(agent(model).start("overflow"))

    assert caught.value.data == {"window": 8192}
    await bounded(model.close())


async def test_an_idle_process_is_stopped_and_comes_back(
    tmp_path: Path, starts: Path, fake: Callable[..., server_module.Command]
) -> None:
    server = EmbeddedServer(tmp_path, command=fake(), idle_seconds=0.01)
    async with server.use() as running:
        pass
    await bounded(running.child.wait())
    assert running.child.exit_code == 0

    async with server.use() as again:
        assert again.child.pid != running.child.pid
    await bounded(server.close())
    assert again.child.exit_code == 0
    assert started(starts) == 2


async def test_a_turn_keeps_the_process_from_being_idle(
    tmp_path: Path, fake: Callable[..., server_module.Command]
) -> None:
    server = EmbeddedServer(tmp_path, command=fake(), idle_seconds=0.0)
    async with server.use() as first, server.use() as second:
        assert first is second
        await asyncio.sleep(0.05)
        assert first.child.exit_code is None
    await bounded(first.child.wait())
    await bounded(server.close())


async def test_a_first_turn_that_is_cancelled_leaves_the_start_to_the_second(
    tmp_path: Path, starts: Path, fake: Callable[..., server_module.Command]
) -> None:
    server = EmbeddedServer(tmp_path, command=fake())

    async def take() -> Running:
        async with server.use() as running:
            return running

    first, second = asyncio.create_task(take()), asyncio.create_task(take())
    await asyncio.sleep(0)
    first.cancel()

    assert (await bounded(second)).child.exit_code is None
    assert first.cancelled()
    assert started(starts) == 1
    await bounded(server.close())


async def test_closing_while_it_starts_leaves_no_process(
    tmp_path: Path, starts: Path, fake: Callable[..., server_module.Command]
) -> None:
    model = EmbeddedModel(tmp_path, server=EmbeddedServer(tmp_path, command=fake()))
    turn = asyncio.create_task(agent(model).start("Hi"))
    await until(lambda: started(starts) == 1)

    await bounded(model.close())

    with pytest.raises((asyncio.CancelledError, ModelUnreachable)):
        await bounded(turn)
    await bounded(model.close())


@pytest.mark.parametrize(
    ("first_line", "complaint", "message", "how"),
    [
        (
            json.dumps({"error": "libgomp is not there", "how": "apt install libgomp1"}),
            "",
            "libgomp is not there",
            "apt install libgomp1",
        ),
        ("", "Illegal instruction", "ended (exit code 7): Illegal instruction", "try again"),
        ("no JSON", "", "ended (exit code 7)", "try again"),
        ("[]", "", "ended (exit code 7)", "try again"),
        ("x" * 100_000, "", "said too much", "try again"),
    ],
)
async def test_a_process_that_cannot_serve_says_what_to_do(
    tmp_path: Path,
    fake: Callable[..., server_module.Command],
    first_line: str,
    complaint: str,
    message: str,
    how: str,
) -> None:
    command = fake(first_line, complaint)
    model = EmbeddedModel(tmp_path, server=EmbeddedServer(tmp_path, command=command))

    with pytest.raises(NoModel) as caught:
        await bounded(agent(model).start("Hi"))

    assert message in caught.value.message
    assert how in caught.value.data["how"] and "TREADLE_MODEL" in caught.value.data["how"]
    await bounded(model.close())


async def test_a_process_that_says_nothing_is_given_up(
    tmp_path: Path,
    fake: Callable[..., server_module.Command],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "START_SECONDS", 0.2)
    monkeypatch.setenv(FILE_VARIABLE, __file__)
    silent = ["-c", "import sys; sys.stdin.read()"]
    server = EmbeddedServer(tmp_path, command=lambda _: [sys.executable, "-I", *silent])

    with pytest.raises(NoModel, match="said nothing"):
        await bounded(agent(EmbeddedModel(tmp_path, server=server)).start("Hi"))


async def test_without_a_model_file_the_person_is_told_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(NoModel) as caught:
        await bounded(agent(EmbeddedModel(tmp_path)).start("Hi"))

    assert "treadle model pull` (491 MB, once)" in caught.value.data["how"]


async def test_secrets_and_settings_of_ours_do_not_reach_the_process(
    tmp_path: Path, starts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILE_VARIABLE, __file__)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "1")
    code = "import json, os; print(json.dumps({'error': ' '.join(os.environ)}))"
    server = EmbeddedServer(tmp_path, command=lambda _: [sys.executable, "-I", "-c", code])

    with pytest.raises(NoModel) as caught:
        async with server.use():
            pass

    assert "TREADLE_EMBEDDED_KEY" in caught.value.message
    assert "OPENAI_API_KEY" not in caught.value.message
    assert "LLAMA_ARG" not in caught.value.message
