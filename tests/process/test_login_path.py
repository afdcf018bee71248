"""What a login shell adds to a bare PATH; its profile may be noisy, stuck or gone."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.process import children_of, linux_only, posix_only
from support.switchboard import Switchboard, within_bound
from support.waiting import PATIENCE_SECONDS
from treadle.process import login_path as asking
from treadle.process.login_path import LoginShell, login_path
from treadle.process.shell import DEFAULT_PATH

pytestmark = posix_only

Profile = Callable[[str], Path]


@pytest.fixture(autouse=True)
def not_asked_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_ASKED", LoginShell())


# The system's own profile is read before the person's, and may set another PATH than ours.
@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """Make the person's shell a POSIX one with this profile; it counts how often it is read."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/sh")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(asking, "_GRACE_SECONDS", 0.01)
    # A shell that answers has all the time that a busy machine makes it need.
    monkeypatch.setattr(asking, "ANSWER_SECONDS", PATIENCE_SECONDS)

    def write(text: str) -> Path:
        count = tmp_path / "count"
        (tmp_path / ".profile").write_text(f"echo >> {shlex.quote(str(count))}\n{text}\n")
        return count

    return write


def times(count: Path) -> int:
    return len(count.read_text()) if count.exists() else 0


async def test_what_the_profile_adds_stands_behind_our_own(profile: Profile) -> None:
    profile("PATH=/opt/node/bin:/bin:$HOME/.local/bin:relative::/usr/bin; export PATH")
    home = os.environ["HOME"]
    assert await login_path() == f"/usr/bin:/bin:/opt/node/bin:{home}/.local/bin"


async def test_the_shell_is_asked_once_however_many_want_to_know(profile: Profile) -> None:
    count = profile("PATH=/opt/bin")
    assert times(count) == 0
    assert set(await asyncio.gather(*(login_path() for _ in range(5)))) == {
        "/usr/bin:/bin:/opt/bin"
    }
    assert await login_path() == "/usr/bin:/bin:/opt/bin"
    assert times(count) == 1


async def test_our_own_path_may_change_after_the_shell_was_asked(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile("PATH=/opt/bin")
    await login_path()
    monkeypatch.setenv("PATH", "/mine")
    assert await login_path() == "/mine:/opt/bin"
    monkeypatch.delenv("PATH")
    assert await login_path() == f"{DEFAULT_PATH}:/opt/bin"


async def test_one_that_is_cancelled_while_it_asks_leaves_no_process_and_the_others_ask(
    switchboard: Switchboard, profile: Profile
) -> None:
    count = profile(f"[ -e $HOME/again ] || {switchboard.calling()}\nPATH=/opt/bin")
    first, second = asyncio.create_task(login_path()), asyncio.create_task(login_path())
    (pid,) = await switchboard.called(1)
    (Path(os.environ["HOME"]) / "again").touch()
    first.cancel()
    assert await within_bound(second) == "/usr/bin:/bin:/opt/bin"
    await switchboard.dead(pid)
    assert first.cancelled()
    assert times(count) == 2


@pytest.mark.parametrize(
    "noise",
    [
        "echo PATH=/evil; echo ::; printf 'no line end'",
        "echo complaint >&2; set -xv",
        "head -c 300000 /dev/zero",
        "trap 'echo at the end' EXIT",
    ],
)
async def test_what_a_profile_prints_is_no_part_of_the_answer(profile: Profile, noise: str) -> None:
    profile(f"PATH=/opt/bin:/usr/bin:/bin\n{noise}")
    assert await login_path() == "/usr/bin:/bin:/opt/bin"


async def test_a_profile_that_waits_for_input_gets_none_and_not_ours(profile: Profile) -> None:
    profile("PATH=/opt/bin:/usr/bin:/bin; cat; read answer; [ -t 0 ] && PATH=/terminal")
    assert await login_path() == "/usr/bin:/bin:/opt/bin"


async def test_nothing_that_authorises_is_shown_to_a_profile(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    profile("PATH=/opt/${OPENAI_API_KEY:-none}")
    assert await login_path() == "/usr/bin:/bin:/opt/none"


async def test_a_profile_that_hangs_is_ended_with_all_it_started_and_not_asked_again(
    switchboard: Switchboard,
    profile: Profile,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    count = profile(
        f"trap '' TERM; {switchboard.calling(first=deaf)} & {switchboard.calling(first=deaf)}"
    )
    # What it started is there before the bound is over: it is set once both have called.
    bound = asyncio.Event()

    async def read(*_: object) -> None:
        await bound.wait()

    monkeypatch.setattr(asking, "_read", read)
    path = asyncio.create_task(login_path())
    pids = await switchboard.called(2)
    bound.set()
    assert await within_bound(path) == "/usr/bin:/bin"
    await switchboard.dead(*pids)
    assert await login_path() == "/usr/bin:/bin"
    assert times(count) == 1
    assert [each.levelno for each in caplog.records] == [logging.WARNING]


async def test_the_answer_is_waited_for_within_a_bound(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 0.05)
    profile("sleep 600")
    assert await within_bound(login_path()) == "/usr/bin:/bin"


@linux_only
async def test_a_profile_that_prints_without_end_is_cut_off(profile: Profile) -> None:
    profile("yes")
    before = set(children_of(os.getpid()))
    assert await within_bound(login_path()) == "/usr/bin:/bin"
    # One more may be there by now: it ends what a killed daemon leaves, and is kept.
    assert len(set(children_of(os.getpid())) - before) <= 1


@pytest.mark.parametrize("shell", ["/nowhere/sh", "sh", "/etc/passwd", "/", "/bin/false"])
async def test_a_shell_that_cannot_be_asked_leaves_our_own(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    profile("PATH=/opt/bin")
    monkeypatch.setenv("SHELL", shell)
    assert await login_path() == "/usr/bin:/bin"


async def test_without_a_variable_the_system_says_which_shell_it_is(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pwd

    monkeypatch.delenv("SHELL")
    person = pwd.struct_passwd(("me", "x", os.getuid(), os.getgid(), "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: person)
    profile("PATH=/opt/bin")
    assert await login_path() == "/usr/bin:/bin:/opt/bin"


async def test_a_shell_of_another_kind_is_asked_in_words_that_it_takes(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """csh takes no `-l` beside `-c`; what it is given to run is a plain command."""
    shell = tmp_path / "tcsh"
    shell.write_text(
        f"#!{sys.executable}\nimport os, shlex, sys\n"
        "assert sys.argv[1] == '-c' and len(sys.argv) == 3\n"
        "os.environ['PATH'] = '/opt/csh'\n"
        "words = shlex.split(sys.argv[2])\nos.execv(words[0], words)\n"
    )
    shell.chmod(0o700)
    profile("")
    monkeypatch.setenv("SHELL", str(shell))
    assert await login_path() == "/usr/bin:/bin:/opt/csh"
