"""`workspace/executeCommand`: every method of ours, for editors that can send nothing else.

Owns how a command's arguments become a method's params, and that a person sees the result.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import msgspec

from treadle.errors import InvalidParams
from treadle.protocol.base import Address, Empty, ProgressToken, WireStruct
from treadle.protocol.compaction import CompactParams
from treadle.protocol.editor import ExecuteCommandParams
from treadle.protocol.methods import METHODS, command_of, own_names
from treadle.protocol.sessions import PromptParams
from treadle.server.dispatch import FollowedBy, unknown
from treadle.server.handlers.agents import list_agents
from treadle.server.handlers.compaction import run_compaction
from treadle.server.handlers.registry import HANDLERS, handles
from treadle.server.handlers.sessions import run_prompt
from treadle.server.handlers.shown import show
from treadle.server.peer import Peer
from treadle.server.wire.envelope import decode_params

# Whom a command speaks to where neither the person nor the editor's settings say.
DEFAULT_AGENT = "assistant"

# In which of its sessions; the same one as that of the command line.
DEFAULT_INSTANCE = "default"

# What a person types behind agent and instance.
_TEXT_OF = {
    "session/prompt": "prompt",
    "session/steer": "text",
    "session/fork": "into",
    "session/rewind": "to",
    "session/compact": "instructions",
}

# Where that may be left out.
_OPTIONAL = ("session/compact",)

# An ordinal, or -1; no thread has one of more digits.
_NUMBER = re.compile(r"-?[0-9]{1,18}")


@handles("workspace/executeCommand")
async def execute_command(
    params: ExecuteCommandParams, peer: Peer
) -> WireStruct | FollowedBy | None:
    """Run the method that a command names.

    Raises:
        InvalidParams: there is no such command, or its arguments do not fit.
        TreadleError: the method's own.
    """
    method = _method(params.command)
    arguments = params.arguments or []
    if arguments and not isinstance(arguments[0], str):
        wanted = _decoded(method, arguments[0])
    else:
        wanted = _decoded(method, await _typed(method, arguments, peer))
    result: WireStruct | FollowedBy | None
    if isinstance(wanted, PromptParams | CompactParams):
        result = await _shown(wanted, params.work_done_token, peer)
    else:
        result = await HANDLERS[method](wanted, peer)
    if not peer.shows_results:
        shown = result.result if isinstance(result, FollowedBy) else result
        show(peer, method, wanted, shown)
    return result


async def _shown(
    wanted: PromptParams | CompactParams, token: ProgressToken | None, peer: Peer
) -> WireStruct | None:
    """Run what takes long so that the editor sees its progress, token thought of or not."""
    if wanted.work_done_token is not None:
        return await _run(wanted, peer)
    if token is not None:
        return await _run(msgspec.structs.replace(wanted, work_done_token=token), peer)
    ours = f"treadle-{uuid.uuid4()}"
    wanted = msgspec.structs.replace(wanted, work_done_token=ours)
    return await _run(wanted, peer, lambda: peer.editor.begin_progress(ours))


async def _run(
    wanted: PromptParams | CompactParams,
    peer: Peer,
    agreed: Callable[[], Awaitable[bool]] | None = None,
) -> WireStruct:
    if isinstance(wanted, CompactParams):
        return await run_compaction(wanted, peer, agreed)
    return await run_prompt(wanted, peer, agreed)


@cache
def _methods() -> dict[str, str]:
    return {command_of(method): method for method in own_names("request")}


def _method(command: str) -> str:
    methods = _methods()
    if command not in methods:
        raise InvalidParams(f"no command {unknown(command, methods)}", path="command")
    return methods[command]


def _decoded(method: str, params: object) -> Any:
    """Read one method's params.

    Raises:
        InvalidParams: they do not fit; `path` says where in the arguments.
    """
    decoder = msgspec.json.Decoder(METHODS[method].params)
    try:
        return decode_params(decoder, json.dumps(params).encode())
    except InvalidParams as error:
        inner = error.data["path"]
        path = f"arguments[0]{'.' if inner else ''}{inner}"
        raise InvalidParams(error.message, path=path) from None


async def _typed(method: str, words: list[Any], peer: Peer) -> dict[str, Any]:
    """Return the params that a person typed: agent, instance and text, or the text alone.

    Raises:
        InvalidParams: the words are something else.
    """
    if not all(isinstance(word, str) for word in words):
        raise InvalidParams(
            "arguments are one object, the method's params, or plain strings", path="arguments"
        )
    if not issubclass(METHODS[method].params, Address):
        return {}
    text = _TEXT_OF.get(method)
    if text is None or (method in _OPTIONAL and len(words) in (0, 2)):
        agent, instance = _padded(words)
        said = {}
    elif len(words) == 1:
        agent = instance = None
        said = {text: _value(text, words[0])}
    elif len(words) >= 3:
        agent, instance = words[:2]
        said = {text: _value(text, " ".join(words[2:]))}
    else:
        raise InvalidParams(
            f"{command_of(method)} takes agent, instance and {text}, or the {text} alone",
            path="arguments",
        )
    return {**await _address(agent, instance, peer), **said}


def _value(member: str, word: str) -> str | int:
    """Return what a person typed as the member takes it; what is no number is refused later."""
    is_number = member == "to" and _NUMBER.fullmatch(word)
    return int(word) if is_number else word


def _padded(words: list[str]) -> tuple[str | None, str | None]:
    agent, instance, *more = [*words, None, None]
    if any(more):
        raise InvalidParams("there is more here than agent and instance", path="arguments")
    return agent, instance


async def _address(agent: str | None, instance: str | None, peer: Peer) -> dict[str, str]:
    """Complete an address by the editor's settings, or by asking the person."""
    settings = {} if agent and instance else await peer.editor.settings()
    agent = agent or _text(settings.get("agent")) or await _chosen_agent(peer)
    instance = instance or _text(settings.get("instance")) or DEFAULT_INSTANCE
    return {"agent": agent, "instance": instance}


async def _chosen_agent(peer: Peer) -> str:
    """Have the person choose where there are several agents."""
    names = [agent.name for agent in (await list_agents(Empty(), peer)).agents]
    chosen = await peer.editor.choose("Which agent?", names) if len(names) > 1 else None
    return chosen or DEFAULT_AGENT


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
