"""A conversation that outgrows its model's window, on a scripted model: no key, no network.

    python examples/compaction.py

A strategy of one's own goes first: what was marked as an aside is given up before anything else.
Behind it stands one that ships. Nothing is deleted: the thread keeps what the model sees no more.
"""

import asyncio
import tempfile
from pathlib import Path

from treadle import (
    Agent,
    Compacted,
    Compaction,
    CompactionEnv,
    CompactionSettings,
    Compactor,
    Conversation,
    Env,
    Reply,
    Scripted,
    SessionLog,
    Stack,
    Strategy,
    build_ladder,
)

STORY = "It was long, and it rained. " * 20
SAID = ["My name is Mac.", f"Aside: {STORY}", f"Aside: {STORY}", "What is my name?"]
HEARD = ["Hello Mac.", "I see.", "Indeed.", "Your name is Mac."]


class Asides(Strategy):
    """Gives up what was said aside, with its answer."""

    name = "asides"

    async def work(self, env: CompactionEnv) -> Conversation | None:
        """Return the conversation without them; None where there are none."""
        entries = env.conversation.entries
        asides = [
            at for at, each in enumerate(entries[:-1]) if each.message.text.startswith("Aside:")
        ]
        gone = {place for at in asides for place in (at, at + 1)} - env.conversation.protected
        return env.conversation.without(gone) if gone else None


def tell(_: Env, compacted: Compacted) -> None:
    """Print what a compaction came to, and what the model sees no more."""
    print(
        f"compacted from {compacted.tokens_before} to {compacted.tokens_after} tokens, by", end=""
    )
    print("", ", ".join(each.name for each in compacted.strategies))
    for each in compacted.gave_up:
        print(f"  gave up {each.ordinal}: {each.message.text[:20]}")


async def main(path: Path) -> None:
    """Say it all, one turn after the other, on the thread at `path`."""
    ladder = Stack[CompactionEnv]().use(Asides).run(build_ladder(["sliding_window"])).build()
    settings = CompactionSettings(keep_steps=0)
    compactor = Compactor(window=470, ladder=ladder, settings=settings)
    agent = (
        Agent()
        .use(SessionLog, path=path)
        .use(Compaction, compactor=compactor)
        .run(Scripted([Reply(text) for text in HEARD]))
        .on("compacted", tell)
    )
    for prompt in SAID:
        env = await agent.start(prompt)
        print(f"> {prompt[:20]}\n{env.messages[-1].text}")


with tempfile.TemporaryDirectory() as folder:
    thread = Path(folder, "chat.jsonl")
    asyncio.run(main(thread))
    print(len(thread.read_text("utf-8").splitlines()), "lines in the thread")
