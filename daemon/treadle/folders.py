"""Where a person's configuration, data and cache lie on this machine; the one place that asks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

DATA_VARIABLE = "TREADLE_DATA_DIR"
CONFIG_VARIABLE = "TREADLE_CONFIG_DIR"
CACHE_VARIABLE = "TREADLE_CACHE_DIR"


@dataclass(frozen=True, slots=True)
class Folders:
    """Absolute paths; none of them need exist."""

    data: Path
    config: Path
    cache: Path


def find_folders(data_dir: str | None = None, config_dir: str | None = None) -> Folders:
    """Return the folders: what a flag says, else the environment, else the platform's own.

    Args:
        data_dir: the value of `--data-dir`.
        config_dir: the value of `--config-dir`.
    """
    import platformdirs

    dirs = platformdirs.PlatformDirs("treadle", appauthor=False)
    return Folders(
        data=_first(data_dir, DATA_VARIABLE, dirs.user_data_path),
        config=_first(config_dir, CONFIG_VARIABLE, dirs.user_config_path),
        cache=_first(None, CACHE_VARIABLE, dirs.user_cache_path),
    )


def _first(flag: str | None, variable: str, platform: Path) -> Path:
    chosen = flag or os.environ.get(variable)
    return Path(chosen).expanduser().absolute() if chosen else platform
