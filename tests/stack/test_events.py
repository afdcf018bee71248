"""Events: subscribers hear in order, each isolated from the others."""

from __future__ import annotations

from functools import partial

import pytest

from treadle.errors import ConfigurationError
from treadle.stack.events import Events


def test_subscribers_hear_env_and_payload_in_order_of_subscription() -> None:
    events, heard = Events(["done", "step"]), list[tuple[str, object, object]]()
    for name in ("first", "second"):
        events.on("done", lambda env, payload, name=name: heard.append((name, env, payload)))
    events.on("step", lambda env, payload: heard.append(("step", env, payload)))

    events.emit("done", "env", 1)

    assert heard == [("first", "env", 1), ("second", "env", 1)]


def test_a_subscriber_that_raises_is_logged_and_the_others_still_hear(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events, heard = Events(["done"]), list[object]()

    def fail(env: object, payload: object) -> None:
        raise ValueError("the subscriber's own fault")

    events.on("done", fail)
    events.on("done", lambda _, payload: heard.append(payload))

    events.emit("done", None, 1)

    assert heard == [1]
    assert "'done'" in caplog.text and "the subscriber's own fault" in caplog.text


def test_an_unknown_event_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match="'dome'; there are: done, step"):
        Events(["step", "done"]).on("dome", print)


def test_what_nobody_would_await_is_refused() -> None:
    async def function(env: object, payload: object) -> None: ...

    class Listener:
        async def __call__(self, env: object, payload: object) -> None: ...

        async def method(self, env: object, payload: object) -> None: ...

    events = Events(["done"])
    for subscriber in (function, partial(function), Listener(), Listener().method):
        with pytest.raises(ConfigurationError, match="coroutine function"):
            events.on("done", subscriber)


def test_who_subscribes_in_an_event_hears_the_next_one() -> None:
    events, heard = Events(["done"]), list[object]()

    def again(_: object, payload: object) -> None:
        heard.append(payload)
        events.on("done", again)

    events.on("done", again)

    events.emit("done", None, 1)
    assert heard == [1]
    events.emit("done", None, 2)
    assert heard == [1, 2, 2]
