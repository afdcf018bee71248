"""A daemon whose tool, model and libraries quote whatever they know, in every way there is.

Run by `tests/logs/test_discretion.py`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
from typing import Any

from treadle.cli.main import main
from treadle.models import scripted
from treadle.tools.builtin import BUILTIN

say = scripted.Scripted.__call__
read = BUILTIN["read"]


async def indiscreet_model(self: scripted.Scripted, env: Any) -> None:
    """Quote the conversation, then fail if it asks for that."""
    said = " ".join(message.text for message in env.messages)
    keys = " ".join(os.environ[name] for name in ("OPENAI_API_KEY", "MY_TOKEN", "ODDLY_NAMED"))
    for name in ("openai", "httpx2", "pygls.server", "asyncio", "somebody"):
        other = logging.getLogger(name)
        other.setLevel(logging.DEBUG)  # as OPENAI_LOG=debug would
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            other.log(level, f"sent {said}")
            other.log(level, "sent %s", said)
    ours = logging.getLogger("treadle.somewhere")
    ours.warning("with the keys %s and %r", keys, keys)
    ours.warning("it ended with %r, %s", ValueError(said), KeyError(said))
    ours.error("a slip of ours %d", said)
    asyncio.get_running_loop().call_soon(_fail, said)
    asyncio.create_task(_fail_later(said))  # noqa: RUF006 - that nobody awaits it is the point
    await asyncio.sleep(0)
    if "FAIL" in said:
        _fail_in_every_way(said)
    await say(self, env)


async def indiscreet_read(arguments: Any, context: Any) -> str:
    """Read, and quote what was read in an exception that nobody foresaw."""
    raise LookupError(f"read {await read.handler(arguments, context)}")


def _fail(said: str) -> None:
    raise ZeroDivisionError(said)


async def _fail_later(said: str) -> None:
    _fail(said)


def _fail_in_every_way(said: str) -> None:
    try:
        said.encode("ascii")
        _fail(said)
    except (ValueError, ZeroDivisionError) as error:
        failure = RuntimeError(f"could not handle {said!r}")
        failure.add_note(f"while saying {said}")
        raise ExceptionGroup(said, [failure, OSError(said)]) from error


scripted.Scripted.__call__ = indiscreet_model  # type: ignore[method-assign]  # what it is for
BUILTIN["read"] = dataclasses.replace(read, handler=indiscreet_read)  # type: ignore[index]  # a dict

if __name__ == "__main__":
    raise SystemExit(main())
