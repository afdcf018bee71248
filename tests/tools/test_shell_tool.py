"""The tool `shell`, as a model meets it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.commands import TOOLS, Bench, bad, good
from support.process import linux_only, posix_only
from support.switchboard import Switchboard
from support.waiting import until_seen
from treadle import secrets
from treadle.permissions.approvals import Answer, Approvals, Question
from treadle.permissions.policy import Policy
from treadle.sandbox.local import LocalSandbox
from treadle.sandbox.virtual import VirtualSandbox
from treadle.thread.message import ToolCall
from treadle.tools.commands import capture as limits
from treadle.tools.commands import running
from treadle.tools.limits import RESULT_LIMIT_BYTES
from treadle.tools.pipeline import run_call
from treadle.tools.session import ToolSession
from treadle.tools.tool import ToolContext

pytestmark = posix_only

SECRET = "sk-never-to-be-seen-4711"


class Person:
    """Somebody who answers in order, and keeps what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[Question] = []
        self._answers = list(answers)

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return self._answers.pop(0)


async def test_a_command_says_what_it_printed_and_how_it_ended(bench: Bench) -> None:
    assert await bench.shell("echo out; echo err >&2") == good("out\nerr\n[exit code 0 after N s]")
    assert await bench.shell("true") == good("(no output)\n[exit code 0 after N s]")
    assert await bench.shell("printf 'no line end'") == good("no line end\n[exit code 0 after N s]")
    assert await bench.shell("cat; test -t 0 || test -t 1 || echo none") == good(
        "none\n[exit code 0 after N s]"
    )


async def test_it_runs_in_the_folder_and_keeps_nothing_from_call_to_call(bench: Bench) -> None:
    folder = bench.context.sandbox.folder
    assert await bench.shell("mkdir sub; cd sub; X=1; pwd") == good(
        f"{folder}/sub\n[exit code 0 after N s]"
    )
    assert await bench.shell('pwd; echo "[$X]"') == good(f"{folder}\n[]\n[exit code 0 after N s]")


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("echo why; exit 3", "why\n[exit code 3 after N s]"),
        ("kill -9 $$", "(no output)\n[ended by SIGKILL (Killed) after N s]"),
        (
            "exit 143",
            "(no output)\n[exit code 143 (a command in it was ended by SIGTERM (Terminated)) "
            "after N s]",
        ),
        ("exit 200", "(no output)\n[exit code 200 after N s]"),
        (
            "touch f; ./f 2>&-",
            "(no output)\n[exit code 126 (a command was found and cannot be run) after N s]",
        ),
    ],
)
async def test_a_command_that_fails_is_an_error_with_what_it_printed(
    bench: Bench, command: str, content: str
) -> None:
    assert await bench.shell(command) == bad(content)


async def test_a_command_that_is_not_found_is_told_with_the_path(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    outcome = await bench.shell("no-such-program 2>&-")
    assert outcome == bad(
        "(no output)\n[exit code 127 (command not found; PATH is /usr/bin:/bin) after N s]"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "missing required field command"),
        ({"command": ""}, "The command is empty."),
        ({"command": " \n\t"}, "The command is empty."),
        ({"command": "echo \0"}, "holds a NUL character"),
        ({"command": ["ls"]}, "command: Expected str, got array"),
        ({"command": "#" * 100_001}, "longer than 100000 bytes"),
        ({"command": "#" + "é" * 50_000}, "longer than 100000 bytes"),
        ({"command": "ls", "timeout_seconds": 0}, "timeout_seconds: Expected"),
        ({"command": "ls", "timeout_seconds": -5}, "timeout_seconds: Expected"),
        ({"command": "ls", "timeout_seconds": 3601}, "timeout_seconds: Expected"),
        ({"command": "ls", "timeout_seconds": "soon"}, "timeout_seconds: Expected"),
        ({"command": "ls", "timeout_seconds": float("nan")}, "timeout_seconds"),
        ({"command": "ls", "background": "yes"}, "background: Expected bool"),
        ({"command": "ls", "cwd": "/"}, "contains unknown field cwd"),
    ],
)
async def test_a_bad_argument_is_an_error_that_says_what_to_do(
    bench: Bench, arguments: dict[str, Any], words: str
) -> None:
    outcome = await bench.call("shell", **arguments)
    assert not outcome.ok
    assert words in outcome.content
    assert len(outcome.content) < 2000


async def test_the_longest_command_that_is_taken_runs(bench: Bench) -> None:
    script = "echo begun\n#" + "x" * (100_000 - 12)
    assert len(script) == 100_000
    assert await bench.shell(script) == good("begun\n[exit code 0 after N s]")


async def test_text_that_is_no_utf8_is_no_obstacle(bench: Bench) -> None:
    assert await bench.shell("echo \ud800") == bad(
        "The command holds half a character (a lone surrogate)."
    )
    assert await bench.shell(r"printf 'caf\351\n'") == good("caf\ufffd\n[exit code 0 after N s]")


async def test_a_folder_that_is_gone_is_said(bench: Bench) -> None:
    folder = bench.context.sandbox.folder
    assert folder is not None
    folder.rmdir()
    assert await bench.shell("ls") == bad(
        "The folder that commands run in is gone; nothing was started."
    )


