"""An editor that goes away in the middle of its turn: what it had open, and what it was doing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support.model_server import Answer, ModelServer, Request
from support.person import write_agent
from support.shared import connected

PAIR = {"agent": "reader", "instance": "one"}


async def test_its_unsaved_text_is_gone_with_it_and_the_turn_goes_on_with_the_disk(
    tmp_path: Path,
) -> None:
    file = made(tmp_path / "a.txt", "on the disk\n")
    go_on = asyncio.Event()

    def answer(request: Request) -> Answer:
        results = [one["content"] for one in request["messages"] if one["role"] == "tool"]
        if len(results) == 2:
            return Answer(" then ".join(result.split("\t")[-1] for result in results))
        # The second call is made when the editor is gone.
        return (
            Answer(calls=[("read", {"path": "a.txt"})], pause_after=0, go_on=go_on)
            if (results)
            else Answer(calls=[("read", {"path": "a.txt"})])
        )

    async with ModelServer(answer) as server, connected() as watcher:
        write_agent(
            "reader", model="m", base_url=server.base_url, sandbox="local", cwd=str(tmp_path)
        )
        await watcher.request("session/attach", PAIR)
        async with connected() as editor:
            editor.notify(
                "textDocument/didOpen",
                {
                    "textDocument": {
                        "uri": file.as_uri(),
                        "languageId": "text",
                        "version": 1,
                        "text": "unsaved\n",
                    }
                },
            )
            editor.ask("session/prompt", {**PAIR, "prompt": "Read it twice."})
            await watcher.until(lambda: len(watcher.of("session/toolResult")) == 1)
            await server.until(lambda: len(server.requests) == 2)
            editor.process.kill()
            await editor.wait()
        go_on.set()
        await watcher.until(lambda: bool(watcher.of("session/done")))
        done = watcher.of("session/done")[0]
        assert (done["stopReason"], done["text"]) == ("end_turn", "unsaved then on the disk")


def made(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
