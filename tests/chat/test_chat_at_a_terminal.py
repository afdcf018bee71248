"""`treadle chat` in a real terminal: what a person does, and what the screen then shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.chat import READY, Chat, ended, messages, resting, say
from support.daemon import daemon
from support.model_server import Answer, in_order, last_user_text, memory
from support.person import pair, stored
from support.tmux import CHAT, tmux
from support.waiting import until_seen


async def test_a_second_chat_knows_what_the_first_was_told_and_shows_where_it_was(
    chat: Chat,
) -> None:
    async with chat(memory) as (terminal, _):
        await terminal.sees("a new thread")
        await say(terminal, "My name is Mac.", "Your name is Mac.")
        terminal.keys("C-d")
        assert await terminal.exit_code() == 0
    async with chat(memory) as (terminal, _):
        await terminal.sees("▸ My name is Mac.", "Your name is Mac.", "2 messages, 1 turn")
        await say(terminal, "What is my name?", "Your name is Mac.")
        terminal.type("/quit", "Enter")
        assert await terminal.exit_code() == 0


async def test_markdown_is_rendered_and_tool_calls_show_arguments_and_results(
    chat: Chat, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("".join(f"Meeting {number}\n" for number in range(9)))
    answers = in_order(
        Answer("Let me **look**.", calls=[("read", {"path": "notes.txt"})], reasoning="Hm, notes."),
        Answer("# Found\n\nA `Vec<String>` and <b>this</b>.\n\n- one\n- two\n"),
    )
    async with chat(answers) as (terminal, _):
        screen = await say(terminal, "What do my notes say?", "• two")
        assert "**" not in screen and "`" not in screen and "# Found" not in screen
        for shown in (
            "∴ thought for",
            "10 characters",
            "Let me look.",
            '• read  path: "notes.txt"',
            "Meeting 0",
            "more lines",
            "Vec<String> and <b>this</b>",
            "• one",
        ):
            assert shown in screen
        assert "Hm, notes." not in screen
        await say(terminal, "/reasoning", "Hm, notes.")


async def test_ctrl_c_cancels_the_turn_and_keeps_and_marks_what_was_said(chat: Chat) -> None:
    async with chat(in_order(Answer("one two three", pause_after=2), Answer("Go on."))) as (
        terminal,
        _,
    ):
        terminal.type("count", "Enter")
        await terminal.sees("one two", "Ctrl-C cancels")
        terminal.keys("C-c")
        cancelled = "cancelled; what had been said is kept"
        await terminal.sees("one two", cancelled, resting("Ctrl-C again leaves"))
        await say(terminal, "and now?", "Go on.")
        assert [message.get("partial") for message in messages("default")] == [
            None,
            True,
            None,
            None,
        ]


async def test_a_turn_that_takes_long_shows_what_goes_on_and_for_how_long(chat: Chat) -> None:
    answer = Answer("Done.", pause_after=0)
    async with chat(in_order(answer)) as (terminal, _):
        terminal.type("think hard", "Enter")
        await terminal.until(lambda screen: bool(re.search(r"waiting for the model \d+ s", screen)))
        answer.go_on.set()
        screen = await ended(terminal, "think hard", "Done.")
        assert "waiting" not in screen


async def test_a_resize_while_the_answer_streams_leaves_one_whole_answer(chat: Chat) -> None:
    filling = Answer("".join(f"{number}. before\n" for number in range(40)))
    answer = Answer([f"word{number} " for number in range(60)], pause_after=50)
    async with chat(in_order(filling, answer), width=90, height=30) as (terminal, _):
        await say(terminal, "fill the screen", "39 before")
        terminal.type("tell me", "Enter")
        await terminal.sees("word49", "writing")
        for width in (60, 100):
            terminal.resize(width, 30)
            await terminal.until(lambda screen, width=width: is_drawn_for(screen, width))
        answer.go_on.set()
        await ended(terminal, "tell me", "word59")
        shown = terminal.screen(history=True)
        counts = [shown.count(f"word{number} ") for number in (0, 20, 40, 58)]
        assert counts == [1, 1, 1, 1], shown
        assert (shown.count("▸ tell me"), shown.count("/help")) == (1, 1), shown


def is_drawn_for(screen: str, width: int) -> bool:
    """Tell whether the answer that streams is wrapped as a terminal of this width has it."""
    lines = [line for line in screen.splitlines() if "word" in line]
    longest = max(map(len, lines), default=0)
    return "writing" in screen and width - len("word49 ") * 2 < longest < width


async def test_a_pasted_text_of_200_lines_is_one_prompt_and_is_shown_in_short(chat: Chat) -> None:
    lines = [f"line {number}: 麦克 wrote this" for number in range(200)]
    async with chat(lambda request: Answer("Read it.")) as (terminal, server):
        terminal.paste("\n".join(lines))
        await terminal.sees("200 lines", "line 199")
        assert server.requests == []
        terminal.keys("Enter")
        screen = await terminal.sees("Read it.", "▸ line 0", "192 more lines")
        assert "line 150" not in screen
        assert [last_user_text(request) for request in server.requests] == ["\n".join(lines)]


async def test_alt_enter_and_ctrl_j_begin_a_new_line(chat: Chat) -> None:
    async with chat(lambda request: Answer("Seen.")) as (terminal, server):
        terminal.type("one", "M-Enter")
        terminal.type("two", "C-j")
        terminal.type("three", "Enter")
        await terminal.sees("Seen.", READY)
        assert last_user_text(server.requests[0]) == "one\ntwo\nthree"


@pytest.mark.parametrize("name", ["麦克", "cafe\u0301 नमस्ते", "👩‍👩‍👧 family", "אבג"])
async def test_a_name_of_any_script_is_a_session_of_its_own(chat: Chat, name: str) -> None:
    async with chat(memory, "assistant", name, width=60) as (terminal, _):
        terminal.type(f"My name is {name}.", "Enter")
        # Terminals differ in how wide an emoji of several is, so that lines may look mixed.
        screen = await terminal.sees(f"▸ My name is {name}.", "our name", READY.lstrip("· "))
        assert f"· {name} ·" in screen
    assert [message["role"] for message in messages(name)] == ["user", "assistant"]


async def test_what_is_entered_while_a_turn_runs_steers_it(chat: Chat) -> None:
    first = Answer("I begin in Rome.", pause_after=2)
    async with chat(in_order(first, Answer("Then Paris it is."))) as (terminal, server):
        terminal.type("plan a trip", "Enter")
        await terminal.sees("I begin", "Enter steers")
        terminal.type("rather to Paris", "Enter")
        # Sent, and not only typed: the input is empty again.
        await terminal.until(
            lambda screen: bool(re.search(r"▸ rather to Paris\n[^▸]+▸$", screen.rstrip()))
        )
        first.go_on.set()
        await ended(terminal, "rather to Paris", "in Rome.", "Then Paris it is.")
        assert last_user_text(server.requests[1]) == "rather to Paris"


async def test_an_unknown_command_names_the_nearest_and_tab_completes(chat: Chat) -> None:
    async with chat(lambda request: Answer("Looked.")) as (terminal, server):
        await say(terminal, "/sesions", "there is no /sesions. Did you mean /sessions?")
        terminal.type("/se", "Tab")
        await terminal.sees("▸ /sessions")
        terminal.keys("C-c")
        terminal.type("/re", "Tab", "Tab")
        await terminal.sees("/read  /reasoning")
        terminal.keys("C-c")
        terminal.type("//etc/hosts?", "Enter")
        await terminal.sees("Looked.")
        assert last_user_text(server.requests[0]) == "/etc/hosts?"


async def test_sessions_are_listed_opened_read_and_closed(chat: Chat) -> None:
    async with chat(memory) as (terminal, _):
        await say(terminal, "My name is Mac.", "Your name is Mac.")
        await say(terminal, "/open other", "· other ·", "a new thread")
        await say(terminal, "What is my name?", "I do not know your name.")
        both = ("* assistant other  2 messages", "  assistant default  2 messages")
        await say(terminal, "/sessions", *both)
        await say(terminal, "/open default", "2 messages, 1 turn")
        await say(terminal, "/read 1", "Your name is Mac.")
        await say(terminal, "/close", "closed; the next word opens it again")
        await say(terminal, "What is my name?", "Your name is Mac.")


async def test_the_command_that_left_a_session_is_no_draft_of_it(
    chat: Chat, tmp_path: Path
) -> None:
    draft = tmp_path / "data/chat/drafts/assistant/default.txt"
    async with chat(memory) as (terminal, _):
        terminal.type("/open other")
        await until_seen(lambda: draft.exists() and draft.read_text() == "/open other")
        terminal.keys("Enter")
        await ended(terminal, "/open other", "· other ·", "a new thread")
        await until_seen(lambda: not draft.exists())
        below = await say(terminal, "/open default", "· default ·", "a new thread")
        assert "not sent" not in below
        await say(terminal, "/read", "nothing was said here yet")


async def test_what_was_typed_is_there_again_in_the_next_chat(chat: Chat) -> None:
    async with chat(memory) as (terminal, _):
        await say(terminal, "first of all", "do not know")
        # The tab completes nothing here.
        terminal.type("second\tthing", "Enter")
        await ended(terminal, "secondthing", "do not know")
    async with chat(memory, "assistant", "elsewhere") as (terminal, _):
        terminal.keys("Up")
        await terminal.sees("▸ second")
        terminal.keys("C-c")
        await terminal.sees("again leaves")
        terminal.keys("C-r")
        await terminal.sees("I-search backward")
        terminal.type("first")
        await terminal.sees("▸ first of all")


async def test_a_session_that_another_process_holds_is_told_clearly(tmp_path: Path) -> None:
    async with daemon() as client:
        await client.request("session/resume", pair("default"))
        async with tmux(*CHAT, folder=tmp_path) as terminal:
            assert await terminal.exit_code() == 1
            screen = terminal.screen(history=True).replace("\n", "")
            assert "[thread_locked]" in screen and str(client.process.pid) in screen


async def test_a_session_that_cannot_be_opened_leaves_us_where_we_were(chat: Chat) -> None:
    async with daemon() as client:
        await client.request("session/resume", pair("held"))
        async with chat(memory) as (terminal, _):
            await say(terminal, "/open held", "[thread_locked]", "assistant · default ·")
            await say(terminal, "What is my name?", "I do not know your name.")


async def test_what_opening_a_thread_mended_is_told(chat: Chat) -> None:
    async with chat(memory) as (terminal, _):
        await say(terminal, "My name is Mac.", "Your name is Mac.")
    path = stored("assistant", "default")
    path.write_bytes(path.read_bytes() + b'{"role": "us')
    async with chat(memory) as (terminal, _):
        await terminal.sees("an unfinished line of 12 bytes set aside", "Your name is Mac.")


async def test_a_model_that_fails_is_told_with_what_can_be_done(chat: Chat) -> None:
    answers = in_order(Answer(status=401, error={"message": "bad key"}), Answer("Better."))
    async with chat(answers) as (terminal, _):
        told = await say(terminal, "hello", "[model_auth]", "check the key")
        assert told.count("[model_auth]") == 1
        await say(terminal, "hello", "Better.")


async def test_an_answer_that_hits_a_limit_says_so(chat: Chat) -> None:
    async with chat(in_order(Answer("and so", finish_reason="length"))) as (terminal, _):
        await say(terminal, "all of it", "and so", "ended early", "max_tokens")


# Colours, a title, a cleared screen, a moved cursor: as bytes, as entities, and in code.
HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b]0;owned\x07 \x1b[2J\x1b[1;1Htop \x9b31m &#27;[32m &#x9b;1m "
    "\x08\x08 back\rgone \u202eright\u202c `\x1b[5m` \x00nul"
)


async def test_escapes_of_models_and_files_never_reach_the_terminal(
    chat: Chat, tmp_path: Path
) -> None:
    (tmp_path / "evil.txt").write_text(HOSTILE)
    answers = in_order(
        Answer(HOSTILE, calls=[("read", {"path": "evil.txt\x1b[2J"})], reasoning=HOSTILE),
        Answer("read", calls=[("read", {"path": "evil.txt"})]),
        Answer(
            f"```\n{HOSTILE}\n```\n\n| a |\n|---|\n| {HOSTILE} |\n\n"
            "[a](http://x/\x1b[2J)\n\nThe end."
        ),
    )
    async with chat(answers, height=50) as (terminal, _):
        title = terminal.run("display", "-p", "#{pane_title}")
        await say(terminal, "/reasoning on", "shown in full")
        await say(terminal, "show me", "The end.")
        screen = terminal.screen(escapes=True, history=True)
        assert "show me" in screen
        assert "␛[2J" in screen and "owned" in screen
        assert "gone" in screen and "back" in screen
        # A failed call is red by our own hand; nothing is green, and nothing blinks.
        for obeyed in ("\x1b[31mred", "\x1b[32m", "\x1b[5m"):
            assert obeyed not in screen
        assert terminal.run("display", "-p", "#{pane_title}") == title


@pytest.mark.parametrize("width", [20, 12])
async def test_a_narrow_terminal_still_shows_everything(chat: Chat, width: int) -> None:
    text = "x" * 90 + " 漢字かな交じり文 " * 5 + "\n\n> quoted " + "y" * 50 + "\n\nThe end."
    async with chat(in_order(Answer(text)), ready="▸", width=width, height=20) as (terminal, _):
        terminal.type("hi", "Enter")
        screen = await terminal.sees("The end.", history=True)
        assert screen.count("x") >= 90 and screen.count("漢") == 5 and screen.count("y") >= 50


async def test_no_color_is_obeyed(chat: Chat) -> None:
    answers = in_order(Answer("# Head\n\n`code` and\n\n```python\ndef f(): pass\n```\n"))
    async with chat(answers, env={"NO_COLOR": "1"}) as (terminal, _):
        await say(terminal, "/what", "there is no /what")
        await say(terminal, "hi", "def f()")
        shown = terminal.screen(escapes=True)
        assert "\x1b[" in shown  # so that there was something to see
        assert not re.search(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|9[0-7])[;m]", shown), repr(shown)
