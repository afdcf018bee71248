"""The keys of compaction, wherever they are written, and what each may hold.

An agent's file says them under `compaction`, `config.toml` in a table of that name. Owns what each
may hold, and how the two come together. Refuses to know how a conversation is compacted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from treadle.agents import checks
from treadle.compaction.settings import LADDERS, STRATEGIES, CompactionSettings
from treadle.errors import ConfigurationError

# Ten times the largest window that is sold: beyond it a slip of the finger.
MOST_WINDOW = 20_000_000

# More steps than a turn has model calls where nobody says otherwise, many times over.
MOST_KEPT_STEPS = 1_000

# They mean something only together, so whoever names one of them speaks for both.
_PAIR = ("compact_at", "compact_to")


@dataclass(frozen=True, slots=True)
class CompactionKeys:
    """What one file says of compaction; it may say nothing.

    Args:
        said: the settings by their names, as `CompactionSettings` takes them.
    """

    said: Mapping[str, Any] = field(default_factory=dict)

    def over(self, defaults: CompactionKeys) -> CompactionSettings:
        """Return what is meant: what is said here, and what the defaults say of the rest.

        `compact_at` and `compact_to` are taken as a pair, so that a file that could be used alone
        can be used with any defaults.
        """
        others = dict(defaults.said)
        if any(key in self.said for key in _PAIR):
            for key in _PAIR:
                others.pop(key, None)
        return CompactionSettings(**(others | dict(self.said)))


def declared(value: Any) -> CompactionKeys:
    """Take a table of the keys of compaction.

    Raises:
        ValueError: it cannot be as it stands; the text names the key and what is valid.
    """
    if not isinstance(value, dict):
        raise ValueError(
            "must be a table such as {window: 200000, ladder: faithful}, "
            f"not {checks.shown(value)}"
        )
    said = {key: _checked(key, each) for key, each in value.items()}
    try:
        CompactionSettings(**said)
    except ConfigurationError as error:
        raise ValueError(f"cannot be so: {error.message}") from error
    return CompactionKeys(said)


def _checked(key: Any, value: Any) -> Any:
    if key not in KEYS:
        raise ValueError(f"holds a slip: {checks.unknown_key(str(key), KEYS)}")
    try:
        return KEYS[key](value)
    except ValueError as error:
        raise ValueError(f"{key} {error}") from error


def _part(value: Any) -> float:
    """Take a part of the window."""
    if type(value) not in (int, float) or not 0 < value <= 1:
        raise ValueError(
            f"must be a part of the window, above 0 and up to 1, not {checks.shown(value)}"
        )
    return float(value)


def _ladder(value: Any) -> tuple[str, ...]:
    """Take a ladder by its name, or the strategies of one."""
    if isinstance(value, list):
        if not value:
            raise ValueError(f"must name a strategy at least: {', '.join(STRATEGIES)}")
        return tuple(checks.names(STRATEGIES)(value))
    if not isinstance(value, str) or value not in LADDERS:
        raise ValueError(
            f"must be {' or '.join(LADDERS)}, or a list out of {', '.join(STRATEGIES)}, "
            f"not {checks.shown(value)}"
        )
    return LADDERS[value]


KEYS: dict[str, checks.Check] = {
    "window": checks.whole(1, MOST_WINDOW),
    "compact_at": _part,
    "compact_to": _part,
    "keep_steps": checks.whole(0, MOST_KEPT_STEPS),
    "ladder": _ladder,
    "summary_model": checks.line,
}
