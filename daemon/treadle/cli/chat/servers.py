"""MCP servers in a chat: how they are doing, their prompts, and a prompt of theirs that is sent.

Owns how a prompt is named and how its arguments are typed. Refuses to know what a server is.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from treadle.cli.chat import wording
from treadle.cli.chat.items import Listing, Note
from treadle.cli.chat.usage import UsageError

if TYPE_CHECKING:
    from treadle.cli.chat.conversation import Conversation

# Stands between a server's name and that of its prompt, as in the names of tools.
SEPARATOR = "__"
# Enough of what a server has the person say to see what it is about.
SHOWN_LINES = 8


async def show_servers(chat: Conversation) -> None:
    """Show the session's servers, a line each, and below it why one failed."""
    servers = (await chat.ask_here("mcp/list"))["servers"]
    if not servers:
        chat.face.show(Note("this agent has no MCP servers"))
        return
    width = max(len(server["server"]) for server in servers)
    lines = [line for server in servers for line in _server_lines(server, width)]
    chat.face.show(Listing("\n".join(lines)))


async def show_prompts(chat: Conversation) -> None:
    """Show the prompts of all the session's servers, as they are typed."""
    listed = await chat.ask_here("mcp/prompts")
    for failed in listed.get("failed", []):
        chat.face.show(Note(f"MCP server {failed['server']}: {failed['message']}", "warning"))
    if not listed["prompts"]:
        chat.face.show(Note("there are no prompts"))
        return
    lines = []
    for prompt in listed["prompts"]:
        lines.append(_usage(prompt))
        if description := prompt.get("description"):
            lines.append(f"  {_one_line(description)}")
    chat.face.show(Listing("\n".join(lines)))


async def send_prompt(chat: Conversation, name: str, rest: str) -> bool:
    """Have a server fill one of its prompts, and say that to the agent.

    Args:
        chat: where it is said.
        name: the word with the slash.
        rest: what was typed behind it.

    Returns:
        Whether there is such a prompt.

    Raises:
        UsageError: it takes other arguments, or a turn runs.
        RemoteError: the server does not answer, or the agent.
    """
    server = await _server_of(chat, name)
    if server is None:
        return False
    listed = (await chat.ask_here("mcp/prompts", server=server))["prompts"]
    prompt = next((each for each in listed if _typed(each) == name), None)
    if prompt is None:
        return False
    if chat.activity.is_turn:
        raise UsageError(f"a turn runs here; cancel it with Ctrl-C, or let it end, then {name}")
    filled = await chat.ask_here(
        "mcp/prompt", server=server, name=prompt["name"], arguments=arguments_of(prompt, rest)
    )
    blocks = blocks_of(filled["messages"])
    if not blocks:
        chat.face.show(Note(f"{name} says nothing, so nothing was sent", "warning"))
        return True
    chat.face.show(Note(_shown(blocks)))
    await chat.send(blocks, f"{name} {rest}".strip())
    return True


def arguments_of(prompt: Mapping[str, Any], rest: str) -> dict[str, str]:
    """Return a prompt's arguments as they were typed: `key=value`, and words in their order.

    The last argument takes all the words that are left.

    Raises:
        UsageError: there are too many words, or an argument is missing.
    """
    declared = prompt.get("arguments", [])
    open_names = [argument["name"] for argument in declared]
    given: dict[str, str] = {}
    words = []
    for word in _words(rest):
        key, is_pair, value = word.partition("=")
        if is_pair and key in open_names:
            open_names.remove(key)
            given[key] = value
        else:
            words.append(word)
    while words and open_names:
        name = open_names.pop(0)
        given[name] = words.pop(0) if open_names else " ".join(words)
        words = words if open_names else []
    missing = [
        each["name"] for each in declared if each.get("required") and each["name"] not in given
    ]
    if words or missing:
        what = f"{', '.join(missing)} is missing" if missing else "those are too many words"
        raise UsageError(f"{what}; it is typed as {_usage(prompt)}")
    return given


def blocks_of(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a prompt's messages as the one that a person says; who speaks is named if need be."""
    has_others = any(message["role"] != "user" for message in messages)
    blocks: list[dict[str, Any]] = []
    for message in messages:
        if has_others:
            blocks.append({"type": "text", "text": f"[{message['role']}]"})
        blocks += message["content"]
    return blocks


async def _server_of(chat: Conversation, name: str) -> str | None:
    """Return the server whose prompt a word names; of two that may be, the longer name."""
    servers = (await chat.ask_here("mcp/list"))["servers"]
    names = [server["server"] for server in servers]
    found = [each for each in names if name.startswith(f"/{each}{SEPARATOR}")]
    return max(found, key=len, default=None)


def _typed(prompt: Mapping[str, Any]) -> str:
    """Return a prompt's name as it is typed: one word."""
    return "/" + "_".join(f"{prompt['server']}{SEPARATOR}{prompt['name']}".split())


def _usage(prompt: Mapping[str, Any]) -> str:
    arguments = (
        each["name"] if each.get("required") else f"[{each['name']}]"
        for each in prompt.get("arguments", [])
    )
    return _one_line(" ".join((_typed(prompt), *arguments)))


def _server_lines(server: Mapping[str, Any], width: int) -> list[str]:
    parts = [
        f"{server['server']:<{width}}",
        f"{server['state']:<10}",
        wording.count(len(server["tools"]), "tool"),
        f"process {server['pid']}" if "pid" in server else "",
        "shared" if server["shared"] else "",
    ]
    lines = ["  ".join(part for part in parts if part)]
    if error := server.get("lastError"):
        lines.append(f"  {_one_line(error)}")
    return lines


def _shown(blocks: Sequence[Mapping[str, Any]]) -> str:
    """Show what a server has the person say: text as it is, the rest by what it is."""
    said = "\n".join(str(block.get("text") or f"[{block['type']}]") for block in blocks)
    return "\n".join(wording.fold(said, SHOWN_LINES))


def _one_line(text: str) -> str:
    return wording.shorten(" ".join(text.split()), wording.LINE_CHARACTERS)


def _words(text: str) -> list[str]:
    """Split as a shell does; where its quotes do not match they are but letters."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
