"""Changes of files that a person is asked about: what is shown, and what happens then."""

from __future__ import annotations

import asyncio
import time

import pytest

from support.calls import Caller, Person, asking, in_memory
from treadle.permissions.approvals import Answer, Approvals
from treadle.permissions.policy import Policy


async def test_a_person_sees_the_diff_before_anything_happens() -> None:
    person = Person()
    files = {"f": b"one\ntwo"}
    caller = asking(files, person)
    await caller.told("read", path="f")
    await caller.told("edit", path="f", edits=[{"old": "two", "new": "2\n"}])
    await caller.told("write", path="g", content="g\n")
    await caller.told("remove", path="g")
    await caller.told("undo")
    assert [(question.detail, question.preview) for question in person.questions] == [
        (
            "edit f: +1 -1 lines",
            "--- f\n+++ f\n@@ -1,2 +1,2 @@\n one\n-two\n\\ no line end at the end of the file\n+2",
        ),
        ("write g: a new file, 2 bytes, +1 -0 lines", "--- /dev/null\n+++ g\n@@ -0,0 +1,1 @@\n+g"),
        ("remove g: 2 bytes", "--- g\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-g"),
        ("undo: remove g", "--- /dev/null\n+++ g\n@@ -0,0 +1,1 @@\n+g"),
    ]


async def test_what_a_person_denies_does_not_happen() -> None:
    files = {"f": b"one\n"}
    caller = asking(files, Person("deny"))
    await caller.told("read", path="f")
    for name, arguments in (
        ("edit", {"edits": [{"old": "one", "new": "two"}]}),
        ("write", {"content": "two"}),
        ("remove", {}),
    ):
        assert "was not allowed" in await caller.refused(name, path="f", **arguments)
    assert files == {"f": b"one\n"}


async def test_nobody_is_asked_about_what_cannot_be_done() -> None:
    person = Person()
    caller = asking({"f": b"one\n"}, person)
    await caller.refused("write", path="f", content="two")
    await caller.refused("remove", path="g")
    await caller.refused("undo")
    assert person.questions == []


async def test_a_file_that_changes_while_a_person_thinks_is_left_alone() -> None:
    files = {"f": b"one\n"}

    async def change() -> None:
        files["f"] = b"somebody else\n"

    caller = asking(files, Person(meanwhile=change))
    await caller.told("read", path="f")
    assert "has changed since" in await caller.refused("write", path="f", content="two")
    assert files == {"f": b"somebody else\n"}


@pytest.mark.parametrize("answer", ["allow_once", "deny"])
async def test_the_time_that_a_person_takes_to_answer_is_not_the_tools(answer: Answer) -> None:
    answered: list[float] = []

    async def think() -> None:
        await asyncio.sleep(0.05)
        answered.append(time.monotonic())

    outcome = await asking({}, Person(answer, think)).call("write", path="f", content="1")
    ran = time.monotonic() - answered[0]
    assert 0 < outcome.seconds <= ran if outcome.ok else outcome.seconds == 0


async def test_undo_takes_back_what_the_person_was_shown_and_nothing_else() -> None:
    files: dict[str, bytes] = {}
    first = in_memory(files)
    await first.told("write", path="f", content="one\n")

    async def write_more() -> None:
        await first.told("write", path="g", content="two\n")

    session = first.session
    session.approvals = Approvals(Person(meanwhile=write_more))
    asking = Caller(first.sandbox, Policy("ask"), session)
    assert "Another change was made meanwhile" in await asking.refused("undo")
    assert files == {"f": b"one\n", "g": b"two\n"}
