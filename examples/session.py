"""The daemon's own session in a script, without the daemon: run it twice.

    python examples/session.py user-42 "My name is Mac."
    python examples/session.py user-42 "What is my name?"

It asks the model that the agent `assistant` has everywhere: the one that TREADLE_MODEL or
config.toml names, else the embedded one. The thread is the one of `treadle chat assistant user-42`.
"""

import asyncio
import sys

from treadle import Session


async def main(instance: str, prompt: str) -> None:
    """Run one turn of the agent, and show its answer as it comes."""
    async with await Session.resume("assistant", instance) as session:
        session.on("delta", lambda _, delta: print(delta.text, end="", flush=True))
        outcome = await session.prompt(prompt)
        print(f"\n(turn {outcome.turn}: {outcome.done.stop_reason})")


asyncio.run(main(*sys.argv[1:]))
