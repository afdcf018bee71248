"""The line between the conversation and the input: who, where, what goes on, what keys do.

Owns what is left out when there is little room. Refuses to know how it gets on the screen.
"""

from __future__ import annotations

import math
import time
from typing import TypeAlias

from rich.cells import cell_len, set_cell_size

from treadle.cli.chat import wording
from treadle.cli.chat.items import Status
from treadle.sanitise import clean_line

Fragments: TypeAlias = list[tuple[str, str]]
"""Styles and texts, as prompt_toolkit takes them."""

# What is over sooner needs no sign that it goes on.
BUSY_SECONDS = 0.5
# A turn of the spinner's wheel each second is calm, and smooth enough at ten pictures a second.
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
# A model named by a path would push everything else out.
MODEL_CHARACTERS = 24

# Between the parts; it is found in few names, so that it is seen where each ends.
_DOT = " · "


def status_line(status: Status, width: int, *, lines: int = 0) -> Fragments:
    """Return the line, in at most `width` columns less one, so that no terminal wraps it.

    Args:
        status: what goes on.
        width: how wide the terminal is.
        lines: how many lines the input has.
    """
    doing = _doing(status)
    # A name may be nothing that shows.
    name = _DOT.join(filter(None, (clean_line(status.agent), clean_line(status.instance))))
    model = wording.shorten(clean_line(status.model).rpartition("/")[2], MODEL_CHARACTERS)
    hint = _hint(status, lines)
    room = max(width - 1, 1)
    # The first that fits: the model goes first, then the usual hint, which others outlast; who it
    # is about is cut last.
    kept = [name, hint if status.hint else doing]
    for parts in ([name, model, doing, hint], [name, doing, hint], kept, [doing, name]):
        told = _DOT.join(part for part in parts if part)
        if cell_len(told) <= room:
            break
    else:
        told = set_cell_size(told, room).rstrip()
    return _styled(told, doing)


def _styled(told: str, doing: str) -> Fragments:
    before, found, after = told.partition(doing) if doing else (told, "", "")
    styled = [("class:status", before), ("class:doing", found), ("class:status", after)]
    return [each for each in styled if each[1]]


def _doing(status: Status) -> str:
    if not status.doing:
        return ""
    doing = clean_line(status.doing)
    seconds = time.monotonic() - status.since
    if seconds < BUSY_SECONDS:
        return doing
    frame = FRAMES[math.floor(seconds * len(FRAMES)) % len(FRAMES)]
    elapsed = f" {wording.duration(math.floor(seconds))}" if seconds >= 1 else ""
    return f"{frame} {doing}{elapsed}"


def _hint(status: Status, lines: int) -> str:
    if status.hint:
        return status.hint
    if status.is_turn:
        return "Enter steers · Ctrl-C cancels"
    if lines > 1:
        return f"{wording.count(lines, 'line')} · Enter sends"
    return "/help"