async def test_nothing_runs_where_files_are_in_memory_only() -> None:
    context = ToolContext(VirtualSandbox(), policy=Policy("auto"))
    outcome = await run_call(ToolCall("1", "shell", {"command": "ls"}), TOOLS, context)
    assert outcome == bad("No command can be run here: the files are in memory only.")


async def test_nothing_runs_under_read_only(bench: Bench) -> None:
    bench.context = replace(bench.context, policy=Policy("read_only"))
    outcome = await bench.shell("touch made")
    assert not outcome.ok
    assert await bench.jobs() == good("There are no background jobs.")
    assert bench.context.sandbox.folder is not None
    assert not (bench.context.sandbox.folder / "made").exists()


async def test_a_person_is_asked_for_the_very_command(tmp_path: Path) -> None:
    person = Person("allow_session", "deny", "deny")
    context = ToolContext(
        LocalSandbox(tmp_path), ToolSession(approvals=Approvals(person)), Policy("ask")
    )

    async def run(**arguments: Any) -> bool:
        return (await run_call(ToolCall("1", "shell", arguments), TOOLS, context)).ok

    script = "echo one\necho two"
    assert await run(command=script)
    assert await run(command=script)
    assert not await run(command=f"{script} ")
    assert not await run(command=script, background=True)
    assert not await run(command="")
    assert [(each.detail, each.preview) for each in person.asked] == [
        ("shell: echo one echo two", f"shell: {script}"),
        ("shell: echo one echo two", f"shell: {script} "),
        ("shell in the background: echo one echo two", f"shell in the background: {script}"),
    ]


async def test_a_secret_of_the_daemon_reaches_neither_the_command_nor_the_model(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("SOME_TOKEN", SECRET)
    monkeypatch.setattr(secrets, "_values", (("the token", SECRET),))
    seen = await bench.shell("env; echo; env | grep -c 4711")
    assert "4711" not in seen.content
    assert "OPENAI" not in seen.content
    assert "\n0\n" in seen.content

    assert (await bench.shell(f"echo {SECRET}")).content.startswith("[secret OPENAI_API_KEY]\n")
    assert SECRET not in str(bench.told)


async def test_long_output_shows_its_end_and_where_the_rest_is(bench: Bench) -> None:
    outcome = await bench.shell("seq 1 50000; echo the error; exit 1")
    assert len(outcome.content.encode()) <= RESULT_LIMIT_BYTES
    assert not outcome.ok
    first, *_, last, end = outcome.content.split("\n")
    assert first.endswith("bytes before this are not shown; all of it is in output://1.txt]")
    assert (last, end) == ("the error", "[exit code 1 after N s]")
    page = await bench.call("read", path="output://1.txt", offset=49_999)
    assert page == good("49999\t49999\n50000\t50000\n50001\tthe error")


async def test_progress_is_told_while_it_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PROGRESS_SECONDS", 0.01)
    go = bench.context.sandbox.folder
    assert go is not None
    running_ = asyncio.create_task(
        bench.shell("printf '1 of 2\\r2 of 2'; until test -e go; do sleep 0.01; done; echo; exit")
    )
    await until_seen(lambda: bench.told[-1:] == ["2 of 2"])
    (go / "go").touch()
    assert await running_ == good("2 of 2\n[exit code 0 after N s]")


async def test_time_is_up_for_the_whole_tree_and_what_was_printed_is_shown(
    bench: Bench, switchboard: Switchboard
) -> None:
    family = f"{switchboard.calling()} & {switchboard.calling()} & echo begun; wait"
    outcome = asyncio.create_task(bench.shell(family, timeout_seconds=3))
    pids = await switchboard.called(2)
    assert await outcome == bad(
        "begun\n[time is up: it was stopped with all it had started, after N s]"
    )
    await switchboard.dead(*pids)


@pytest.mark.parametrize("redirected", ["", " >/dev/null 2>&1"])
async def test_what_a_command_leaves_behind_neither_holds_up_the_call_nor_outlives_it(
    bench: Bench, switchboard: Switchboard, monkeypatch: pytest.MonkeyPatch, redirected: str
) -> None:
    monkeypatch.setattr(running, "HELD_OPEN_SECONDS", 0.1)
    called = "until test -e called; do sleep 0.01; done"
    folder = bench.context.sandbox.folder
    assert folder is not None
    left = asyncio.create_task(
        bench.shell(f"{switchboard.calling()}{redirected} & {called}; echo done")
    )
    pids = await switchboard.called(1)
    (folder / "called").touch()
    assert await left == good(
        "done\n[exit code 0 after N s; what it had left running was stopped; run what is to go "
        "on with background: true]"
    )
    await switchboard.dead(*pids)


DAEMON = "import os\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)"


@linux_only
async def test_a_cancel_ends_the_whole_tree_with_daemons_that_left_it(
    bench: Bench, switchboard: Switchboard
) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    command = "; ".join(
        [
            f"trap '' TERM; {switchboard.calling(first=deaf)} &",
            f"{switchboard.calling(first=DAEMON)}",
            f"{switchboard.calling()}",
        ]
    ).replace("&;", "&")
    call = asyncio.create_task(bench.shell(command))
    pids = await switchboard.called(3)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await switchboard.dead(*pids)
    assert await bench.shell("echo next") == good("next\n[exit code 0 after N s]")
