"""`treadle model`: the embedded model's file on this machine, as a person manages it.

Owns what is printed. What a model is and how it is fetched is `models/embedded/`'s.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from treadle.errors import NoModel
from treadle.folders import find_folders
from treadle.models.embedded.fetch import part_path, pull
from treadle.models.embedded.files import (
    EMBEDDED_FILE,
    FILE_VARIABLE,
    HOW_TO_GET_RUNTIME,
    cached_path,
    model_path,
    own_path,
)

# Where no bar can be drawn, a line each tenth is news and no noise.
_STEPS = 10

app = typer.Typer(
    help="The embedded model: a small one on this machine, for when no endpoint is configured.",
    no_args_is_help=True,
)


@app.command("list")
def list_models() -> None:
    """Show the models there are, where they lie and whether they can run."""
    file, cache = EMBEDDED_FILE, find_folders().cache
    print(f"{file.name}: {file.size}, {file.licence}")
    print("  tiny and often wrong: it shows that everything works; set an endpoint for real use")
    own = own_path()
    if own is not None:
        print(f"  in its place: {own} (from {FILE_VARIABLE})")
    elif path := model_path(cache):
        print(f"  installed: {path}")
    else:
        print("  not installed: run `treadle model pull`")
    print(f"  from: {file.repository}")
    runtime = "installed" if _has_runtime() else f"not installed; {HOW_TO_GET_RUNTIME}"
    print(f"  runtime (xllamacpp): {runtime}")


@app.command("pull")
def pull_model() -> None:
    """Fetch the model file, or go on with a fetch that was interrupted."""
    file, cache = EMBEDDED_FILE, find_folders().cache
    own = own_path()
    if own is not None:
        print(f"{FILE_VARIABLE} is set: {own} is used, nothing is fetched")
        return
    print(f"{file.name}: {file.size}, {file.licence}, to {cached_path(cache)}", flush=True)
    with _progress() as progress:
        path = pull(cache, progress)
    print(f"ready: {path}")
    if not _has_runtime():
        print(f"its runtime is missing; {HOW_TO_GET_RUNTIME}")


@app.command("path")
def show_path() -> None:
    """Print the path of the model file."""
    path = model_path(find_folders().cache)
    if path is None:
        raise NoModel("the model is not installed", how="run `treadle model pull`")
    print(path)


@app.command("remove")
def remove_model(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete the fetched model file; one that you set yourself stays."""
    target = cached_path(find_folders().cache)
    found = [path for path in (target, part_path(target)) if path.is_file()]
    if not found:
        print(f"nothing to remove: there is no {target}")
        return
    size_mb = sum(path.stat().st_size for path in found) / 1_000_000
    if not yes:
        typer.confirm(f"Delete {target} ({size_mb:.0f} MB)?", abort=True)
    for path in found:
        _delete(path)
    print(f"removed {target}: {size_mb:.0f} MB are free again")


def _has_runtime() -> bool:
    """Tell without loading it: that takes a second and may fail."""
    return importlib.util.find_spec("xllamacpp") is not None


def _delete(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise NoModel(
            f"{path} cannot be deleted ({error})", how="end the programs that use it"
        ) from error


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Yield what draws the progress: a bar on a terminal, lines elsewhere."""
    if not sys.stdout.isatty():
        yield _Lines()
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    with Progress(BarColumn(), DownloadColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task("", total=EMBEDDED_FILE.size_bytes)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class _Lines:
    def __init__(self) -> None:
        self._told = 0

    def __call__(self, done: int, total: int) -> None:
        step = done * _STEPS // total
        if step > self._told:
            self._told = step
            print(f"  {step * 100 // _STEPS}% of {total / 1_000_000:.0f} MB", flush=True)
