"""Where a person's configuration, data, cache and logs lie on this machine; the one that asks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from treadle.errors import ConfigurationError

DATA_VARIABLE = "TREADLE_DATA_DIR"
CONFIG_VARIABLE = "TREADLE_CONFIG_DIR"
CACHE_VARIABLE = "TREADLE_CACHE_DIR"
LOG_VARIABLE = "TREADLE_LOG_DIR"


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
    import platformdirs

    dirs = platformdirs.PlatformDirs("treadle", appauthor=False)
    return Folders(
        data=_first(data_dir, DATA_VARIABLE, dirs.user_data_path),
        config=_first(config_dir, CONFIG_VARIABLE, dirs.user_config_path),
        cache=_first(None, CACHE_VARIABLE, dirs.user_cache_path),
        logs=_first(None, LOG_VARIABLE, dirs.user_log_path),
    )


def _first(flag: str | None, variable: str, platform: Path) -> Path:
    chosen = flag or os.environ.get(variable)
    if not chosen:
        return platform
    try:
        return Path(chosen).expanduser().absolute()
    except (RuntimeError, OSError) as error:
        # A home that nobody has, or a relative path while the current folder is gone.
        given = "the folder given" if flag else variable
        raise ConfigurationError(
            f"{given}, {chosen!r}, leads nowhere ({error}); write an absolute path"
        ) from error
