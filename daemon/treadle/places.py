"""Where the platform keeps a person's data, and who says otherwise: the ground under `folders`.

Owns the names of the variables, and the everyday answer by the standard library's lightest parts:
asking `platformdirs` costs more than all else that finding a running daemon does.
Whatever is not the everyday case is asked of it.
"""

from __future__ import annotations

import os
import sys

DATA_VARIABLE = "TREADLE_DATA_DIR"
CONFIG_VARIABLE = "TREADLE_CONFIG_DIR"
CACHE_VARIABLE = "TREADLE_CACHE_DIR"
LOG_VARIABLE = "TREADLE_LOG_DIR"

# By the kind of folder: what says where it lies, by the XDG Base Directory Specification 0.8.
_XDG = {
    "data": ("XDG_DATA_HOME", ".local/share", ""),
    "config": ("XDG_CONFIG_HOME", ".config", ""),
    "cache": ("XDG_CACHE_HOME", ".cache", ""),
    "log": ("XDG_STATE_HOME", ".local/state", "/log"),
}


def data_folder(given: str | None = None) -> str:
    """Return the data folder's path: what a flag says, else the environment, else the platform's.

    Args:
        given: the value of `--data-dir`.

    Raises:
        ValueError: what was given leads nowhere.
    """
    return chosen(given, DATA_VARIABLE) or platform_folder("data")


def config_folder(given: str | None = None) -> str:
    """Return the configuration folder's path, in the same way."""
    return chosen(given, CONFIG_VARIABLE) or platform_folder("config")


def chosen(given: str | None, variable: str) -> str | None:
    """Return the absolute path that a flag names, else a variable; None where neither does.

    Raises:
        ValueError: it leads nowhere, such as to the home of nobody.
    """
    said = given or os.environ.get(variable)
    if not said:
        return None
    path = os.path.expanduser(said)
    try:
        if path.startswith("~"):
            raise OSError("there is no such home")
        # Not resolved: a link is followed when it is used, and may lead elsewhere by then.
        return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    except OSError as error:
        named = "the folder given" if given else variable
        raise ValueError(
            f"{named}, {said!r}, leads nowhere ({error}); write an absolute path"
        ) from error


def platform_folder(kind: str) -> str:
    """Return the platform's own folder for Treadle.

    Args:
        kind: `data`, `config`, `cache` or `log`.
    """
    if sys.platform == "linux":
        variable, below_home, tail = _XDG[kind]
        root = os.environ.get(variable, "")
        home = os.environ.get("HOME", "")
        if _is_plain(root):
            return f"{root}/treadle{tail}"
        if not root and _is_plain(home):
            return f"{home}/{below_home}/treadle{tail}"
    import platformdirs

    dirs = platformdirs.PlatformDirs("treadle", appauthor=False)
    return str(getattr(dirs, f"user_{kind}_dir"))


def _is_plain(path: str) -> bool:
    """Whether nobody would read this path in any other way than as it stands."""
    return (
        path.startswith("/")
        and path == path.strip()
        and os.path.normpath(path) == path
        and path != "/"
    )
