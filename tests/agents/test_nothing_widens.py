"""Neither options, nor a sub-agent's policy, nor an answer, nor a restart widens anything.

What a call came to is compared with a model that knows nothing of how approvals are kept.
"""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.agents.definition import AgentDefinition
from treadle.agents.options import SessionOptions, advertised_tools, narrow
from treadle.errors import InvalidParams, WouldWiden
from treadle.permissions.approvals import Answer, Approvals, Granted, Question
from treadle.permissions.modes import MODES, Capability
from treadle.permissions.policy import Policy, Verdict
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.message import ToolCall
from treadle.tools.builtin import BUILTIN
from treadle.tools.pipeline import run_call
from treadle.tools.session import ToolSession
from treadle.tools.tool import Shown, Tool, ToolContext, tool

RANK: dict[Verdict, int] = {"refuse": 0, "ask": 1, "allow": 2}
HOSTS = ("docs.example", "a.docs.example", "other.example")
CAPABILITIES: list[Capability] = ["read", "write", "shell", "network", "fetch", "mcp"]

modes = st.sampled_from(MODES)
tool_lists = st.none() | st.lists(st.sampled_from(sorted(BUILTIN)), unique=True).map(tuple)
options = st.builds(
    SessionOptions,
    permissions=st.none() | modes,
    tools=tool_lists,
    max_turns=st.none() | st.integers(-1, 120),
)
definitions = st.builds(
    lambda mode, tools, hosts, max_turns: AgentDefinition(
        name="a",
        permissions=mode,
        tools=tools,
        sandbox="local",
        fetch_allow=hosts,
        max_turns=max_turns,
    ),
    modes,
    tool_lists,
    st.lists(st.sampled_from(HOSTS), unique=True).map(tuple),
    st.none() | st.integers(1, 100),
)


@given(definitions, st.lists(options, max_size=4))
def test_options_upon_options_never_give_what_the_agent_has_not(
    definition: AgentDefinition, asked: list[SessionOptions]
) -> None:
    narrowed = definition
    for wanted in asked:
        try:
            narrowed = narrow(narrowed, wanted)
        except (WouldWiden, InvalidParams):
            continue
    told = {one.spec.name for one in advertised_tools(definition)}
    assert {one.spec.name for one in advertised_tools(narrowed)} <= told
    for name, capability in product(BUILTIN, CAPABILITIES):
        mine = narrowed.policy.verdict(name, capability)
        assert RANK[mine] <= RANK[definition.policy.verdict(name, capability)]
    for host in (*HOSTS, "b.docs.example", "example"):
        assert narrowed.policy.allows_host(host) <= definition.policy.allows_host(host)
    if definition.max_turns is not None:
        assert narrowed.max_turns is not None and narrowed.max_turns <= definition.max_turns


RAN: list[str] = []


async def _shown(arguments: Any, context: ToolContext) -> Shown:
    return Shown(f"{context.call.name} {arguments.what}", covers=arguments.what)


@tool(capability="write", preview=_shown)
async def one(what: str) -> str:
    """Do one thing."""
    RAN.append(what)
    return what


@tool(capability="shell", preview=_shown)
async def two(what: str) -> str:
    """Do another."""
    RAN.append(what)
    return what


TOOLS: dict[str, Tool] = {"one": one, "two": two}
# One tool's text is the other one's name: what is allowed of one must not be read for the other.
TEXTS = ("a", "b", "one", "two")


class Person:
    """Answers every question alike until told otherwise."""

    answer: Any = "deny"

    async def ask(self, question: Question) -> Answer:
        answer: Answer = self.answer
        return answer


calls = st.tuples(
    st.sampled_from(sorted(TOOLS)),
    st.sampled_from(TEXTS),
    modes,
    modes,
    st.sampled_from(["allow_once", "allow_session", "deny", None, "yes", True]),
)


@given(st.lists(calls | st.just("reopened"), max_size=25))
def test_a_call_runs_only_by_the_policy_or_by_a_persons_word_for_it(steps: list[Any]) -> None:
    person, granted = Person(), Granted()
    session = ToolSession(approvals=Approvals(person, granted))
    said: set[tuple[str, str]] = set()  # the model's memory: what was allowed for the session
    for step in steps:
        if step == "reopened":
            # As at a close and at a restart: a new session keeps nothing of the one before.
            granted, said = Granted(), set()
            session = ToolSession(approvals=Approvals(person, granted))
            continue
        name, what, mine, parents, person.answer = step
        policy = Policy(mine).within(Policy(parents))
        context = ToolContext(VirtualSandbox(), session, policy)
        RAN.clear()
        asyncio.run(run_call(ToolCall("1", name, {"what": what}), TOOLS, context))

        strictest = min(mine, parents, key=MODES.index)
        by_word = (name, what) in said or person.answer in ("allow_once", "allow_session")
        expected = strictest == "auto" or (strictest == "ask" and by_word)
        assert bool(RAN) == expected
        if strictest == "ask" and (name, what) not in said and person.answer == "allow_session":
            said.add((name, what))
        assert set(granted.texts) == {text for _, text in said}
