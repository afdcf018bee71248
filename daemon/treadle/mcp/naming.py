"""What servers may be called, and what their tools are called here: `<server>__<tool>`.

A server's name holds no `__` and does not end with `_`, so that what stands before the first `__`
is always the server's. Owns that names are distinct, that none is another tool's, that every
provider takes them, and that the same tools always have the same ones. Pure: refuses to know what
a tool does.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Collection, Sequence

# OpenAI's rule for the names of functions, the strictest there is.
NAME_CHARACTERS = 64

# Half of that, so that as much is left for the tool.
SERVER_NAME_CHARACTERS = 32

SEPARATOR = "__"

# What tells names apart that would be alike: 32 bits, for the few that are so with one server.
_HASH_CHARACTERS = 8

_SERVER_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{SERVER_NAME_CHARACTERS}}}")
_NOT_IN_SERVER_NAMES = re.compile(r"[^A-Za-z0-9-]+")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def is_server_name(text: str) -> bool:
    """Tell whether a server may be called so."""
    return bool(_SERVER_NAME.fullmatch(text)) and SEPARATOR not in text and not text.endswith("_")


def server_name_like(text: str) -> str:
    """Return a name for a server that has one which no server may have here; empty for none."""
    told = _NOT_IN_SERVER_NAMES.sub("-", text).strip("-")
    return told[:SERVER_NAME_CHARACTERS].strip("-")


def server_of_tool(name: str) -> str:
    """Return the server whose tool it is, empty where it can be no server's."""
    server, separator, tool = name.partition(SEPARATOR)
    return server if separator and tool and is_server_name(server) else ""


def tool_names(server: str, remote: Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """Name the tools of a server.

    A name that two would have, that is taken or too long ends with a hash of the whole name, so
    that none ever comes to mean another tool. The order of the tools does not matter.

    Args:
        server: the server's name.
        remote: its tools' names, as it has them.
        taken: names of other tools.

    Returns:
        For each name of the server's the one that is used here, in the given order.
    """
    plain = {name: _plain(f"{server}{SEPARATOR}{name}") for name in remote}
    alike = Counter(plain.values())
    names = {
        name: ours
        for name, ours in plain.items()
        if alike[ours] == 1 and ours not in taken and len(ours) <= NAME_CHARACTERS
    }
    used = {*taken, *names.values()}
    for name in sorted(plain.keys() - names.keys()):
        names[name] = _hashed(server, name, used)
        used.add(names[name])
    return {name: names[name] for name in plain}


def _plain(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name)


def _hashed(server: str, name: str, used: Collection[str]) -> str:
    """Return a name with a hash that is not used; in practice the first is not."""
    whole = f"{server}{SEPARATOR}{name}"
    for attempt in itertools.count():
        seed = f"{whole}\0{attempt}" if attempt else whole
        digest = hashlib.sha256(seed.encode(errors="surrogatepass")).hexdigest()
        suffix = f"_{digest[:_HASH_CHARACTERS]}"
        ours = _plain(whole)[: NAME_CHARACTERS - len(suffix)] + suffix
        if ours not in used:
            return ours
    raise AssertionError("counting has no end")
