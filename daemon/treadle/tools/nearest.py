"""What somebody may have meant: the names nearest to one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

# Comparing one name costs some 20 µs on the event loop; a folder may hold any number of them.
COMPARED_NAMES = 500
# A longer name is not a typing error.
COMPARED_CHARACTERS = 200


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three of `names` that look like `name`, the likeliest first."""
    from difflib import get_close_matches

    by_folded = {known.casefold(): known for known in islice(names, COMPARED_NAMES)}
    wanted = name[:COMPARED_CHARACTERS].casefold()
    return [by_folded[match] for match in get_close_matches(wanted, by_folded)]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ` Did you mean a, b?`, or nothing where nothing is near."""
    found = nearest(name, names)
    return f" Did you mean {', '.join(found)}?" if found else ""
