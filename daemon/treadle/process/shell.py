"""How this platform's shell is called, and the environment that its commands get.

Owns the list of variables that a command may see. Refuses to know what runs, and in which folder.
"""

from __future__ import annotations

import os
import shutil
import sys

from treadle.secrets import known

# What programs need to find their way, and nothing that authorises anybody: no keys, no sockets
# of agents, nothing of ours.
_ALLOWED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}
)
# Without these Windows starts few programs.
_ALLOWED_ON_WINDOWS = frozenset(
    {
        *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP"),
        *("USERNAME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA"),
        *("PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)"),
    }
)
# The language's own family of variables: LC_ALL, LC_CTYPE and so on.
_ALLOWED_PREFIX = "LC_"

# Nobody sits at a terminal: nothing may page, colour, open an editor or ask for a password.
_SET = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    # What it prints to both streams then comes in the order in which it was printed.
    "PYTHONUNBUFFERED": "1",
}

# Where POSIX systems look when nobody says where.
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

# The kernel takes no longer argument (Linux: 128 KiB); a longer script belongs in a file.
MOST_COMMAND_BYTES = 100_000


def shell_argv(command: str) -> list[str]:
    """Return the program that runs a command, and its arguments; no profile is read.

    Contract: looks at the disk for a moment.
    """
    if sys.platform == "win32":
        return _windows_argv(command)
    bash = shutil.which("bash", path=DEFAULT_PATH) or shutil.which("bash")
    return [bash or "/bin/sh", "-c", command]


def shell_environment() -> dict[str, str]:
    """Return the whole environment of a command: the little it inherits, and our own settings."""
    return {**inherited_environment(), **_SET}


def inherited_environment() -> dict[str, str]:
    """Return what any program of ours gets of our environment: an allow-list.

    A variable that holds one of the known secrets is left out, whatever its name.
    """
    secrets = known()
    seen = {
        name: value
        for name, value in os.environ.items()
        if _is_allowed(name) and secrets.redact(value) == value
    }
    if sys.platform != "win32":
        seen.setdefault("PATH", DEFAULT_PATH)
    return seen


def _is_allowed(name: str) -> bool:
    if sys.platform == "win32":
        name = name.upper()
        return name in _ALLOWED or name in _ALLOWED_ON_WINDOWS or name.startswith(_ALLOWED_PREFIX)
    return name in _ALLOWED or name.startswith(_ALLOWED_PREFIX)


def _windows_argv(command: str) -> list[str]:
    powershell = shutil.which("pwsh") or shutil.which("powershell")
    if powershell is None:
        return [os.environ.get("COMSPEC", "cmd.exe"), "/d", "/c", command]
    import base64

    # Encoded, because quotes inside an argument do not survive Windows' command line.
    script = f"[Console]::OutputEncoding = [Text.Encoding]::UTF8; {command}"
    encoded = base64.b64encode(script.encode("utf-16-le")).decode()
    return [powershell, "-NoLogo", "-NoProfile", "-NonInteractive", "-EncodedCommand", encoded]
