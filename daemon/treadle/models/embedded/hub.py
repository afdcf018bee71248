"""The model's hub as a source: plain HTTPS into a file that can be continued.

Owns the request and the `.part` file. Refuses to judge the bytes: `fetch` does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.models.embedded.files import HUB_VARIABLE, ModelFile, SourceFailed, hub_url

if TYPE_CHECKING:
    import httpx2

# A hub that cannot be reached costs this much before the next source is tried.
CONNECT_SECONDS = 3.0

# Silence within a download; content networks pause for a few seconds at times.
SILENCE_SECONDS = 30.0

# A broken connection is taken up again this often, as long as it got further each time.
MAX_ATTEMPTS = 5


def download(file: ModelFile, part: Path, progress: Callable[[int, int], None]) -> None:
    """Fetch the file into `part`, going on behind what is there.

    Raises:
        SourceFailed: the hub is switched off, cannot be reached or has no such file.
        OSError: `part` cannot be written.
    """
    url = hub_url(file)
    if url is None:
        raise SourceFailed(f"the model hub is switched off by {HUB_VARIABLE}")
    import httpx2

    timeout = httpx2.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
    try:
        with httpx2.Client(timeout=timeout, follow_redirects=True) as client:
            _download(client, url, file, part, progress)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise SourceFailed(f"the model hub failed at {url} ({error!r})") from error


def size_of(part: Path) -> int:
    """Return how many bytes are there already."""
    try:
        return part.stat().st_size
    except OSError:
        return 0


def _download(
    client: httpx2.Client,
    url: str,
    file: ModelFile,
    part: Path,
    progress: Callable[[int, int], None],
) -> None:
    import httpx2

    for attempt in range(1, MAX_ATTEMPTS + 1):
        before = size_of(part)
        if before >= file.size_bytes:
            return
        try:
            _continue(client, url, file, part, progress)
        except httpx2.TransportError:
            if attempt == MAX_ATTEMPTS or size_of(part) <= before:
                raise
    if size_of(part) < file.size_bytes:
        raise SourceFailed(f"the model hub ends its file too early, at {url}")


def _continue(
    client: httpx2.Client,
    url: str,
    file: ModelFile,
    part: Path,
    progress: Callable[[int, int], None],
) -> None:
    have = size_of(part)
    # Compressed bytes could not be continued, and a model file does not get smaller.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == 416:
            part.unlink(missing_ok=True)  # the hub has less than this: start again
            return
        if response.status_code not in (200, 206):
            raise SourceFailed(f"the model hub answered {response.status_code} at {url}")
        goes_on = response.status_code == 206 and _begins_at(response, have)
        done = have if goes_on else 0
        with part.open("ab" if goes_on else "wb") as out:
            for piece in response.iter_bytes():
                out.write(piece)
                done += len(piece)
                if done > file.size_bytes:
                    break  # more than was pinned: the hash will say so
                progress(done, file.size_bytes)


def _begins_at(response: httpx2.Response, offset: int) -> bool:
    return response.headers.get("content-range", "").startswith(f"bytes {offset}-")
