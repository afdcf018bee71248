"""Sessions count by the tokenizer of their own model, where one is at hand, and by none else."""

from __future__ import annotations

from typing import Any

import pytest

from support.model_server import ModelServer
from support.person import on
from support.small_window import LONG, summing_up, write_counting
from treadle import Session
from treadle.runtime import compactors


async def test_a_session_counts_by_the_tokenizer_of_its_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models: set[str] = set()
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text) // 4

    def at_hand(model: str) -> Any:
        models.add(model)
        return count

    monkeypatch.setattr(compactors, "counter_at_hand", at_hand)
    write_counting()
    async with ModelServer(summing_up()) as server:
        for name, value in on(server).items():
            monkeypatch.setenv(name, value)
        async with await Session.resume("counter", "a") as session:
            for number in range(4):
                await session.prompt(f"{number} {LONG}")
        assert models == {request["model"] for request in server.requests}
    assert f"user: 0 {LONG}" in counted or f"user: 1 {LONG}" in counted
