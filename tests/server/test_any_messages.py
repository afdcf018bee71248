"""Whatever a client sends, in whatever order: as many replies under an id as requests with it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.line import Line

IDS: st.SearchStrategy[Any] = st.sampled_from([1, 2, "1", "x", 2**70])
NO_IDS: st.SearchStrategy[Any] = st.sampled_from([None, True, 1.5, [], {}])
PAIRS = st.fixed_dictionaries(
    {"agent": st.sampled_from(["assistant", "nobody", ""]), "instance": st.sampled_from(["a", "b"])}
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def _params(method: str) -> st.SearchStrategy[Any]:
    good = PAIRS
    if method == "session/prompt":
        said = st.sampled_from(["wait", "fail", "talk", " "])
        busy = st.sampled_from(["queue", "reject", "never"])
        good = st.builds(lambda p, s, b: {**p, "prompt": s, "whenBusy": b}, PAIRS, said, busy)
    return st.one_of(good, good, good, ANY_JSON)


METHODS = st.sampled_from(
    [
        "agent/list",
        "session/list",
        "session/read",
        "session/resume",
        "session/prompt",
        "session/prompt",
        "session/prompt",
        "session/cancel",
        "session/close",
        "initialize",
        "initialized",
        "exit",
        "no/such",
    ]
)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    method = draw(METHODS)
    return {
        "jsonrpc": "2.0",
        "id": draw(st.one_of(IDS, IDS, IDS, NO_IDS)),
        "method": method,
        "params": draw(_params(method)),
    }


@st.composite
def notifications(draw: st.DrawFn) -> dict[str, Any]:
    method = draw(st.sampled_from(["$/cancelRequest", "$/setTrace", "session/cancel", "no/such"]))
    params = draw(PAIRS | st.fixed_dictionaries({"id": IDS}) | ANY_JSON)
    return {"jsonrpc": "2.0", "method": method, "params": params}


CANCELS = st.builds(
    lambda number: {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}}, IDS
)
ANSWERS = st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": IDS, "result": ANY_JSON})
STEPS = st.lists(
    st.one_of(
        requests(),
        requests(),
        requests(),
        notifications(),
        CANCELS,
        CANCELS,
        ANSWERS,
        st.just("pass"),
        st.binary(max_size=9),
    ),
    max_size=15,
)


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Prepare a model that talks, fails and waits in turn, and sessions that are not stored."""
    script = tmp_path / "script.jsonl"
    lines = [
        {"text": "some words"},
        {"text": "half", "error": {"reason": "model_unreachable"}},
        {"text": "late", "delay_seconds": 3600},
    ]
    script.write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setenv("TREADLE_MODEL", f"scripted:{script}")
    config = tmp_path / "config"
    config.mkdir()
    (config / "config.toml").write_text('[sessions]\ndurability = "memory"\n')
    return tmp_path


@settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS, ends_with_shutdown=st.booleans())
def test_every_request_gets_exactly_one_reply(
    person: Path, steps: list[Any], ends_with_shutdown: bool
) -> None:
    expected, told = asyncio.run(_play(person, steps, ends_with_shutdown))
    assert told == expected


async def _play(
    folder: Path, steps: list[Any], ends_with_shutdown: bool
) -> tuple[Counter[Any], Counter[Any]]:
    """Send the steps; return how many replies are due for each id, and how many came."""
    line = Line(folder)
    due: Counter[Any] = Counter()
    for step in steps:
        if step == "pass":
            await asyncio.sleep(0.002)
        elif isinstance(step, bytes):
            line.connection.receive(step)
            due[None] += 1
        else:
            line.connection.receive(json.dumps(step).encode())
            due += _due(step)
    if ends_with_shutdown:
        line.send(id="the end", method="shutdown")
        due["the end"] += 1
        await line.reply("the end")
    await line.end()
    return due, Counter(message.get("id") for message in line.log if "method" not in message)


def _due(message: dict[str, Any]) -> Counter[Any]:
    if "id" not in message or "method" not in message:
        return Counter()
    request_id = message["id"]
    readable = isinstance(request_id, int | str) and not isinstance(request_id, bool)
    return Counter([request_id if readable else None])
