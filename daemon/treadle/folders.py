"""Where a person's configuration, data, cache and logs lie on this machine; the one that asks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treadle.errors import ConfigurationError
from treadle.places import (
    CACHE_VARIABLE,
    CONFIG_VARIABLE,
    DATA_VARIABLE,
    LOG_VARIABLE,
    chosen,
    platform_folder,
)

__all__ = [
    "CACHE_VARIABLE",
    "CONFIG_VARIABLE",
    "DATA_VARIABLE",
    "LOG_VARIABLE",
    "Folders",
    "find_folders",
]


@dataclass(frozen=True, slots=True)
class Folders:
    """Absolute paths; none of them need exist."""

    data: Path
    config: Path
    cache: Path
    logs: Path


def find_folders(data_dir: str | None = None, config_dir: str | None = None) -> Folders:
    """Return the folders: what a flag says, else the environment, else the platform's own.

    Args:
        data_dir: the value of `--data-dir`.
        config_dir: the value of `--config-dir`.

    Raises:
        ConfigurationError: what was given leads nowhere, such as the home of nobody.
    """
    return Folders(
        data=_first(data_dir, DATA_VARIABLE, "data"),
        config=_first(config_dir, CONFIG_VARIABLE, "config"),
        cache=_first(None, CACHE_VARIABLE, "cache"),
        logs=_first(None, LOG_VARIABLE, "log"),
    )


def _first(flag: str | None, variable: str, kind: str) -> Path:
    try:
        return Path(chosen(flag, variable) or platform_folder(kind))
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
