"""MCP servers in a chat, over a daemon that answers by heart."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from support.waiting import PATIENCE_SECONDS
from treadle.cli.chat import servers
from treadle.cli.chat.conversation import Conversation
from treadle.cli.chat.items import Item, Listing, Note, Said, Status
from treadle.cli.chat.usage import UsageError
from treadle.cli.client import Client, RemoteError

HERE = {"agent": "helper", "instance": "a"}

SERVERS = [
    {"server": "git", "state": "ready", "pid": 41, "tools": ["git__log"], "shared": False},
    {"server": "git__hub", "state": "failed", "tools": [], "shared": True, "lastError": "no\nway"},
]
PROMPTS = [
    {
        "server": "git",
        "name": "review it",
        "description": "Looks at\na change.",
        "arguments": [{"name": "commit", "required": True}, {"name": "how"}],
    },
    {"server": "git", "name": "hello"},
]
SAID = [{"role": "user", "content": [{"type": "text", "text": "Review abc."}]}]


class Daemon:
    """Answers by heart, and keeps what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._answers = {
            "mcp/list": {"servers": SERVERS},
            "mcp/prompts": {"prompts": PROMPTS},
            "mcp/prompt": {"messages": SAID},
            "session/prompt": {"messages": [0, 1], "text": "Fine."},
            **answers,
        }

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        self.asked.append((method, params))
        answer = self._answers[method]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Screen:
    """A face that keeps what it shows."""

    interactive = True

    def __init__(self) -> None:
        self.shown: list[Item] = []

    def show(self, item: Item) -> None:
        self.shown.append(item)

    def status(self, status: Status) -> None:
        pass

    def offer(self, draft: str) -> None:
        pass


async def type_in(line: str, daemon: Daemon | None = None) -> tuple[Daemon, list[Item]]:
    """Enter a line; return the daemon and what was shown below it."""
    daemon = daemon or Daemon()
    screen = Screen()
    chat = Conversation(cast("Client", daemon), *HERE.values(), screen)
    chat.submit(line)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await chat.idle()
    chat.leave(0)
    assert screen.shown.pop(0) == Said(line, typed=True)
    return daemon, screen.shown


async def test_servers_are_listed_with_what_they_do_and_why_they_failed() -> None:
    _, shown = await type_in("/mcp")
    assert shown == [
        Listing(
            "git       ready       1 tool  process 41\n"
            "git__hub  failed      0 tools  shared\n"
            "  no way"
        )
    ]


async def test_an_agent_without_servers_says_so() -> None:
    _, shown = await type_in("/mcp", Daemon(**{"mcp/list": {"servers": []}}))
    assert shown == [Note("this agent has no MCP servers")]


async def test_prompts_are_listed_as_they_are_typed_and_a_dead_server_is_named() -> None:
    failed = [{"server": "git__hub", "message": "it ended"}]
    _, shown = await type_in(
        "/prompts", Daemon(**{"mcp/prompts": {"prompts": PROMPTS, "failed": failed}})
    )
    assert shown == [
        Note("MCP server git__hub: it ended", "warning"),
        Listing("/git__review_it commit [how]\n  Looks at a change.\n/git__hello"),
    ]


async def test_a_servers_prompt_is_filled_shown_and_sent() -> None:
    daemon, shown = await type_in("/git__review_it abc how=well")
    assert daemon.asked[2:] == [
        (
            "mcp/prompt",
            {
                **HERE,
                "server": "git",
                "name": "review it",
                "arguments": {"how": "well", "commit": "abc"},
            },
        ),
        ("session/prompt", {**HERE, "prompt": [{"type": "text", "text": "Review abc."}]}),
    ]
    assert shown == [Note("Review abc.")]


async def test_a_prompt_that_lacks_an_argument_is_not_asked_for() -> None:
    daemon, shown = await type_in("/git__review_it how=well")
    usage = "/git__review_it commit [how]"
    assert shown == [Note(f"commit is missing; it is typed as {usage}", "error")]
    assert [method for method, _ in daemon.asked] == ["mcp/list", "mcp/prompts"]


@pytest.mark.parametrize("line", ["/git__nothing", "/nobody__x", "/git__hub__hello"])
async def test_a_prompt_that_is_not_there_is_an_unknown_command(line: str) -> None:
    _, shown = await type_in(line)
    ((note),) = shown
    assert isinstance(note, Note)
    assert note.text.startswith(f"there is no {line}. /help")


async def test_a_server_that_does_not_answer_is_told_with_where_to_look() -> None:
    error = {"code": -32803, "message": "it ended", "data": {"reason": "mcp_failed"}}
    _, shown = await type_in("/git__hello", Daemon(**{"mcp/prompt": RemoteError(error)}))
    assert shown == [
        Note(
            "it ended [mcp_failed]\n"
            "/mcp shows how servers are doing; `treadle mcp check NAME` what one says",
            "error",
        )
    ]


async def test_a_prompt_that_says_nothing_is_not_sent() -> None:
    daemon, shown = await type_in("/git__hello", Daemon(**{"mcp/prompt": {"messages": []}}))
    assert shown == [Note("/git__hello says nothing, so nothing was sent", "warning")]
    assert daemon.asked[-1][0] == "mcp/prompt"


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("abc", {"commit": "abc"}),
        ("abc very well", {"commit": "abc", "how": "very well"}),
        ("how='very well' abc", {"how": "very well", "commit": "abc"}),
        ("a=b c", {"commit": "a=b", "how": "c"}),
        ("don't", {"commit": "don't"}),
    ],
)
def test_arguments_are_typed_by_name_or_in_their_order(typed: str, given: dict[str, str]) -> None:
    assert servers.arguments_of(PROMPTS[0], typed) == given


def test_words_for_a_prompt_without_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="too many words; it is typed as /git__hello"):
        servers.arguments_of(PROMPTS[1], "x")


def test_a_prompt_in_which_several_speak_says_who_does() -> None:
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}
    said = [block["text"] for block in servers.blocks_of([*SAID, answer])]
    assert said == ["[user]", "Review abc.", "[assistant]", "Yes."]


async def test_a_server_that_fails_is_told_once_until_it_is_well_again() -> None:
    screen = Screen()
    chat = Conversation(cast("Client", Daemon()), *HERE.values(), screen)
    own = {**HERE, "seq": 1, "server": "git"}
    chat.take("mcp/status", {**own, "state": "starting"})
    chat.take("mcp/status", {**own, "state": "failed", "error": "no\nway"})
    chat.take("mcp/status", {**own, "state": "failed", "error": "no way at all"})
    chat.take("mcp/status", {**own, "state": "restarting"})
    chat.take("mcp/status", {**own, "state": "ready"})
    chat.take("mcp/status", {**own, "state": "failed", "error": "x" * 500})
    chat.take("mcp/status", {**own, "instance": "b", "server": "other", "state": "failed"})
    chat.take("mcp/status", {"agent": "helper", "server": "shared", "state": "failed"})
    chat.take("mcp/status", {"agent": "another", "server": "theirs", "state": "failed"})
    assert [item.text for item in screen.shown if isinstance(item, Note)] == [
        "MCP server git failed: no way",
        "MCP server git is started again",
        "MCP server git failed: " + "x" * 136 + "…",
        "MCP server shared failed",
    ]
    chat.leave(0)
