"""Children and the ladder that ends them; a process is dead when the socket it held says so."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from support.switchboard import HELLO, Switchboard, within_bound
from support.waiting import PATIENCE_SECONDS
from treadle.process import child as ladder
from treadle.process.child import Child, ChildEnd

UNTIL_END_OF_INPUT = HELLO + "sys.stdin.read()"
DEAF_TO_END_OF_INPUT = HELLO + "time.sleep(600)"
DEAF_TO_TERM = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + DEAF_TO_END_OF_INPUT
)

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and sessions")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For children that are deaf to a rung anyway: the next one comes sooner."""
    monkeypatch.setattr(ladder, "END_OF_INPUT_SECONDS", 0.1)
    monkeypatch.setattr(ladder, "TERMINATE_SECONDS", 0.3)


async def start(code: str, board: Switchboard) -> Child:
    env = {"PORT": str(board.port), "SYSTEMROOT": os.environ.get("SYSTEMROOT", "")}
    return await Child.start([sys.executable, "-I", "-S", "-c", code], env=env)


async def test_a_child_that_minds_its_input_ends_with_it(switchboard: Switchboard) -> None:
    child = await start(UNTIL_END_OF_INPUT, switchboard)
    await switchboard.called(1)

    assert await within_bound(child.stop()) == ChildEnd(child.pid, 0, "end_of_input")
    await switchboard.dead(child.pid)


@pytest.mark.usefixtures("impatient")
@posix_only
async def test_a_child_that_ignores_end_of_input_is_terminated(switchboard: Switchboard) -> None:
    child = await start(DEAF_TO_END_OF_INPUT, switchboard)
    await switchboard.called(1)

    assert await within_bound(child.stop()) == ChildEnd(child.pid, -signal.SIGTERM, "terminate")
    await switchboard.dead(child.pid)


@pytest.mark.usefixtures("impatient")
@posix_only
async def test_a_child_that_ignores_term_as_well_is_killed(switchboard: Switchboard) -> None:
    child = await start(DEAF_TO_TERM, switchboard)
    await switchboard.called(1)

    assert await within_bound(child.stop()) == ChildEnd(child.pid, -signal.SIGKILL, "kill")
    await switchboard.dead(child.pid)


@pytest.mark.usefixtures("impatient")
@posix_only
async def test_a_grandchild_that_holds_the_pipes_ends_with_the_child(
    switchboard: Switchboard,
) -> None:
    code = HELLO + f"subprocess.Popen([sys.executable, '-I', '-S', '-c', {DEAF_TO_TERM!r}])\n"
    child = await start(code + "sys.stdin.read()", switchboard)
    family = await switchboard.called(2)

    end = await within_bound(child.stop())

    assert end == ChildEnd(child.pid, 0, "kill")
    for pid in family:
        await switchboard.dead(pid)


@posix_only
async def test_a_grandchild_in_a_session_of_its_own_cannot_hold_up_the_stop(
    switchboard: Switchboard,
) -> None:
    code = HELLO + (
        f"subprocess.Popen([sys.executable, '-I', '-S', '-c', {DEAF_TO_TERM!r}],"
        " start_new_session=True)\nsys.stdin.read()"
    )
    child = await start(code, switchboard)
    (runaway,) = await switchboard.called(2) - {child.pid}
    try:
        assert await within_bound(child.stop()) == ChildEnd(child.pid, 0, "end_of_input")
        await switchboard.dead(child.pid)
    finally:
        os.kill(runaway, signal.SIGKILL)
    await switchboard.dead(runaway)


async def test_a_child_that_ended_by_itself_is_only_reported(switchboard: Switchboard) -> None:
    child = await start("import sys; sys.exit('no licence for this')", switchboard)

    assert await within_bound(child.wait()) == 1
    assert await within_bound(child.stop()) == ChildEnd(child.pid, 1, "exit")
    assert child.stderr_tail.strip() == "no licence for this"


async def test_a_flood_on_standard_error_neither_stops_the_child_nor_fills_memory(
    switchboard: Switchboard,
) -> None:
    code = "import sys; sys.stderr.write('x' * 3_000_000 + 'the end'); print('done')"
    child = await start(code, switchboard)

    assert (await within_bound(child.stdout.readline())).strip() == b"done"
    await within_bound(child.stop())
    assert len(child.stderr_tail) == ladder.STDERR_TAIL_BYTES
    assert child.stderr_tail.endswith("the end")


@pytest.mark.usefixtures("impatient")
@posix_only
async def test_a_caller_cancelled_twice_while_it_stops_a_child_still_leaves_it_dead(
    switchboard: Switchboard,
) -> None:
    child = await start(DEAF_TO_END_OF_INPUT, switchboard)
    await switchboard.called(1)
    stopping = asyncio.create_task(child.stop())
    for _ in range(2):
        await asyncio.sleep(0)
        stopping.cancel()

    with pytest.raises(asyncio.CancelledError):
        await within_bound(stopping)

    assert child.exit_code == -signal.SIGTERM
    await switchboard.dead(child.pid)


async def test_stopping_twice_at_once_tells_both_callers_the_same(
    switchboard: Switchboard,
) -> None:
    child = await start(UNTIL_END_OF_INPUT, switchboard)
    await switchboard.called(1)

    first, second = await within_bound(asyncio.gather(child.stop(), child.stop()))

    assert first == second == ChildEnd(child.pid, 0, "end_of_input")


async def test_a_caller_cancelled_while_it_starts_a_child_leaves_none(
    switchboard: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However busy the machine is, the child calls before it is ended.
    monkeypatch.setattr(ladder, "END_OF_INPUT_SECONDS", PATIENCE_SECONDS)
    starting = asyncio.create_task(start(UNTIL_END_OF_INPUT, switchboard))
    await asyncio.sleep(0)
    starting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await within_bound(starting)

    (pid,) = await switchboard.called(1)
    await switchboard.dead(pid)


async def test_a_child_has_the_environment_it_was_given_and_pipes_of_its_own(
    switchboard: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    code = "import os; print(os.environ.get('OPENAI_API_KEY'), os.isatty(0)); print(input())"
    child = await start(code, switchboard)

    child.stdin.write(b"hello\n")
    assert (await within_bound(child.stdout.read())).split() == [b"None", b"False", b"hello"]
    await within_bound(child.stop())


@posix_only
@pytest.mark.usefixtures("impatient")
async def test_input_that_nobody_reads_does_not_hold_up_the_stop(switchboard: Switchboard) -> None:
    child = await start(DEAF_TO_END_OF_INPUT, switchboard)
    await switchboard.called(1)
    child.stdin.write(b"x" * 1_000_000)

    assert await within_bound(child.stop()) == ChildEnd(child.pid, -signal.SIGTERM, "terminate")
    await switchboard.dead(child.pid)


async def test_a_program_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await Child.start([str(tmp_path / "nothing")], env={})
