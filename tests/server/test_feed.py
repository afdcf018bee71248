"""Events become notifications: at once for a client that keeps up, joined for one that does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from treadle.models.completion import Delta
from treadle.protocol.base import WireStruct
from treadle.runtime.outbox import Outbox, Pair, StateChanged
from treadle.server import joining
from treadle.server.feed import Feed
from treadle.server.joining import JOIN_ABOVE_BYTES


class Client:
    """What a feed sent, as short lines, and how late its reader is."""

    def __init__(self, *opt_out: str) -> None:
        self.late = False
        self.told: list[Any] = []
        self.feed = Feed(self._send, self._pending_bytes, frozenset(opt_out))

    def session(self, instance: str = "a") -> Outbox:
        outbox = Outbox(Pair("assistant", instance), 0)
        outbox.watch(self.feed.take)
        return outbox

    def _pending_bytes(self) -> int:
        return JOIN_ABOVE_BYTES + self.late

    def _send(self, method: str, params: WireStruct) -> None:
        wire = msgspec.to_builtins(params)
        if method == "session/delta":
            line = (wire["instance"], wire["seq"], wire.get("joined", 1), wire["text"])
        else:
            line = (wire["instance"], wire["seq"], method)
        self.told.append(line)


def _say(outbox: Outbox, text: str, turn: int | None = 1, kind: Any = "text") -> None:
    outbox.emit(Delta(kind, text), turn)


def test_a_client_that_keeps_up_gets_every_delta() -> None:
    client = Client()
    session = client.session()
    for word in "abc":
        _say(session, word)
    assert client.told == [("a", 1, 1, "a"), ("a", 2, 1, "b"), ("a", 3, 1, "c")]


def test_deltas_for_a_late_client_wait_and_become_one() -> None:
    client = Client()
    session = client.session()
    client.late = True
    for word in "abc":
        _say(session, word)
    assert client.told == []
    client.feed.release_all()
    assert client.told == [("a", 3, 3, "abc")]


def test_a_delta_never_overtakes_those_that_wait() -> None:
    client = Client()
    session = client.session()
    client.late = True
    _say(session, "a")
    client.late = False
    _say(session, "b")
    client.feed.release_all()
    _say(session, "c")
    assert client.told == [("a", 2, 2, "ab"), ("a", 3, 1, "c")]


def test_another_event_comes_after_the_deltas_before_it() -> None:
    client = Client()
    session = client.session()
    client.late = True
    _say(session, "a")
    _say(session, "b")
    session.emit(StateChanged("idle", 0, "ok"))
    _say(session, "c")
    client.feed.release_all()
    assert client.told == [("a", 2, 2, "ab"), ("a", 3, "session/state"), ("a", 4, 1, "c")]


def test_reasoning_is_not_joined_to_text_nor_one_turn_to_the_next() -> None:
    client = Client()
    session = client.session()
    client.late = True
    _say(session, "a", kind="reasoning")
    _say(session, "b")
    _say(session, "c", turn=2)
    client.feed.release_all()
    assert client.told == [("a", 1, 1, "a"), ("a", 2, 1, "b"), ("a", 3, 1, "c")]


def test_sessions_are_joined_each_for_itself() -> None:
    client = Client()
    one, two = client.session("one"), client.session("two")
    client.late = True
    for word in "abc":
        _say(one, word)
        _say(two, word.upper())
    two.emit(StateChanged("idle", 0, "ok"))
    client.feed.release_all()
    assert client.told == [
        ("two", 3, 3, "ABC"),
        ("two", 4, "session/state"),
        ("one", 3, 3, "abc"),
    ]


def test_what_waits_is_sent_when_it_has_grown_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "MAX_JOINED_CHARACTERS", 4)
    client = Client()
    session = client.session()
    client.late = True
    for word in ("ab", "c", "de", "f"):
        _say(session, word)
    assert client.told == [("a", 3, 3, "abcde")]
    client.feed.release_all()
    assert client.told[1:] == [("a", 4, 1, "f")]


def test_deltas_that_are_not_wanted_are_not_kept() -> None:
    client = Client("session/delta")
    session = client.session()
    client.late = True
    _say(session, "a")
    session.emit(StateChanged("idle", 0, "ok"))
    client.feed.release_all()
    assert client.told == [("a", 2, "session/state")]
