"""A remembering agent without the daemon: run it twice.

    python examples/remember.py chat.jsonl "My name is Mac."
    python examples/remember.py chat.jsonl "What is my name?"

It asks the model that TREADLE_MODEL names, at OPENAI_BASE_URL, with OPENAI_API_KEY.
"""

import asyncio
import os
import sys

from treadle import Agent, OpenAICompletion, SessionLog, SystemPrompt

USAGE = "usage: TREADLE_MODEL=<model> python examples/remember.py <thread.jsonl> <prompt>"


async def main(path: str, prompt: str) -> None:
    """Run one turn on the thread at `path`."""
    async with OpenAICompletion(os.environ["TREADLE_MODEL"]) as model:
        agent = (
            Agent()
            .use(SessionLog, path=path)
            .use(SystemPrompt, text="Answer briefly and remember what you are told.")
            .run(model)
        )
        env = await agent.start(prompt)
        print(env.messages[-1].text)


if not os.environ.get("TREADLE_MODEL") or len(sys.argv) != 3:
    print(USAGE, file=sys.stderr)
    sys.exit(2)
asyncio.run(main(*sys.argv[1:]))
