"""How a chat puts things: durations, arguments, results, ends of turns, errors.

Owns the words. Refuses to know where they are shown; text of others goes through as it came.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

# One line of a terminal of the usual width, less its indentation and the tool's name.
ARGUMENTS_CHARACTERS = 60

# A line of a person's own words is cut late: a paragraph is often one line.
LINE_CHARACTERS = 1000


# What was said is known to who said it; its beginning says which it was.
LISTED_CHARACTERS = 70

# Enough of a change to see what it is about; approvals show more.
CHANGE_LINES = 12
RESULT_LINE_CHARACTERS = 300

# Two lines of the usual width: an error is read, what follows it is for `treadle mcp check`.
ONE_LINE_CHARACTERS = 160


def duration(seconds: float) -> str:
    """Say how long something took."""
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 60:
        # Tenths say something only where they are known, and while there are few seconds.
        is_rough = seconds >= 10 or isinstance(seconds, int)
        return f"{seconds:.0f} s" if is_rough else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def count(number: int, noun: str) -> str:
    """Say how many there are of something that takes a plain plural."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def thought(text: str, seconds: float | None) -> str:
    """Say that there was reasoning, in one line."""
    took = "" if seconds is None else f" for {duration(seconds)}"
    return f"thought{took}, {count(len(text), 'character')}"


def arguments(given: Mapping[str, Any], limit: int = ARGUMENTS_CHARACTERS) -> str:
    """Show a call's arguments in one line of at most `limit` characters."""
    shown = ", ".join(f"{name}: {_value(value)}" for name, value in given.items())
    return shorten(shown, limit)


def line_of(content: Any) -> str:
    """Return what a message says, on one line."""
    text = content if isinstance(content, str) else _words_of(content)
    return shorten(" ".join(text.split()), LISTED_CHARACTERS)


def _words_of(blocks: Any) -> str:
    texts = [block.get("text", "") for block in blocks if isinstance(block, dict)]
    return " ".join(filter(None, texts)) or "(no words)"


def changes(name: str, arguments: Mapping[str, Any]) -> list[str]:
    """Show what a call would change in a file, a line for each line of it, as diffs do.

    Args:
        name: the tool's.
        arguments: what the model gave it, which may be anything.
    """
    if name == "write" and isinstance(text := arguments.get("content"), str):
        return [f"+{line}" for line in text.rstrip("\n").split("\n")]
    edits = arguments.get("edits") if name == "edit" else None
    lines: list[str] = []
    for edit in edits if isinstance(edits, list) else []:
        if isinstance(edit, Mapping):
            old, new = (str(edit.get(key, "")).rstrip("\n").split("\n") for key in ("old", "new"))
            diff = difflib.unified_diff(old, new, n=2, lineterm="")
            # The first three are names and places, which nobody knows before it is done.
            lines += list(diff)[3:]
    return lines


def fold_changes(lines: list[str]) -> list[str]:
    """Keep as many lines of a change as a person reads in passing."""
    return fold("\n".join(lines), CHANGE_LINES, RESULT_LINE_CHARACTERS) if lines else []


def shorten(text: str, limit: int) -> str:
    """Cut a line that is longer than `limit` characters, and show that."""
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def fold(text: str, limit: int, line_limit: int = LINE_CHARACTERS) -> list[str]:
    """Return the first `limit` lines, and how many more there are where there are more.

    Args:
        text: what is folded.
        limit: how many lines are kept.
        line_limit: a line is cut behind so many characters.
    """
    lines = text.strip("\n").split("\n")
    # One line that is left out would take as much room as saying so.
    kept = lines if len(lines) <= limit + 1 else lines[:limit]
    folded = [shorten(line, line_limit) for line in kept]
    if more := len(lines) - len(kept):
        folded.append(f"… {more:,} more lines")
    return folded


def result_head(name: str, ok: bool, truncated: bool, seconds: float | None) -> str:
    """Say how a tool's call ended; calls may run side by side, so each is named again."""
    parts = [f"{name} ok" if ok else f"{name} failed"]
    if seconds is not None:
        parts.append(duration(seconds))
    if truncated:
        parts.append("truncated")
    return ", ".join(parts)


def early_end(stop_reason: str) -> str:
    """Say why a turn ended before the model was done; nothing for one that was not early."""
    return _EARLY_ENDS.get(stop_reason, f"the turn ended early: {stop_reason}")


