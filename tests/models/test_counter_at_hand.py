"""A tokenizer is built aside, once for each model, and what it may cost is bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from treadle.models import counting
from treadle.models.counting import (
    MAX_CHARACTERS,
    MAX_REMEMBERED,
    SLICE_CHARACTERS,
    CountText,
    counter_at_hand,
    exact_counter,
)

# Longer than anything here takes.
BOUND_SECONDS = 10.0


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, CountText | None]]:
    """What this process has found, which is nothing yet."""
    own: dict[str, CountText | None] = {}
    monkeypatch.setattr(counting, "_found", own)
    yield own
    for thread in threading.enumerate():
        if thread.name == "treadle-vocabulary":
            thread.join(BOUND_SECONDS)


class Encoding:
    """A token for each character; remembers what it was given."""

    def __init__(self, problem: BaseException | None = None) -> None:
        self.given: list[str] = []
        self._problem = problem

    def encode_ordinary(self, text: str) -> list[int]:
        if self._problem is not None:
            raise self._problem
        self.given.append(text)
        return [0] * len(text)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Callable[[Encoding], CountText]:
    """Return what makes a counter of an encoding."""

    def made(encoding: Encoding) -> CountText:
        monkeypatch.setattr(counting.importlib, "import_module", lambda name: None)
        monkeypatch.setattr(counting, "_encoding", lambda *_: encoding)
        count = exact_counter("gpt-4o")
        monkeypatch.undo()
        assert count is not None
        return count

    return made


def test_a_tokenizer_is_built_aside_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on, built = threading.Event(), list[tuple[str, str]]()

    def build(model: str) -> CountText:
        assert goes_on.wait(BOUND_SECONDS)
        built.append((model, threading.current_thread().name))
        return len

    monkeypatch.setattr(counting, "exact_counter", build)
    assert (counter_at_hand("a"), counter_at_hand("a")) == (None, None)
    goes_on.set()
    end = time.monotonic() + BOUND_SECONDS
    while counter_at_hand("a") is None and time.monotonic() < end:
        threading.Event().wait(0.001)
    assert counter_at_hand("a") is len
    assert built == [("a", "treadle-vocabulary")]


def test_a_model_without_a_tokenizer_is_looked_for_once(
    found: dict[str, CountText | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(counting, "exact_counter", asked.append)
    for _ in range(3):
        assert counter_at_hand("b") is None
        for thread in threading.enumerate():
            if thread.name == "treadle-vocabulary":
                thread.join(BOUND_SECONDS)
    assert asked == ["b"] and found == {"b": None}


def test_names_without_end_are_not_remembered_without_end(
    found: dict[str, CountText | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "exact_counter", lambda model: None)
    found.update({str(number): None for number in range(MAX_REMEMBERED)})
    counter_at_hand("one more")
    assert len(found) == MAX_REMEMBERED and "one more" in found and "0" not in found


@pytest.mark.parametrize("length", [0, 1, SLICE_CHARACTERS, SLICE_CHARACTERS + 1, MAX_CHARACTERS])
def test_a_text_is_counted_whole_in_slices(
    length: int, counter: Callable[[Encoding], CountText]
) -> None:
    encoding = Encoding()
    text = "".join(chr(0x4E00 + at % 5_000) for at in range(length))
    assert counter(encoding)(text) == length
    assert "".join(encoding.given) == text
    assert max(map(len, encoding.given), default=0) <= SLICE_CHARACTERS


@pytest.mark.parametrize("length", [MAX_CHARACTERS + 1, 2_000_000, 20_000_001])
def test_of_a_very_long_text_as_much_is_counted_as_may_be(
    length: int, counter: Callable[[Encoding], CountText]
) -> None:
    encoding = Encoding()
    assert counter(encoding)("x" * length) == length
    assert 0.9 * MAX_CHARACTERS <= sum(map(len, encoding.given)) <= MAX_CHARACTERS


class Panic(BaseException):
    """What native code raises that has given up: no `Exception`."""


@pytest.mark.parametrize("problem", [Panic("stack overflow"), ValueError("no")])
def test_a_tokenizer_that_fails_at_a_text_counts_nothing(
    problem: BaseException, counter: Callable[[Encoding], CountText]
) -> None:
    assert counter(Encoding(problem))("text") is None


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), SystemExit()])
def test_who_ends_the_process_ends_it_while_something_is_counted(
    problem: BaseException, counter: Callable[[Encoding], Any]
) -> None:
    with pytest.raises(type(problem)):
        counter(Encoding(problem))("text")
