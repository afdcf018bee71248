"""Finding the files below a folder, in a fixed order and within hard bounds.

Owns the order, the bounds and what is never found. Refuses to know where the files are: it walks
any `Branch`, of a disk or in memory.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Protocol, Self

from treadle.sandbox import sandbox as seam
from treadle.sandbox.holding import Kind
from treadle.sandbox.ignoring import Rules
from treadle.sandbox.writing import is_temporary

# Each folder on the way down is held open; macOS gives a process 256 descriptors to begin with.
DEPTH_LIMIT = 64

# Folders and what is ignored take time without being found; this many entries take seconds.
ENTRIES_LIMIT = 1_000_000

# An ignore file larger than this was not written by hand, and each line costs for each file.
_IGNORE_FILE_LIMIT_BYTES = 256 * 1024

# A folder that nobody lets us list, or that went meanwhile, is no reason to find nothing else.
_PASSED_OVER = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class Branch(Protocol):
    """A folder to walk, held until its context ends.

    Contract: it may block; `OSError` says that something is missing or of another kind.
    """

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(self, *_: object) -> None:
        """Let go of it."""

    def entries(self) -> Iterable[tuple[str, Kind]]:
        """Find what lies in it, in any order."""

    def enter(self, name: str) -> Branch:
        """Hold a folder in it."""

    def kind(self, name: str) -> Kind:
        """Tell what an entry is."""

    def read(self, name: str, limit_bytes: int) -> bytes:
        """Return the whole of a file in it."""


def walk(
    root: Branch, parts: Sequence[str], *, ignored: bool, is_given_up: Callable[[], bool]
) -> seam.Walk:
    """Find the files at and below the entry that lies `parts` below `root`.

    Whoever names an ignored folder wants what lies in it: only the ignore files in it count then.

    Args:
        root: where the ignore files begin to count.
        parts: the way from it, resolved and judged by the caller.
        ignored: also find what ignore files leave out.
        is_given_up: asked at each entry.

    Raises:
        OSError: it is missing, neither a file nor a folder, or given up.
    """
    if any(_is_git(part) for part in parts):
        return seam.Walk([], is_whole=True)
    rules = None if ignored else Rules()
    with ExitStack() as held:
        branch = root
        for depth, part in enumerate(parts):
            if branch.kind(part) == "file" and depth == len(parts) - 1:
                return seam.Walk(["/".join(parts)], is_whole=True)
            if rules is not None:
                rules = _within(rules, branch, _prefix(parts[:depth]))
                if rules.leave_out("/".join(parts[: depth + 1]), is_folder=True):
                    rules = Rules()
            branch = held.enter_context(branch.enter(part))
        walker = _Walker(is_given_up)
        try:
            walker.find_in(branch, parts, rules)
        except _Full:
            walker.is_whole = False
    return seam.Walk(walker.files, walker.is_whole)


class _Full(Exception):
    """There are more files than a walk returns."""


class _Walker:
    """One walk: what it has found, and what is left of its bounds."""

    def __init__(self, is_given_up: Callable[[], bool]) -> None:
        self.files: list[str] = []
        self.is_whole = True
        self._is_given_up = is_given_up
        self._left_entries = ENTRIES_LIMIT

    def find_in(self, branch: Branch, parts: Sequence[str], rules: Rules | None) -> None:
        """Find the files below one folder.

        Raises:
            _Full: there are more than a walk returns.
            OSError: it cannot be listed, or the walk is given up.
        """
        prefix = _prefix(parts)
        listed = sorted(self._listed(branch))
        if rules is not None:
            rules = _within(rules, branch, prefix)
        for name in listed:
            self._check_wanted()
            is_folder = name.endswith("/")
            path = prefix + name.removesuffix("/")
            if rules is not None and rules.leave_out(path, is_folder=is_folder):
                continue
            if is_folder:
                self._enter(branch, [*parts, name[:-1]], rules)
            elif len(self.files) == seam.WALK_LIMIT_FILES:
                raise _Full
            else:
                self.files.append(path)

    def _enter(self, branch: Branch, parts: Sequence[str], rules: Rules | None) -> None:
        """Find the files below a folder in a folder; one that cannot be listed is passed over."""
        if len(parts) > DEPTH_LIMIT:
            self.is_whole = False
            return
        try:
            with branch.enter(parts[-1]) as below:
                self.find_in(below, parts, rules)
        except OSError as error:
            if error.errno not in _PASSED_OVER:
                raise

    def _listed(self, branch: Branch) -> Iterator[str]:
        """Return the files and folders of a folder, folders with the `/` that they sort by."""
        for name, kind in branch.entries():
            self._left_entries -= 1
            if self._left_entries < 0:
                self.is_whole = False
                return
            self._check_wanted()
            if kind == "folder" and not _is_git(name):
                yield name + "/"
            elif kind == "file" and not _is_git(name) and not is_temporary(name):
                yield name

    def _check_wanted(self) -> None:
        if self._is_given_up():
            raise OSError(errno.ECANCELED, "the walk was given up")


def _within(rules: Rules, branch: Branch, prefix: str) -> Rules:
    """Add the ignore files of a folder to those of the folders around it."""
    return rules.within(
        prefix,
        ignore=_ignore_file(branch, ".ignore"),
        gitignore=_ignore_file(branch, ".gitignore"),
        exclude=_exclude_file(branch),
        is_repository=_is_repository(branch),
    )


def _ignore_file(branch: Branch, name: str) -> bytes:
    """Return what an ignore file holds; one that is missing or cannot be read ignores nothing."""
    try:
        return branch.read(name, _IGNORE_FILE_LIMIT_BYTES)
    except OSError:
        return b""


def _exclude_file(branch: Branch) -> bytes:
    try:
        with branch.enter(".git") as git, git.enter("info") as info:
            return _ignore_file(info, "exclude")
    except OSError:
        return b""


def _is_repository(branch: Branch) -> bool:
    try:
        branch.kind(".git")
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _is_git(name: str) -> bool:
    """Whether a name is git's own, on disks too that do not tell cases apart."""
    return name.casefold() == ".git"


def _prefix(parts: Sequence[str]) -> str:
    return "".join(f"{part}/" for part in parts)
