"""How much memory this process takes."""

from __future__ import annotations

import sys
from pathlib import Path


def resident_bytes() -> int:
    """Return what is resident of this process now; where only a peak can be had, that."""
    if sys.platform == "linux":
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    if sys.platform == "win32":
        return 0  # nothing of the standard library tells
    import resource

    # BSD's unit is the kibibyte, Apple's the byte (getrusage(2) of each).
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