def failure(error: Mapping[str, Any]) -> str:
    """Say what an error says, and below it what can be done, where we know."""
    data = error.get("data") or {}
    reason = data.get("reason")
    told = str(error.get("message", "the request failed")) + (f" [{reason}]" if reason else "")
    how = data.get("how") or _HINTS.get(reason or "")
    return f"{told}\n{how}" if how else told


def retrying(params: Mapping[str, Any]) -> str:
    """Say that the model is asked once more."""
    why = str(params.get("reason", "the model failed")).replace("_", " ")
    wait = duration(float(params.get("retryInSeconds", 0)))
    return f"{why}; attempt {params.get('attempt', '')} failed, trying again in {wait}"


def compacted(params: Mapping[str, Any]) -> str:
    """Say on one line what a compaction came to that counts, or failed."""
    if params["outcome"] != "completed":
        return shorten(f"not compacted: {params.get('error', '')}", ONE_LINE_CHARACTERS)
    tokens = params["tokens"]
    given_up = count(len(params["gaveUp"]), "message")
    return (
        f"compacted from {tokens['before']:,} to {count(tokens['after'], 'token')}; the model sees "
        f"{given_up} no more or not as before, and all stay in the thread"
    )


def not_compacted(result: Mapping[str, Any]) -> str:
    """Say why a compaction that was asked for changed nothing, where its end did not tell."""
    if result["outcome"] == "declined":
        return "not compacted: there is nothing that could go"
    return "not compacted: cancelled" if result["outcome"] == "cancelled" else ""


def unwell(params: Mapping[str, Any]) -> str:
    """Say on one line that an MCP server has failed, or is started again."""
    does = "is started again" if params["state"] == "restarting" else "failed"
    error = " ".join(str(params.get("error") or "").split())
    told = f"MCP server {params['server']} {does}" + (f": {error}" if error else "")
    return shorten(told, ONE_LINE_CHARACTERS)


def where_it_was(opened: Mapping[str, Any]) -> str:
    """Say what a session that was just opened has in its thread."""
    thread = opened["thread"]
    if not thread["messages"]:
        return "a new thread; what is said here is remembered"
    updated = f", last {local_time(thread['updatedAt'])}" if thread.get("updatedAt") else ""
    return f"{count(thread['messages'], 'message')}, {count(thread['turns'], 'turn')}{updated}"


def mended(report: Mapping[str, Any]) -> list[str]:
    """Say what opening a thread met and mended, a line each."""
    told = []
    if lines := report["quarantinedLines"]:
        told.append(f"{count(lines, 'damaged line')} set aside, beside the thread")
    if size := report["tornBytes"]:
        told.append(f"an unfinished line of {count(size, 'byte')} set aside, beside the thread")
    if calls := report["repairedCalls"]:
        told.append(f"{count(calls, 'tool call')} without a result marked as interrupted")
    if turn := report.get("interruptedTurn"):
        told.append(f"turn {turn} was interrupted; what had been said is kept")
    return told


def local_time(stamp: str) -> str:
    """Show a time of the protocol as a clock here would."""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return stamp


# Stop reasons that a person has to be told of, and those that something else tells already.
_EARLY_ENDS = {
    "end_turn": "",
    "error": "",
    "cancelled": "cancelled; what had been said is kept",
    "closed": "ended by closing the session; what had been said is kept",
    "interrupted": "interrupted; what had been said is kept",
    "max_turns": "ended early: the turn reached its limit of model calls (max_turns); "
    "say “go on” to continue",
    "max_tokens": "ended early: the answer reached the model's limit of length (max_tokens)",
    "refusal": "ended early: the model refused to answer (refusal)",
}

# Only for what a person can do something about, and where the daemon does not say how.
_HINTS = {
    "unknown_agent": "`treadle agents list` shows who there is",
    "thread_locked": "close it there, or use another instance: `treadle chat AGENT INSTANCE`",
    "model_auth": "check the key that the model's endpoint gets (OPENAI_API_KEY, or api_key_env)",
    "model_rate_limited": "wait a little, then say it again",
    "model_unreachable": "check that the endpoint runs and that base_url is right",
    "model_stream_broken": "what had been said is kept; say “go on” to continue",
    "mcp_failed": "/mcp shows how servers are doing; `treadle mcp check NAME` what one says",
    "storage_degraded": "make room on the disk; nothing said before is lost",
}


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
