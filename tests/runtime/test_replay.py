"""Watchers that come and go: what they hear together is every event, each once, in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treadle.models.completion import Delta
from treadle.runtime import ring
from treadle.runtime.outbox import Outbox, Pair, Said, SessionEvent
from treadle.runtime.ring import Kept, Ring

PAIR = Pair("assistant", "test")

# What happens: so many events, something that is said, or the watcher goes or comes back.
STEPS = st.lists(
    st.one_of(st.integers(1, 5), st.just("said"), st.just("goes"), st.just("comes")), max_size=60
)


@given(STEPS)
def test_whoever_comes_back_in_time_has_heard_every_event_once(steps: list[int | str]) -> None:
    outbox, heard, is_there = Outbox(PAIR, 0), list[SessionEvent](), False
    told: list[SessionEvent] = []
    outbox.watch(told.append)
    last = 0
    for step in steps:
        if isinstance(step, int):
            for number in range(step):
                outbox.emit(Delta("text", str(number)), 1)
        elif step == "said":
            outbox.note(Said("x", None), 1)
        elif step == "goes" and is_there:
            outbox.unwatch(heard.append)
            last, is_there = outbox.last_seq, False
        elif step == "comes" and not is_there:
            missed = outbox.since(last)
            assert missed is not None
            heard += missed
            outbox.watch(heard.append)
            is_there = True
    heard += [] if is_there else outbox.since(last) or []
    # What was said right behind the last event before it went is the one thing it has already.
    numbers = [event.seq for event in heard if not isinstance(event.payload, Said)]
    assert numbers == list(range(1, outbox.last_seq + 1))
    assert [e for e in heard if isinstance(e.payload, Delta)] == [
        e for e in told if isinstance(e.payload, Delta)
    ]


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=300))
def test_what_is_kept_is_bounded_and_what_is_lost_is_known(lengths: list[int]) -> None:
    kept = Kept()
    events = Ring(kept, 0)
    for number, length in enumerate(lengths, 1):
        events.add(SessionEvent(PAIR, number, 1, Delta("text", "x" * length)))
    assert kept.size_bytes <= ring.RING_BYTES
    assert events.since(events.lost_through - 1) is None
    found = events.since(events.lost_through)
    assert found is not None
    assert [event.seq for event in found] == list(range(events.lost_through + 1, len(lengths) + 1))
    events.clear()
    assert (kept.size_bytes, events.since(len(lengths))) == (0, [])


def test_all_sessions_together_keep_no_more_than_their_bound() -> None:
    kept = Kept()
    rings = [Ring(kept, 0) for _ in range(300)]
    for one in rings:
        for number in range(1, 6):
            one.add(SessionEvent(PAIR, number, 1, Delta("text", "x" * 100_000)))
    # Each keeps its newest event, whatever the others hold.
    assert kept.size_bytes <= ring.ALL_BYTES + len(rings) * (100_000 + ring.EVENT_BYTES)
    assert all(one.since(4) for one in rings)
