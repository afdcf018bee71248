"""`file:` URIs, as editors name folders.

Written here because the standard library's own reader comes with an HTTP client, which would
cost `initialize` a tenth of its time.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit


def folder_of(uri: str) -> Path | None:
    """Return the folder of a `file:` URI; None where it names none on this machine."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = unquote(parts.path)
    if os.name == "nt":
        # `/C:/x` names the drive C.
        path = path.lstrip("/")
    return Path(path) if path and "\0" not in path else None
