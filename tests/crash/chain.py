"""Lives of daemons, one after the other, on one data folder: each finds what the last one left.

Owns what is looked at after each kill. A chain that fails tells its seed, its stories and kills,
what was announced and what is in the files.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from crash.announced import Announced, Kept, announced_by, kept, lost
from crash.mortal import Kill, Mortal
from crash.plausible import odd
from crash.story import Say, Story, Teller, says
from support.forked import Starter
from support.person import pair
from treadle.thread.paths import DAMAGED_SUFFIX, THREAD_SUFFIX, beside, encode_name, thread_path
from treadle.thread.verify import verify

AGENT = "assistant"


class Chain:
    """The daemons of one data folder.

    Args:
        name: begins every text that is said; how the chain is asked for again.
        folder: for its data, logs and files.
        start: starts a daemon.
        env: the daemons' variables.
        clients: where the model finds who is asking, by the chain's name.

    Attributes:
        kills: how many daemons were killed while something went on.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        start: Starter,
        env: dict[str, str],
        clients: dict[str, Mortal],
    ) -> None:
        self.name = name
        self.kills = 0
        self._data = folder / "data"
        self._start = start
        self._env = {**env, "TREADLE_LOG_DIR": str(folder / "logs")}
        self._clients = clients
        self._workspace = folder / "files"
        self._workspace.mkdir(parents=True)
        self._teller = Teller(name, self._workspace)
        self._instances: set[str] = set()  # all that were ever spoken to
        self._left: dict[str, bytes] = {}  # the files that the last daemon left
        self._told: dict[str, list[Announced]] = {}  # what was told since they were looked at
        self._outcomes: dict[str, dict[str, Any]] = {}  # of all prompts that were answered
        self._asked: list[dict[str, Any]] = []  # the prompts with keys since then
        self._story: list[str] = []  # for whoever reads of a failure

    async def live(self, story: Story, kill: Kill) -> bool:
        """Live once: look at what the last life left, go on with everything, hear a story, die.

        Returns:
            Whether the kill came before the story's end.
        """
        with self._explained():
            async with self._life() as client:
                await self._look(client)
                self._begin(f"{kill} in {story}")
                client.arm(kill)
                known = len(self._teller.sent)
                self._instances |= story.keys()
                await self._teller.tell(client, story)
            sent = list(self._teller.sent.values())[known:]
            self._asked += [params for params in sent if "key" in params]
            self._remember(client)
            return client.was_killed

    async def die_early(self, kill: Kill) -> None:
        """Live as long as it takes to open some of the sessions, which mends them, and die."""
        with self._explained():
            self._begin(f"{kill} while sessions are opened")
            async with self._life() as client:
                client.arm(kill)
                with contextlib.suppress(EOFError):
                    asked = [client.ask("session/resume", pair(one)) for one in self._files()]
                    await asyncio.gather(*asked)
            self._remember(client)

    def tear(self, instance: str, part: bytes) -> None:
        """Leave half a line behind, as a kill in the middle of a write would."""
        if instance in self._left:
            self._begin(f"half a line in {instance}: {part!r}")
            with self._path(instance).open("ab") as file:
                file.write(part)
            self._left = self._files()

    async def end(self) -> None:
        """Live a last time, in peace, and leave a tidy house."""
        with self._explained():
            self._begin("the last life")
            async with self._life() as client:
                await self._look(client)
                assert await client.end() == 0
            self._expect_order()

    async def _look(self, client: Mortal) -> None:
        """Look at every session, go on with it, and let it go again."""
        # Those too of which nothing is on disk: their locks may be, and must not be in the way.
        instances = sorted(self._instances)
        async with asyncio.TaskGroup() as group:
            for instance in instances:
                group.create_task(self._look_at(client, instance))
        for instance in instances:
            await client.request("session/close", pair(instance))
        self._expect_order()
        seqs: dict[str, int] = {}
        for event in client.events:
            seq, last = event["params"]["seq"], seqs.get(event["params"]["instance"], 0)
            assert seq == last + event["params"].get("joined", 1), f"{event} follows {last}"
            seqs[event["params"]["instance"]] = seq
        self._left, self._told, self._asked = self._files(), {}, []

    async def _look_at(self, client: Mortal, instance: str) -> None:
        """Hold one session against what was announced of it, then go on with it."""
        left = self._left.get(instance, b"")
        before = kept(left)
        if left:
            await self._expect_true_report(client, instance, before)
            now = self._file(instance)
            whole = left[: len(left) - before.torn_bytes]
            if before.torn_bytes:
                aside = beside(self._path(instance), DAMAGED_SUFFIX).read_bytes()
                assert aside.rstrip(b"\n").endswith(left[len(whole) :]), instance
            assert now.startswith(whole), f"{instance}: what was there is not there as it was"
            before = kept(now)
            read = (await client.request("session/read", pair(instance, limit=1000)))["messages"]
            assert [one["ordinal"] for one in read] == list(range(len(before.messages)))
            assert [(one["role"], one["content"]) for one in read] == [
                (one["role"], one.get("content", "")) for one in before.messages
            ]
        told = self._told.get(instance, [])
        problems = [*lost(told, before), *odd(before, instance, self._teller)]
        assert not problems, f"{instance}: " + "\n".join(problems)
        await self._repeat(client, instance, before)
        await self._go_on(client, instance)

    async def _expect_true_report(self, client: Mortal, instance: str, before: Kept) -> None:
        resumed = await client.request("session/resume", pair(instance))
        turn = before.interrupted_turn
        report = {
            "quarantinedLines": 0,
            "tornBytes": before.torn_bytes,
            "repairedCalls": 0 if turn is None else len(before.unanswered_calls()),
        }
        if turn is not None:
            report["interruptedTurn"] = turn
        assert resumed["report"] == report, f"{instance}: {resumed['report']} is not {report}"
        assert resumed["thread"]["turns"] == max(before.starts, default=0), instance

    async def _repeat(self, client: Mortal, instance: str, before: Kept) -> None:
        """Repeat every prompt that had a key and may have been cut short: nothing runs twice."""
        for params in self._asked:
            if params["instance"] != instance:
                continue
            outcome = await self._repeated(client, params, before)
            now = kept(self._file(instance))
            said = now.places(role="user", text=params["prompt"])
            assert len(said) == 1 or (not said and outcome["stopReason"] == "interrupted"), (
                f"{params} stands at {said}; it came to {outcome}"
            )

    async def _repeated(
        self, client: Mortal, params: dict[str, Any], before: Kept
    ) -> dict[str, Any]:
        """Repeat one prompt; return its outcome."""
        text, turn = params["prompt"], before.turn_of(params["key"])
        is_said = before.ordinal_of(text) is not None
        assert turn is not None or not is_said, f"{text!r} was said, and nothing tells its key"
        outcome: dict[str, Any] = await client.request("session/prompt", params)
        told = self._outcomes.get(text, outcome)
        assert outcome == told, f"{text!r} came to {outcome}, and before to {told}"
        recorded = (turn, before.ends.get(turn or 0))
        as_recorded = recorded == (outcome.get("turn"), outcome["stopReason"])
        # Of a turn that has begun and said nothing yet, both is true.
        has_run = outcome["stopReason"] == "end_turn" and not is_said
        assert as_recorded or has_run, f"{text!r} came to {outcome}; recorded is {recorded}"
        return outcome

    async def _go_on(self, client: Mortal, instance: str) -> None:
        """Say something new: the provider takes the conversation, and answers as ever."""
        params = self._teller.prompt(instance, Say((1,)))
        outcome = await client.request("session/prompt", params)
        assert (outcome["stopReason"], outcome["text"]) == (
            "end_turn",
            says(params["prompt"], 1).text,
        ), f"{params} came to {outcome}"

    def _expect_order(self) -> None:
        """Nothing is wrong with the data folder, and nothing lies in it that is no thread."""
        assert not (found := list(verify(self._data))), found
        folder = self._data / "threads" / encode_name(AGENT)
        # What a kill tore off lies beside its thread for good.
        lies = {path for path in self._data.rglob("*") if path.is_file()}
        expected = {path for path in lies if path.parent == folder}
        expected = {one for one in expected if one.suffix in (THREAD_SUFFIX, DAMAGED_SUFFIX)}
        assert lies == expected, f"left behind: {lies - expected}"

    @contextlib.asynccontextmanager
    async def _life(self) -> AsyncIterator[Mortal]:
        """Start a daemon; it is dead at the end."""
        process = await self._start("--data-dir", str(self._data), env=self._env)
        client = self._clients[self.name] = Mortal(process)
        try:
            await client.initialize(rootUri=self._workspace.as_uri())
            yield client
        finally:
            await client.kill()

    def _begin(self, what: str) -> None:
        self._story.append(what)

    def _remember(self, client: Mortal) -> None:
        """Keep what a daemon left and told."""
        self.kills += client.was_killed
        for instance, told in announced_by(client).items():
            # What was looked at before this life's story is told again here, and holds as well.
            self._told.setdefault(instance, []).extend(told)
        for message in client.log:
            method, params = client.sent.get(message.get("id"), ("", None))
            # A prompt that was cancelled before it had a turn has used no key up.
            if method == "session/prompt" and "turn" in message.get("result", {}):
                self._outcomes[params["prompt"]] = message["result"]
        self._left = self._files()

    def _path(self, instance: str) -> Path:
        return thread_path(self._data, AGENT, instance)

    def _file(self, instance: str) -> bytes:
        path = self._path(instance)
        return path.read_bytes() if path.exists() else b""

    def _files(self) -> dict[str, bytes]:
        folder = thread_path(self._data, AGENT, "").parent
        return {path.stem: path.read_bytes() for path in folder.glob(f"*{THREAD_SUFFIX}")}

    @contextlib.contextmanager
    def _explained(self) -> Any:
        """Tell of the chain where it fails."""
        try:
            yield
        except BaseException as error:
            error.add_note(self._explanation())
            raise

    def _explanation(self) -> str:
        parts = [f"chain {self.name}; again: TREADLE_CRASH_CHAINS={self.name} pytest tests/crash"]
        parts += [f"life {number}: {what}" for number, what in enumerate(self._story, 1)]
        for instance, told in self._told.items():
            parts.append(f"announced of {instance}:")
            parts += dict.fromkeys(f"  {one}" for one in told)
        for instance, data in self._files().items():
            parts.append(f"file of {instance} now:\n{data.decode(errors='replace')}")
            parts.append(f"  (left by the kill: {len(self._left.get(instance, b''))} bytes)")
        return "\n".join(parts)
