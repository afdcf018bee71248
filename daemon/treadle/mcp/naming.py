"""What a server's tools are called here: `<server>__<tool>`, as every provider takes it.

Owns that names are distinct, that none is another tool's, and that the same tools always have the
same ones. Pure: refuses to know what a tool does.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Collection, Sequence

# OpenAI's rule for the names of functions, the strictest there is.
NAME_CHARACTERS = 64

# What tells names apart that would be alike: 32 bits, for the few that are so with one server.
_HASH_CHARACTERS = 8

_OTHERS = re.compile(r"[^A-Za-z0-9_-]")


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
    plain = {name: _plain(f"{server}__{name}") for name in remote}
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
    return _OTHERS.sub("_", name)


def _hashed(server: str, name: str, used: Collection[str]) -> str:
    """Return a name with a hash that is not used; in practice the first is not."""
    whole = f"{server}__{name}"
    for attempt in itertools.count():
        seed = f"{whole}\0{attempt}" if attempt else whole
        digest = hashlib.sha256(seed.encode(errors="surrogatepass")).hexdigest()
        suffix = f"_{digest[:_HASH_CHARACTERS]}"
        ours = _plain(whole)[: NAME_CHARACTERS - len(suffix)] + suffix
        if ours not in used:
            return ours
    raise AssertionError("counting has no end")
