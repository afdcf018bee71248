"""Children and the ladder that ends them; a process is dead when the socket it held says so."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from random import Random

import pytest

from support.process import children_of, linux_only, posix_only
from support.switchboard import HELLO, Switchboard, within_bound
from support.waiting import PATIENCE_SECONDS
from treadle.process.child import RUNG_SECONDS, STDERR_TAIL_BYTES, Child, ChildEnd
from treadle.process.reaper import REAPER

UNTIL_END_OF_INPUT = HELLO + "sys.stdin.read()"
DEAF_TO_END_OF_INPUT = HELLO + "time.sleep(600)"
DEAF_TO_TERM = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + DEAF_TO_END_OF_INPUT
)


def with_runaway(then: str) -> str:
    """Return a child whose grandchild is deaf to TERM, left its session, and holds its pipes."""
    return HELLO + (
        f"subprocess.Popen([sys.executable, '-I', '-S', '-c', {DEAF_TO_TERM!r}],"
        f" start_new_session=True)\n{then}"
    )


def descriptors() -> int:
    # A process that runs children is hidden from other processes, not from itself.
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count


# For children that are deaf to a rung anyway: the next one comes sooner. One that minds a rung has
# all the time it needs, and RUNG_SECONDS where somebody else of its family is deaf.
SOON_SECONDS = 0.3

# A start takes between some ten and a thousand passes of the loop, which are two to the tenth.
MOST_DOUBLINGS = 11


async def start(code: str, board: Switchboard, rung_seconds: float = PATIENCE_SECONDS) -> Child:
    env = {"PORT": str(board.port), "SYSTEMROOT": os.environ.get("SYSTEMROOT", "")}
    return await Child.start(
        [sys.executable, "-I", "-S", "-c", code], env=env, rung_seconds=rung_seconds
    )


async def test_a_child_that_minds_its_input_ends_with_it(switchboard: Switchboard) -> None:
    child = await start(UNTIL_END_OF_INPUT, switchboard)
    await switchboard.called(1)

    assert await within_bound(child.stop()) == ChildEnd(child.pid, 0, "end_of_input")
    await switchboard.dead(child.pid)


@posix_only
async def test_a_child_that_ignores_end_of_input_is_terminated(switchboard: Switchboard) -> None:
    child = await start(DEAF_TO_END_OF_INPUT, switchboard, SOON_SECONDS)
    await switchboard.called(1)

    assert await within_bound(child.stop()) == ChildEnd(child.pid, -signal.SIGTERM, "terminate")
    await switchboard.dead(child.pid)


@posix_only
async def test_a_child_that_ignores_term_as_well_is_killed(switchboard: Switchboard) -> None:
    child = await start(DEAF_TO_TERM, switchboard, SOON_SECONDS)
    await switchboard.called(1)

    assert await within_bound(child.stop()) == ChildEnd(child.pid, -signal.SIGKILL, "kill")
    await switchboard.dead(child.pid)


@posix_only
async def test_a_grandchild_that_holds_the_pipes_ends_with_the_child(
    switchboard: Switchboard,
) -> None:
    code = HELLO + f"subprocess.Popen([sys.executable, '-I', '-S', '-c', {DEAF_TO_TERM!r}])\n"
    child = await start(code + "sys.stdin.read()", switchboard, RUNG_SECONDS)
    family = await switchboard.called(2)

    end = await within_bound(child.stop())

    assert end == ChildEnd(child.pid, 0, "kill")
    for pid in family:
        await switchboard.dead(pid)


@linux_only
async def test_a_grandchild_in_a_session_of_its_own_ends_with_the_child(
    switchboard: Switchboard,
) -> None:
    child = await start(with_runaway("sys.stdin.read()"), switchboard, RUNG_SECONDS)
    family = await switchboard.called(2)

    assert await within_bound(child.stop()) == ChildEnd(child.pid, 0, "kill")
    await switchboard.dead(*family)


@linux_only
async def test_the_end_of_a_child_is_known_at_once_whoever_still_holds_its_pipes(
    switchboard: Switchboard,
) -> None:
    code = with_runaway("sys.stderr.write('done'); sys.stderr.flush(); sys.stdin.readline()")
    child = await start(code, switchboard, SOON_SECONDS)
    family = await switchboard.called(2)
    child.stdin.write(b"end\n")

    assert await within_bound(child.wait()) == 0
    assert child.exit_code == 0
    (runaway,) = family - {child.pid}
    assert not switchboard.ended[runaway].is_set()
    assert await within_bound(child.stop()) == ChildEnd(child.pid, 0, "kill")
    assert child.stderr_tail == "done"
    await switchboard.dead(*family)


@posix_only
async def test_many_children_are_stopped_side_by_side(switchboard: Switchboard) -> None:
    children = [await start(UNTIL_END_OF_INPUT, switchboard, PATIENCE_SECONDS) for _ in range(20)]
    await switchboard.called(20)

    ends = await within_bound(asyncio.gather(*(child.stop() for child in children)))

    assert ends == [ChildEnd(child.pid, 0, "end_of_input") for child in children]
    await switchboard.dead(*(child.pid for child in children))


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
    assert len(child.stderr_tail) == STDERR_TAIL_BYTES
    assert child.stderr_tail.endswith("the end")


@posix_only
async def test_a_caller_cancelled_twice_while_it_stops_a_child_still_leaves_it_dead(
    switchboard: Switchboard,
) -> None:
    child = await start(DEAF_TO_END_OF_INPUT, switchboard, SOON_SECONDS)
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


@linux_only
async def test_starts_that_are_cancelled_at_any_moment_leave_no_process_and_no_descriptor(
    switchboard: Switchboard,
) -> None:
    # The one that ends what a killed daemon leaves is there from the first start on.
    await within_bound((await start("", switchboard)).stop())
    before = children_of(os.getpid()), descriptors()
    random = Random(6)
    cancelled = 0

    for _ in range(30):
        starting = asyncio.create_task(start(with_runaway("time.sleep(600)"), switchboard, 0.01))
        for _ in range(int(2 ** random.uniform(0, MOST_DOUBLINGS))):
            if not starting.done():
                await asyncio.sleep(0)
        starting.cancel()
        try:
            child = await within_bound(starting)
        except asyncio.CancelledError:
            cancelled += 1
            continue
        await within_bound(child.stop())

    assert cancelled
    assert (children_of(os.getpid()), descriptors()) == before
    assert REAPER._trees == {}
    await switchboard.dead(*switchboard.ended)


@linux_only
async def test_a_loop_that_ends_in_the_middle_of_a_stop_leaves_nothing(
    switchboard: Switchboard,
) -> None:
    async def leave_early(family_called: threading.Event) -> None:
        child = await start(with_runaway("time.sleep(600)"), switchboard, PATIENCE_SECONDS)
        stopping = asyncio.create_task(child.stop())
        await asyncio.to_thread(family_called.wait, PATIENCE_SECONDS)
        assert not stopping.done()

    family_called = threading.Event()
    other_loop = asyncio.create_task(
        asyncio.to_thread(lambda: asyncio.run(leave_early(family_called)))
    )
    family = await switchboard.called(2)
    family_called.set()
    await within_bound(other_loop)
    await switchboard.dead(*family)
    assert REAPER._trees == {}


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
async def test_input_that_nobody_reads_does_not_hold_up_the_stop(switchboard: Switchboard) -> None:
    child = await start(DEAF_TO_END_OF_INPUT, switchboard, SOON_SECONDS)
    await switchboard.called(1)
    child.stdin.write(b"x" * 1_000_000)

    assert await within_bound(child.stop()) == ChildEnd(child.pid, -signal.SIGTERM, "terminate")
    await switchboard.dead(child.pid)


async def test_a_program_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await Child.start([str(tmp_path / "nothing")], env={})
