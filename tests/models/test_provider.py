"""The daemon's models: which completion a spec gives, and what is shared."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from support.model_server import ModelServer, memory
from treadle.errors import InvalidAgent
from treadle.models.provider import Models
from treadle.models.spec import EMBEDDED, ModelSpec
from treadle.turn.agent import Agent


async def test_sessions_on_one_endpoint_share_its_connection_until_the_models_close(
    tmp_path: Path,
) -> None:
    async with ModelServer(memory) as server:
        models = Models(tmp_path)
        spec = ModelSpec("endpoint", "m", server.base_url, "key")
        for name in ("Mac", "Ada"):
            env = await Agent().run(models.completion(spec)).start(f"My name is {name}.")
            assert env.messages[-1].text == f"Your name is {name}."
        assert (server.connections, server.open_connections) == (1, 1)

        await models.close()
        await server.until(lambda: server.open_connections == 0)


async def test_another_key_is_never_sent_over_a_shared_client(tmp_path: Path) -> None:
    async with ModelServer(memory) as server:
        models = Models(tmp_path)
        for key in ("one", "two"):
            spec = ModelSpec("endpoint", "m", server.base_url, key)
            await Agent().run(models.completion(spec)).start("Hi")
        await models.close()
    assert [headers["authorization"] for headers in server.headers] == ["Bearer one", "Bearer two"]


async def test_a_script_is_read_at_the_first_call_and_each_session_has_its_own_place(
    tmp_path: Path,
) -> None:
    path = tmp_path / "replies.jsonl"
    models = Models(tmp_path)
    spec = ModelSpec("scripted", f"scripted:{path}")
    first, second = models.completion(spec), models.completion(spec)
    with pytest.raises(InvalidAgent):
        await Agent().run(first).start("Hi")

    path.write_text('{"text": "One."}\n{"text": "Two."}\n', encoding="utf-8")
    texts = [
        (await Agent().run(completion).start("Hi")).messages[-1].text
        for completion in (first, second, first)
    ]
    assert texts == ["One.", "One.", "Two."]
    await models.close()


def test_a_key_is_not_shown_where_a_spec_is_printed() -> None:
    assert "secret" not in repr(ModelSpec("endpoint", "m", None, "secret"))


async def test_the_embedded_model_is_made_once_and_stopped_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[Path, list[str]]] = []

    class EmbeddedModel:
        def __init__(self, cache: Path) -> None:
            made.append((cache, []))

        def completion(self) -> str:
            made[-1][1].append("completion")
            return "completion"

        async def close(self) -> None:
            made[-1][1].append("close")

    home = ModuleType("treadle.models.embedded.model")
    home.EmbeddedModel = EmbeddedModel  # type: ignore[attr-defined] # a stand-in for the module
    monkeypatch.setitem(sys.modules, home.__name__, home)

    models = Models(tmp_path)
    assert [models.completion(EMBEDDED), models.completion(EMBEDDED)] == ["completion"] * 2
    await models.close()
    await models.close()
    assert made == [(tmp_path, ["completion", "completion", "close"])]
