"""A client that leaves a runtime that goes on, while a turn of its waits for the person."""

from __future__ import annotations

from pathlib import Path

from support.approving import AGENT, PERMISSION, careful_agent, client_that, decisions, here, write
from support.line import Line
from support.sessions import Watched
from treadle.folders import find_folders
from treadle.runtime.outbox import Pair
from treadle.runtime.runtime import Runtime


async def test_a_client_that_leaves_while_it_is_asked_has_said_no_and_the_turn_goes_on(
    tmp_path: Path,
) -> None:
    work = careful_agent(tmp_path, [write("a.txt")])
    runtime = Runtime(find_folders())
    watched = Watched(runtime, Pair(AGENT, "test"))
    line = Line(tmp_path / "line", initialize=False, open_runtime=lambda: runtime)
    capabilities = client_that(requestPermission=True)
    line.send(id="hello", method="initialize", params={"capabilities": capabilities})
    line.send(id=1, method="session/steer", params=here(text="Go"))
    await line.until(lambda: any(message.get("method") == PERMISSION for message in line.log))

    await line.connection.close()
    await watched.until(lambda: bool(watched.done))

    assert watched.done[0].done.text == "Done."
    assert decisions() == [("write", "asked", ""), ("write", "deny", "nobody")]
    assert not list(work.iterdir())
    await runtime.close()
    await line.end()
