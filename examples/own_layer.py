"""A layer and a tool of one's own, tried on a scripted model: no key, no network.

    python examples/own_layer.py

The tool looks a city up; the layer counts tokens and ends a turn that costs too many.
"""

import asyncio

from treadle import (
    Agent,
    App,
    Env,
    Reply,
    Scripted,
    ScriptedCall,
    ToolError,
    ToolResultLoop,
    Tools,
    Usage,
    tool,
)

INHABITANTS = {"Oslo": 724_290, "Bergen": 294_029}


@tool(capability="read")
def inhabitants(city: str) -> int:
    """Tell how many people live in a city of Norway.

    Args:
        city: its name.
    """
    if city not in INHABITANTS:
        raise ToolError(f"no figures for {city}; there are some for: {', '.join(INHABITANTS)}")
    return INHABITANTS[city]


class TokenBudget:
    """Ends the turn once its answers have cost `limit` tokens. Belongs inside the loop."""

    def __init__(self, app: App[Env], *, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, env: Env) -> None:
        """Pass the env inwards, then count."""
        await self._app(env)
        spent = sum(message.usage.output_tokens for message in env.messages if message.usage)
        env.metadata["budget.spent"] = spent
        if spent >= self._limit:
            env.should_exit = True


async def main() -> None:
    """Run one turn: the model calls the tool, reads its result, and answers."""
    model = Scripted(
        [
            Reply(calls=[ScriptedCall("inhabitants", {"city": "Oslo"})], usage=Usage(50, 20)),
            Reply("724,290 people live in Oslo.", usage=Usage(80, 12)),
        ]
    )
    agent = (
        Agent()
        .use(ToolResultLoop)
        .use(TokenBudget, limit=1_000)
        .use(Tools, tools=[inhabitants])
        .run(model)
        .on("tool_call", lambda _, event: print("calls", event.call.name, event.call.arguments))
        .on("tool_result", lambda _, event: print("reads", event.message.text))
    )
    env = await agent.start("How many people live in Oslo?")
    print(env.messages[-1].text)
    print("spent", env.metadata["budget.spent"], "tokens")


asyncio.run(main())
