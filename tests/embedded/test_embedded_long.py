"""A real conversation past the real model's window: what was said early is known at the end.

The window is a small part of what the model takes, so that it fills within a minute.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from treadle import Compacted, Session
from treadle.folders import CACHE_VARIABLE, CONFIG_VARIABLE

AGENT = """---
model: embedded
tools: []
compaction: {window: 1600}
---
You are a friendly pal. Answer in one short sentence.
"""
TOPICS = ("the sea", "bread", "trains", "whales", "snow", "clocks", "bees")
READ = "Here is what I read about it: " + "it is old, it is large, and people like to talk; " * 12

# A dozen short answers and a summary, which take a minute alone.
BOUND_SECONDS = 240.0


@pytest.fixture
def pal(cache: Path) -> str:
    """The name of an agent that the embedded model answers for, in folders of the test's own."""
    own = Path(os.environ[CACHE_VARIABLE])
    own.mkdir()
    (own / "models").symlink_to(cache / "models")
    agent = Path(os.environ[CONFIG_VARIABLE], "agents", "pal.md")
    agent.parent.mkdir(parents=True)
    agent.write_text(AGENT)
    return agent.stem


async def test_what_was_said_early_is_known_after_the_window_was_full(pal: str) -> None:
    ended: list[Compacted] = []
    async with asyncio.timeout(BOUND_SECONDS), await Session.resume(pal, "long") as session:
        session.on("compacted", lambda _, compacted: ended.append(compacted))
        said = [
            "My name is Mac.",
            "I live in Oslo.",
            *(f"Tell me one thing about {topic}. {READ}" for topic in TOPICS),
            "What is my name?",
            "Where do I live?",
        ]
        answers = [(await session.prompt(text)).text for text in said]

    assert {each.outcome for each in ended} == {"completed"}
    assert 0 in {each.ordinal for each in ended[0].gave_up}
    assert all("Mac" in each.summary and "Oslo" in each.summary for each in ended)
    assert "Mac" in answers[-2]
    assert "Oslo" in answers[-1]
