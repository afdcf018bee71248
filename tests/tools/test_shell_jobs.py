"""Commands in the background, and the tool `jobs`, as a model meets them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import pytest

from support.commands import Bench, bad, good
from support.process import posix_only
from support.switchboard import Switchboard
from support.waiting import PATIENCE_SECONDS, until_seen
from treadle.process.command import Command
from treadle.tools.commands import running
from treadle.tools.commands import shell as shell_module
from treadle.tools.commands.running import Job, JobEnd
from treadle.tools.pipeline import ToolOutcome

pytestmark = posix_only


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """For jobs that say nothing first: nobody waits for it."""
    monkeypatch.setattr(shell_module, "FIRST_SECONDS", 0.01)


def _states(outcome: ToolOutcome) -> Sequence[str]:
    return outcome.content.split("\n")


async def test_a_job_goes_on_is_looked_at_and_stopped(
    bench: Bench, switchboard: Switchboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def until_it_prints(job: Job, seconds: float) -> None:
        await until_seen(lambda: bool(job.capture.printed().text))

    # How long that takes is the machine's to say.
    monkeypatch.setattr(Job, "wait", until_it_prints)
    folder = bench.context.sandbox.folder
    assert folder is not None
    command = f"echo one; until test -e go; do sleep 0.01; done; echo two; {switchboard.calling()}"
    begun = await bench.shell(command, background=True)
    assert begun == good("[job-1 runs in the background]\none")
    assert bench.session.is_busy
    looked = await bench.jobs(id="job-1")
    assert _states(looked)[0].startswith("job-1 [runs for N s] echo one;")
    assert _states(looked)[1] == "(no new output)"

    (folder / "go").touch()
    pids = await switchboard.called(1)
    assert _states(await bench.jobs(id="job-1"))[1:] == ["two"]
    listed = _states(await bench.jobs())
    assert len(listed) == 1
    assert listed[0].startswith("job-1 [runs for N s] echo one; until test -e go;")
    assert len(listed[0]) <= 201
    stopped = await bench.jobs(id="job-1", stop=True)
    assert stopped.ok
    assert _states(stopped)[0].startswith("job-1 [stopped with all it had started, after N s]")
    await switchboard.dead(*pids)
    assert not bench.session.is_busy
    assert await bench.jobs(id="job-1", stop=True) == stopped


@pytest.mark.usefixtures("soon")
async def test_a_job_whose_shell_has_ended_runs_as_long_as_what_it_started(
    bench: Bench, switchboard: Switchboard
) -> None:
    await bench.shell(f"{switchboard.calling()} >/dev/null 2>&1 &", background=True)
    (pid,) = await switchboard.called(1)
    assert _states(await bench.jobs())[0].startswith("job-1 [runs for N s]")
    os.kill(pid, 9)
    await switchboard.dead(pid)
    await until_seen(lambda: not bench.session.is_busy)
    assert _states(await bench.jobs())[0].startswith("job-1 [exit code 0 after N s]")


async def test_a_job_that_ends_at_once_is_told_as_any_command_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_module, "FIRST_SECONDS", PATIENCE_SECONDS)
    assert await bench.shell("echo hi; exit 2", background=True) == bad(
        "hi\n[exit code 2 after N s]"
    )


@pytest.mark.usefixtures("soon")
async def test_a_job_with_a_time_out_is_stopped_by_it(bench: Bench) -> None:
    await bench.shell("sleep 600", background=True, timeout_seconds=0.1)
    await until_seen(lambda: not bench.session.is_busy)
    assert await bench.jobs() == good(
        "job-1 [time is up: it was stopped with all it had started, after N s] sleep 600"
    )


@pytest.mark.usefixtures("soon")
async def test_there_can_be_so_many_jobs_and_no_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MOST_JOBS", 2)
    monkeypatch.setattr(running, "KEPT_ENDED_JOBS", 1)
    begun = await asyncio.gather(*(bench.shell("sleep 600", background=True) for _ in range(3)))
    assert sorted(each.ok for each in begun) == [False, True, True]
    refused = await bench.shell("sleep 600", background=True)
    assert refused == bad(
        "There are 2 background jobs, and there can be no more. Stop one of them first: "
        "job-1, job-2."
    )
    for name in ("job-1", "job-2"):
        await bench.jobs(id=name, stop=True)
    assert (await bench.shell("sleep 600", background=True)).ok
    names = [line.split()[0] for line in _states(await bench.jobs())]
    assert names == ["job-2", "job-3"]


@pytest.mark.usefixtures("soon")
async def test_jobs_that_begin_at_once_are_told_by_their_numbers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, second_runs = Command.start, asyncio.Event()

    async def second_first(argv: Sequence[str], **where: Any) -> Command:
        if "first" in argv[-1]:
            await second_runs.wait()
        started = await start(argv, **where)
        second_runs.set()
        return started

    monkeypatch.setattr(Command, "start", second_first)
    commands = ("sleep 600 # first", "sleep 600 # second")
    begun = [bench.shell(command, background=True) for command in commands]
    told = [_states(one)[0].split()[0] for one in await asyncio.gather(*begun)]
    assert told == ["[job-1", "[job-2"]
    assert [line.split()[0] for line in _states(await bench.jobs())] == ["job-1", "job-2"]


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        ({"id": "job-7"}, "There is no job 'job-7'. There are no background jobs."),
        ({"id": ""}, "There is no job ''. There are no background jobs."),
        ({"stop": True}, "Name the job to stop. There are no background jobs."),
    ],
)
async def test_a_job_that_is_not_there_is_said(
    bench: Bench, arguments: dict[str, Any], content: str
) -> None:
    assert await bench.jobs(**arguments) == bad(content)


@pytest.mark.usefixtures("soon")
async def test_a_close_ends_all_that_runs_and_says_what(
    bench: Bench, switchboard: Switchboard
) -> None:
    await bench.shell("true", background=True)
    await until_seen(lambda: not bench.session.is_busy)
    command = switchboard.calling()
    await bench.shell(command, background=True)
    waiting = asyncio.create_task(bench.shell("echo begun; exec sleep 600"))
    pids = await switchboard.called(1)
    await until_seen(lambda: bool(bench.told))

    ended = await bench.session.close()
    await switchboard.dead(*pids)
    assert [(each.command, each.cause) for each in ended] == [
        (command, "stopped"),
        ("echo begun; exec sleep 600", "stopped"),
    ]
    assert ended[1] == JobEnd(ended[1].pid, "echo begun; exec sleep 600", -15, "stopped")
    assert not (await waiting).ok
    assert await bench.session.close() == []
    assert await bench.shell("true") == bad("The session is closed, so nothing is started.")
