"""What ignore files leave out of a walk, as git has it.

Owns the order in which the files and their lines count. Refuses to read files: it gets their
bytes, and trusts none of them, for they come with any repository.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, lru_cache

# A pattern with several wildcards can be tried in very many ways on a long path, and nothing
# else runs meanwhile. This many take some 50 ms; a pattern that could take more is left out.
_WAYS_LIMIT = 1_000_000

# Longer paths than this are refused by every system.
_PATH_LIMIT_CHARACTERS = 1 << 16

# How many ignore files' rules are kept: those of one repository, for its next walk.
_KEPT_FILES = 256

# What Python's expressions warn of inside brackets, because it may come to mean something else.
_AMBIGUOUS = re.compile(r"\[[!^]?\]?[^\]]*(\[|--|&&|~~|\|\|)")


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file.

    Args:
        pattern: what it matches, folders on the way included.
        leaves_out: False where it begins with `!`.
        is_for_folders: it ends with `/`.
        is_for_names: it holds no other `/`, so that only the last part of a path counts.
        depth: how many `/` a path has that it matches; None where `**` matches any number.
        longest: what is longer is not tried.
    """

    pattern: re.Pattern[str]
    leaves_out: bool
    is_for_folders: bool
    is_for_names: bool
    depth: int | None
    longest: int


@dataclass(frozen=True, slots=True)
class _Level:
    """The ignore files of one folder, which `prefix` leads to."""

    prefix: str
    ignore: tuple[Rule, ...]
    gitignore: tuple[Rule, ...]
    exclude: tuple[Rule, ...]
    is_repository: bool


class Rules:
    """The ignore files of a folder and those around it, the nearest first.

    A nearer file has precedence over one further up, a later line over an earlier one, and
    `.ignore` over all `.gitignore`. Those of git end at the folder that holds `.git`.
    """

    def __init__(self, levels: tuple[_Level, ...] = ()) -> None:
        self._levels = levels

    def within(
        self, prefix: str, *, ignore: bytes, gitignore: bytes, exclude: bytes, is_repository: bool
    ) -> Rules:
        """Return these rules with those of a folder further down.

        Args:
            prefix: its path, which ends in `/`; empty for the root.
            ignore: its `.ignore`.
            gitignore: its `.gitignore`.
            exclude: its `.git/info/exclude`.
            is_repository: it holds `.git`.
        """
        if not (ignore or gitignore or exclude or is_repository):
            return self
        parsed = (_parsed(ignore), _parsed(gitignore), _parsed(exclude))
        return Rules((_Level(prefix, *parsed, is_repository), *self._levels))

    def leave_out(self, path: str, *, is_folder: bool) -> bool:
        """Whether a file or folder is ignored, the folders on the way there being not."""
        name = path.rpartition("/")[2]
        for level in self._levels:
            verdict = _verdict(level.ignore, path[len(level.prefix) :], name, is_folder)
            if verdict is not None:
                return verdict
        for level in self._levels:
            rest = path[len(level.prefix) :]
            for rules in (level.gitignore, level.exclude):
                verdict = _verdict(rules, rest, name, is_folder)
                if verdict is not None:
                    return verdict
            if level.is_repository:
                break
        return False


def _verdict(rules: tuple[Rule, ...], path: str, name: str, is_folder: bool) -> bool | None:
    """Return what the last rule says that speaks of this very path; None where none does.

    Each rule is asked for each file of a walk, so this is one plain loop.
    """
    depth = path.count("/")
    for rule in reversed(rules):
        if rule.is_for_folders and not is_folder:
            continue
        if not rule.is_for_names and rule.depth not in (None, depth):
            continue
        text = name if rule.is_for_names else path
        if len(text) > rule.longest:
            continue
        found = rule.pattern.search(text)
        # The one group that these expressions have marks the end of a folder on the way.
        if found is not None and found.lastgroup is None:
            return rule.leaves_out
    return None


@lru_cache(maxsize=_KEPT_FILES)
def _parsed(data: bytes) -> tuple[Rule, ...]:
    """Read an ignore file; lines that are no pattern are passed over, as git does."""
    lines = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").split("\n")
    return tuple(rule for line in lines if (rule := _rule(line.removesuffix("\r"))) is not None)


def _rule(line: str) -> Rule | None:
    """Read one line; None where it says nothing, or is no pattern."""
    # It takes a while to load, and most sessions never walk.
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    text = line if line.endswith("\\ ") else line.rstrip(" ")
    body = text.removesuffix("/")
    if body.endswith(" ") and not body.endswith("\\ "):
        body = f"{body[:-1]}\\ "
    if not text or text.startswith("#") or _AMBIGUOUS.search(text):
        return None
    try:
        pattern = GitIgnoreSpecPattern(body)
    except (ValueError, re.error):
        return None
    if pattern.include is None or pattern.regex is None:
        return None
    parts = body.removeprefix("!").removeprefix("/").split("/")
    return Rule(
        pattern.regex,
        leaves_out=pattern.include,
        is_for_folders=text.endswith("/"),
        is_for_names="/" not in body,
        depth=None if "**" in parts else len(parts) - 1,
        longest=_longest(len(re.findall(r"\*+", body))),
    )


@cache
def _longest(wildcards: int) -> int:
    """Return how long a text may be to be tried with so many runs of `*`."""
    lengths = range(_PATH_LIMIT_CHARACTERS)
    return bisect_right(lengths, _WAYS_LIMIT, key=lambda n: math.comb(n + wildcards, wildcards))
