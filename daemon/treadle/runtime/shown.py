"""How the log names a session: it tells what happened, and not what about."""

from __future__ import annotations

import hashlib

from treadle.runtime.outbox import Pair

# Enough to tell a person's sessions apart, too little to be a name.
_HASH_DIGITS = 8


def shown(pair: Pair) -> str:
    """Return the agent's name and a part of the instance's hash.

    An agent is named once, in a file; an instance is named whenever somebody begins to talk,
    after whatever that is about, which is nobody's business. The same instance looks alike in
    every log, so that its lines can be found.
    """
    digest = hashlib.sha256(pair.instance.encode(errors="surrogatepass")).hexdigest()
    return f"{pair.agent}/{digest[:_HASH_DIGITS]}"
