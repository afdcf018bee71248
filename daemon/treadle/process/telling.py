"""How trees are told of in lines: to the reaper, and in a file for the next start.

`+PID BEGAN MARK` tells of one, or of one whose leader is known by now, and `-MARK` that it has
ended. A line is short enough to be written whole or not at all to any pipe (POSIX, PIPE_BUF: 512
bytes). What is no such line was torn by a death, or is no line of ours, and says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from treadle.process.tree import Tree, own_mark

# A mark is a uuid in hexadecimal digits.
_MARK_CHARACTERS = 32
_HEXADECIMAL = frozenset("0123456789abcdef")

# No pid and no count of ticks has more digits than a number of 64 bits.
_MOST_DIGITS = 20


def begun(tree: Tree) -> str:
    """Return the line that tells of a tree."""
    return f"+{tree.pid} {tree.began} {own_mark(tree.mark)}\n"


def ended(tree: Tree) -> str:
    """Return the line that tells of its end."""
    return f"-{own_mark(tree.mark)}\n"


def standing(lines: Iterable[bytes]) -> list[Tree]:
    """Return the trees that lines tell of and whose end they do not tell."""
    trees: dict[str, Tree] = {}
    for line in lines:
        kind, words = line[:1], line[1:].decode("ascii", "replace").split()
        if kind == b"+" and len(words) == 3 and _is_number(words[0]) and _is_number(words[1]):
            if _is_mark(words[2]):
                trees[words[2]] = Tree(int(words[0]), words[2], int(words[1]))
        elif kind == b"-" and len(words) == 1:
            trees.pop(words[0], None)
    return list(trees.values())


def _is_number(word: str) -> bool:
    return len(word) <= _MOST_DIGITS and word.isascii() and word.isdigit()


def _is_mark(word: str) -> bool:
    return len(word) == _MARK_CHARACTERS and _HEXADECIMAL.issuperset(word)
