"""What a person keeps and says: agent files, `config.toml`, a daemon on a model of the test's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from support.daemon import Daemon, daemon
from support.model_server import Answer, ModelServer, Request, last_user_text
from treadle.folders import CONFIG_VARIABLE, DATA_VARIABLE
from treadle.thread.paths import thread_path


def write_agent(name: str, instructions: str = "You are a test.", **front_matter: object) -> Path:
    """Write an agent's file; values stand in its front matter as they print."""
    lines = [f"{key}: {value}" for key, value in front_matter.items()]
    path = Path(os.environ[CONFIG_VARIABLE], "agents", f"{name}.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["---", *lines, "---", instructions, ""]), encoding="utf-8")
    return path


def write_config(text: str) -> Path:
    """Write `config.toml`."""
    path = Path(os.environ[CONFIG_VARIABLE], "config.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def stored(agent: str, instance: str) -> Path:
    """Return where a pair's thread lies, whether it is there or not."""
    return thread_path(Path(os.environ[DATA_VARIABLE]), agent, instance)


def on(server: ModelServer) -> dict[str, str]:
    """Return the variables that make a model server every agent's model."""
    return {"TREADLE_MODEL": "test-model", "OPENAI_BASE_URL": server.base_url}


def by_text(answers: Mapping[str, Answer], otherwise: str = "Fine.") -> Callable[[Request], Answer]:
    """Answer each request by what its last user message says."""
    return lambda request: answers.get(last_user_text(request)) or Answer(otherwise)


@contextlib.asynccontextmanager
async def conversation(
    answer: Callable[[Request], Answer], **initialize: Any
) -> AsyncIterator[tuple[Daemon, ModelServer]]:
    """Run a daemon whose agents are answered by `answer`.

    Args:
        answer: what the model says to each request.
        initialize: further params of `initialize`.
    """
    async with (
        ModelServer(answer) as server,
        daemon(env=on(server), initialize=False) as client,
    ):
        await client.initialize(**initialize)
        yield client, server


def without_overhead(data: dict[str, Any]) -> dict[str, Any]:
    """Return an error's data without how much is sent beside a conversation: tools change."""
    assert data.get("overheadTokens", 1) > 0
    return {key: value for key, value in data.items() if key != "overheadTokens"}


def pair(instance: str, agent: str = "assistant", **members: Any) -> dict[str, Any]:
    """Return the params of a session's method."""
    return {"agent": agent, "instance": instance, **members}
