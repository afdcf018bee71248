"""What a person can ask of a chat with a slash; owns their names and what each does.

Refuses to know how an answer is shown, and how a line was typed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treadle.cli import exit_codes
from treadle.cli.chat import servers, wording
from treadle.cli.chat.items import Listing, Note, Thought
from treadle.cli.chat.remembered import items_of
from treadle.cli.chat.usage import UsageError
from treadle.tools.nearest import did_you_mean

if TYPE_CHECKING:
    from treadle.cli.chat.conversation import Conversation

# What `/read` shows when it is not told how many.
READ_MESSAGES = 10
# A conversation of more is rewound by `treadle call session/rewind`.
REWOUND_MESSAGES = 500
# What a person goes back to is one of the last things that were said.
LISTED_PROMPTS = 10
# A list that is longer scrolls away; `treadle sessions list` has all of it.
LISTED_SESSIONS = 40


@dataclass(frozen=True, slots=True)
class Command:
    """One row of `/help`."""

    usage: str
    help: str
    run: Callable[[Conversation, list[str]], Awaitable[None]]
    takes_text: bool = False  # what stands behind it is one text, quotes and all

    @property
    def name(self) -> str:
        """The command as it is typed."""
        return self.usage.split()[0]


async def run(chat: Conversation, line: str) -> None:
    """Run the command in a line that begins with a slash.

    Raises:
        UsageError: there is no such command, or it takes other words.
        RemoteError: the daemon refused what it needs.
    """
    name, _, rest = line.strip().partition(" ")
    if servers.SEPARATOR in name and await servers.send_prompt(chat, name, rest):
        return
    if name not in _BY_NAME:
        raise UsageError(
            f"there is no {name}.{did_you_mean(name, _BY_NAME)} /help lists what there is; "
            f"a prompt that begins with a slash is sent as /{name}"
        )
    command = _BY_NAME[name]
    await command.run(chat, [rest.strip()] if command.takes_text else _words(rest))


def complete(text: str) -> tuple[str, list[str]]:
    """Complete the beginning of a command.

    Returns:
        The text as far as it is certain, and the commands that it may become.
    """
    if not text.startswith("/") or " " in text:
        return text, []
    matching = [command.name for command in COMMANDS if command.name.startswith(text)]
    if not matching:
        return text, []
    if len(matching) == 1:
        takes_more = " " in _BY_NAME[matching[0]].usage
        return matching[0] + (" " if takes_more else ""), matching
    return _common_beginning(matching), matching


async def _help(chat: Conversation, words: list[str]) -> None:
    width = max(len(command.usage) for command in COMMANDS)
    lines = [f"{command.usage:<{width}}  {command.help}" for command in COMMANDS]
    chat.face.show(Listing("\n".join([*lines, "", _KEYS if chat.face.interactive else _LINES])))


async def _sessions(chat: Conversation, words: list[str]) -> None:
    page = await chat.ask("session/list", {"limit": LISTED_SESSIONS})
    if not page["sessions"]:
        chat.face.show(Note("nothing is stored yet"))
        return
    lines = [_session_line(each, chat.address) for each in page["sessions"]]
    if "nextCursor" in page:
        lines.append("… older ones: `treadle sessions list`")
    chat.face.show(Listing("\n".join(lines)))


def _session_line(session: dict[str, Any], here: dict[str, str]) -> str:
    mark = "*" if all(session[key] == value for key, value in here.items()) else " "
    held = session.get("heldBy")
    parts = [
        shlex.join((session["agent"], session["instance"])),
        wording.count(session["messages"], "message"),
        wording.local_time(session.get("updatedAt") or ""),
        f"open in process {held}" if held and held != os.getpid() else "",
    ]
    return f"{mark} " + "  ".join(part for part in parts if part)


async def _open(chat: Conversation, words: list[str]) -> None:
    if len(words) not in (1, 2):
        raise UsageError("/open takes the instance to go to, and before it maybe an agent")
    if chat.activity.is_turn:
        raise UsageError("a turn runs here; cancel it with Ctrl-C, or let it end, then /open")
    agent = words[0] if len(words) == 2 else chat.address["agent"]
    await chat.go_to(agent, words[-1])


async def _read(chat: Conversation, words: list[str]) -> None:
    number = READ_MESSAGES
    if words:
        # Nine digits are more than any thread has; Python refuses to read thousands of them.
        number = int(words[0][:9]) if words[0].isdecimal() else 0
    if len(words) > 1 or number == 0:
        raise UsageError("/read takes how many of the last messages to show, such as /read 20")
    messages = await chat.last_messages(number)
    if not messages:
        chat.face.show(Note("nothing was said here yet"))
    for item in items_of(messages, reasoning=chat.hearing.shows_reasoning):
        chat.face.show(item)


async def _compact(chat: Conversation, words: list[str]) -> None:
    result = await chat.ask_here("session/compact", instructions=words[0])
    if told := wording.not_compacted(result):
        chat.face.show(Note(told))


async def _rewind(chat: Conversation, words: list[str]) -> None:
    if len(words) > 1 or (words and not words[0].isdecimal()):
        raise UsageError("/rewind takes how many of your prompts to take back, such as /rewind 1")
    messages = await chat.last_messages(REWOUND_MESSAGES)
    said = [place for place, one in enumerate(messages) if one["role"] == "user"]
    if not said:
        chat.face.show(Note("nothing was said here yet"))
    elif not words:
        newest = [messages[place]["content"] for place in reversed(said[-LISTED_PROMPTS:])]
        lines = [f"{number}  {wording.line_of(one)}" for number, one in enumerate(newest, 1)]
        told = "/rewind N takes back the prompt of that number and all that came after it"
        chat.face.show(Listing("\n".join([*lines, "", told])))
    else:
        await _take_back(chat, messages, said, int(words[0][:9]))


async def _take_back(
    chat: Conversation, messages: list[dict[str, Any]], said: list[int], number: int
) -> None:
    """End the conversation before the prompt that is `number` prompts back, from 1.

    Raises:
        UsageError: there are not so many, or a turn runs.
    """
    if not 0 < number <= len(said):
        raise UsageError(f"/rewind takes a number from 1 to {len(said)}")
    if chat.activity.is_turn:
        raise UsageError("a turn runs here; cancel it with Ctrl-C, or let it end, then /rewind")
    place = said[-number]
    before = [one["ordinal"] for one in messages[:place] if one.get("ordinal") is not None]
    left = await chat.ask_here("session/rewind", to=before[-1] if before else -1)
    taken = wording.line_of(messages[place]["content"])
    told = f"{wording.count(left['messages'], 'message')} left; taken back from: {taken}"
    chat.face.show(Note(told))


async def _fork(chat: Conversation, words: list[str]) -> None:
    if len(words) != 1:
        raise UsageError("/fork takes the name of the new session, such as /fork plan-b")
    if chat.activity.is_turn:
        raise UsageError("a turn runs here; cancel it with Ctrl-C, or let it end, then /fork")
    await chat.ask_here("session/fork", into=words[0])
    await chat.go_to(chat.address["agent"], words[0])


async def _close(chat: Conversation, words: list[str]) -> None:
    closed = (await chat.ask_here("session/close"))["closed"]
    told = "closed; the next word opens it again" if closed else "it is closed already"
    chat.face.show(Note(told))


async def _reasoning(chat: Conversation, words: list[str]) -> None:
    if words in (["on"], ["off"]):
        chat.hearing.shows_reasoning = words == ["on"]
        told = "shown in full" if chat.hearing.shows_reasoning else "folded to a line"
        chat.face.show(Note(f"reasoning is {told} from here on"))
    elif words:
        raise UsageError("/reasoning takes on, off or nothing")
    elif chat.hearing.last_thought is None:
        chat.face.show(Note("there was no reasoning yet; /reasoning on shows it as it comes"))
    else:
        chat.face.show(
            Thought(chat.hearing.last_thought.text, chat.hearing.last_thought.seconds, in_full=True)
        )


async def _mcp(chat: Conversation, words: list[str]) -> None:
    await servers.show_servers(chat)


async def _prompts(chat: Conversation, words: list[str]) -> None:
    await servers.show_prompts(chat)


async def _quit(chat: Conversation, words: list[str]) -> None:
    chat.leave(exit_codes.OK)


# In the order of `/help`: what is asked for most comes first.
COMMANDS = (
    Command("/help", "this", _help),
    Command("/sessions", "the sessions there are, newest first", _sessions),
    Command("/open [AGENT] INSTANCE", "go to another session, or begin one", _open),
    Command("/read [N]", "the thread's last messages", _read),
    Command("/reasoning [on|off]", "the last reasoning in full; on: always", _reasoning),
    Command(
        "/compact [WORDS]",
        "show the model a summary of what was said; WORDS say what to keep",
        _compact,
        takes_text=True,
    ),
    Command("/rewind [N]", "take back your last N prompts; without N, list them", _rewind),
    Command("/fork INSTANCE", "go on in a copy of this session", _fork),
    Command("/mcp", "the agent's MCP servers, and how they are doing", _mcp),
    Command("/prompts", "what those have ready; /SERVER__PROMPT [WORDS] says one", _prompts),
    Command("/close", "give the session back; the next word opens it again", _close),
    Command("/quit", "leave; the thread stays", _quit),
)
_BY_NAME = {command.name: command for command in COMMANDS}

# What the two faces say below the commands: where a cursor can move, and by lines.
_KEYS = """\
Enter sends; while a turn runs, it steers it    Alt+Enter or Ctrl-J  a new line
Ctrl-C cancels the turn, or clears the input; twice leaves    Ctrl-D  leaves
Up, Down, Ctrl-R  what was said before    Tab  completes a command
A prompt that begins with a slash is sent with two: //etc/hosts"""
_LINES = '''\
Each line is a prompt; a line of """ opens and closes one of several lines.
A prompt that begins with a slash is sent with two: //etc/hosts'''


def _common_beginning(names: list[str]) -> str:
    # Between the first and the last in order stand all others.
    first, last = min(names), max(names)
    same = (index for index, char in enumerate(first) if not last.startswith(char, index))
    return first[: next(same, len(first))]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the quotes in {text!r} do not match ({error})") from None
