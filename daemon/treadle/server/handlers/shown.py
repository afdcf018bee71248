"""What a person sees of a command whose editor shows no results by itself.

Owns the words, and the files that long ones are shown in.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from treadle.protocol.agents import AgentListResult
from treadle.protocol.base import Address, WireStruct
from treadle.protocol.compaction import CompactResult
from treadle.protocol.sessions import (
    CancelResult,
    CloseResult,
    DeleteResult,
    ListResult,
    PromptResult,
    ReadResult,
    ResumeResult,
    RewindResult,
    SteerResult,
)
from treadle.server.bridge_compaction import compaction_words
from treadle.server.peer import Peer
from treadle.thread.files import make_folder
from treadle.thread.paths import SHOWN_FOLDER, encode_name, shown_path, thread_path

# What fits into the line or two that editors have for a message.
MESSAGE_CHARACTERS = 200
MESSAGE_LINES = 3


def show(peer: Peer, method: str, params: WireStruct, result: WireStruct | None) -> None:
    """Show a result: as a document where it is long and the editor can, else as a message."""
    text = _words(method, result)
    is_long = len(text) > MESSAGE_CHARACTERS or text.count("\n") >= MESSAGE_LINES
    if is_long and peer.editor.can("window", "showDocument", "support"):
        path = _path(peer.runtime.services.folders.data, method, params)
        peer.aside(_show_document(peer, path, text))
    else:
        peer.editor.show_message(text)


async def _show_document(peer: Peer, path: Path, text: str) -> None:
    """Show a text in a file; where that fails, as a message after all."""
    try:
        await asyncio.to_thread(_write, path, text)
        shown = await peer.editor.show_document(path)
    except OSError:
        shown = False
    if not shown:
        peer.editor.show_message(text)


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read; two at once for one pair spoil neither.

    Raises:
        OSError: it could not be written.
    """
    make_folder(path.parent)
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    new = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text + "\n")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _path(data: Path, method: str, params: WireStruct) -> Path:
    """Return the one file of a pair, or of what belongs to none."""
    if isinstance(params, Address):
        return shown_path(thread_path(data, params.agent, params.instance))
    return data / SHOWN_FOLDER / f"{encode_name(method)}.md"


def _words(method: str, result: WireStruct | None) -> str:
    """Tell a result in a person's words."""
    match result:
        case PromptResult():
            early = "" if result.stop_reason == "end_turn" else f"({result.stop_reason})"
            return "\n\n".join(filter(None, (result.text, early))) or "(no answer)"
        case SteerResult():
            return "Said into the running turn." if result.injected else "A turn has begun."
        case CancelResult():
            return "The turn was stopped." if result.cancelled else "Nothing was running."
        case CloseResult():
            return "Closed." if result.closed else "It was not open."
        case ResumeResult() if method == "session/fork":
            return f"A copy with {_messages(result.thread.messages)}, open."
        case ResumeResult():
            begun = "A new thread." if result.created else f"{_messages(result.thread.messages)}."
            return f"Open. {begun}"
        case CompactResult():
            return f"{compaction_words(result).capitalize()}."
        case RewindResult():
            return f"The conversation holds {_messages(result.messages)}."
        case DeleteResult():
            return "Deleted." if result.deleted else "There was nothing to delete."
        case ListResult():
            return "\n".join(_session(each) for each in result.sessions) or "No sessions yet."
        case ReadResult():
            return "\n\n".join(_message(each) for each in result.messages) or "Nothing was said."
        case AgentListResult():
            agents = [
                f"{agent.name} ({agent.model}): {agent.description}" for agent in result.agents
            ]
            return "\n".join(agents + [f"{each.path}: {each.message}" for each in result.problems])
        case _:
            return json.dumps(msgspec.to_builtins(result), ensure_ascii=False, indent=2)


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"


def _session(info: Any) -> str:
    return f"{info.agent} · {info.instance}: {info.state}, {_messages(info.messages)}"


def _message(message: Any) -> str:
    said = message.content if isinstance(message.content, str) else json.dumps(message.content)
    calls = [f"[{call.name} {json.dumps(call.arguments)}]" for call in message.tool_calls]
    return f"**{message.role}**: " + "\n".join(filter(None, (said, *calls)))
