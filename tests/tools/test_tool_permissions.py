"""What a call needs to be allowed: judged before it runs, asked where the policy says so."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.permissions.approvals import Answer, Approvals, Granted, Question
from treadle.permissions.modes import MODES, Capability, is_stricter_or_equal
from treadle.permissions.policy import Policy, Verdict
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.message import ToolCall
from treadle.tools.layers.permit import DENIED, REFUSED
from treadle.tools.pipeline import ToolOutcome, run_call
from treadle.tools.session import ToolSession
from treadle.tools.tool import Shown, ToolContext, tool

CAPABILITIES: list[Capability] = ["read", "write", "shell", "network", "fetch", "mcp"]
HOSTS = ("docs.example", "a.docs.example", "example", "other.example")
TOOLS = ("wiki__read", "wiki__write")


async def _shown(arguments: Any, context: ToolContext) -> Shown:
    return Shown(f"$ {arguments.command}\n# really", "the\nwhole", f"shell {arguments.command}")


@tool(capability="shell", preview=_shown)
async def act(command: str) -> str:
    """Act."""
    return f"did {command}"


class Person:
    """Answers by a script, and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers: Iterator[Answer] = iter(answers)
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return next(self._answers)


async def run(command: str, policy: Policy, approvals: Approvals | None = None) -> ToolOutcome:
    session = ToolSession(approvals=approvals)
    context = ToolContext(VirtualSandbox(), session, policy)
    return await run_call(ToolCall("1", "act", {"command": command}), {"act": act}, context)


@pytest.mark.parametrize(
    ("mode", "verdicts"),
    [
        ("read_only", ["allow", "refuse", "refuse", "refuse", "refuse", "refuse"]),
        ("ask", ["allow", "ask", "ask", "ask", "refuse", "ask"]),
        ("auto", ["allow", "allow", "allow", "allow", "refuse", "allow"]),
    ],
)
def test_a_mode_allows_reading_and_says_what_becomes_of_the_rest(
    mode: Any, verdicts: list[Verdict]
) -> None:
    assert [Policy(mode).verdict("any", capability) for capability in CAPABILITIES] == verdicts


@pytest.mark.parametrize("mode", MODES)
def test_what_the_file_names_is_allowed_in_every_mode(mode: Any) -> None:
    policy = Policy(mode, fetch_allow=("Docs.Example",), mcp_allow=("wiki__read",))

    assert policy.verdict("fetch", "fetch") == policy.verdict("wiki__read", "mcp") == "allow"
    assert policy.verdict("wiki__write", "mcp") == Policy(mode).verdict("wiki__write", "mcp")
    hosts = ("docs.example", "a.DOCS.example.", "example", "evildocs.example", "docs.example.evil")
    assert [*map(policy.allows_host, hosts)] == [True, True, False, False, False]


async def test_a_call_that_is_refused_does_not_run_and_says_by_what() -> None:
    outcome = await run("x", Policy())

    assert outcome == ToolOutcome(REFUSED.format(name="act", mode="read_only"), False, False)


async def test_where_nobody_can_be_asked_a_call_is_denied() -> None:
    outcome = await run("x", Policy("ask"))

    assert outcome == ToolOutcome(DENIED.format(name="act"), False, False)


async def test_a_person_sees_what_the_call_would_do_and_an_answer_is_used_once() -> None:
    person = Person("allow_once", "deny")
    granted = Granted()
    approvals = Approvals(person, granted)

    outcomes = [await run("make", Policy("ask"), approvals) for _ in range(2)]

    assert [outcome.ok for outcome in outcomes] == [True, False]
    call = ToolCall("1", "act", {"command": "make"})
    assert (
        person.asked == [Question(call, "shell", "$ make # really", "the\nwhole", "shell make")] * 2
    )
    assert granted.texts == ()


async def test_what_is_allowed_for_the_session_is_asked_once_and_covers_nothing_else() -> None:
    person = Person("allow_session", "deny")
    granted = Granted()
    approvals = Approvals(person, granted)

    outcomes = [
        await run(command, Policy("ask"), approvals) for command in ("make", "make", "make x")
    ]

    assert [outcome.ok for outcome in outcomes] == [True, True, False]
    assert len(person.asked) == 2
    assert granted.texts == ("shell make",)


async def test_nothing_a_model_writes_hides_what_a_person_judges_or_makes_two_commands_one() -> (
    None
):
    person = Person("allow_session", "deny")
    approvals = Approvals(person)
    command = "echo ok\r\x1b[2K\u202erm -rf ~"

    for written in (command, " ".join(command.split())):
        await run(written, Policy("ask"), approvals)

    first, second = person.asked
    assert first.detail == "$ echo ok␍␛[2Krm -rf ~ # really"
    assert first.covered == "shell echo ok␍␛[2Krm -rf ~"
    assert first.covers != second.covers


@tool(capability="write")
async def note(text: str) -> str:
    """Note."""
    return text


async def test_a_call_that_does_not_fit_a_line_is_shown_whole_below_it() -> None:
    person = Person("deny", "deny")
    for text in ("short", "long " * 100):
        context = ToolContext(
            VirtualSandbox(), ToolSession(approvals=Approvals(person)), Policy("ask")
        )
        await run_call(ToolCall("1", "note", {"text": text}), {"note": note}, context)

    short, long = person.asked
    assert (short.detail, short.preview) == ('note {"text":"short"}', "")
    assert "more characters]" in long.detail
    assert long.preview == f'note {{"text":"{"long " * 100}"}}'


async def test_an_answer_for_the_session_allows_nothing_once_the_agent_is_read_only() -> None:
    approvals = Approvals(Person("allow_session"))
    await run("make", Policy("ask"), approvals)

    outcome = await run("make", Policy("read_only"), approvals)

    assert outcome.content == REFUSED.format(name="act", mode="read_only")


policies = st.builds(
    Policy,
    st.sampled_from(MODES),
    st.lists(st.sampled_from(HOSTS), unique=True).map(tuple),
    st.lists(st.sampled_from(TOOLS), unique=True).map(tuple),
)


@given(policies, policies)
def test_what_two_policies_allow_together_neither_widens(one: Policy, other: Policy) -> None:
    both = one.within(other)

    rank = ("refuse", "ask", "allow").index
    for name, capability in product(TOOLS, CAPABILITIES):
        least = min(one.verdict(name, capability), other.verdict(name, capability), key=rank)
        assert rank(both.verdict(name, capability)) <= rank(least)
    assert is_stricter_or_equal(both.mode, one.mode) and is_stricter_or_equal(both.mode, other.mode)
    for host in (*HOSTS, "b.a.docs.example"):
        assert both.allows_host(host) == (one.allows_host(host) and other.allows_host(host))
