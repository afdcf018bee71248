"""What changes one text into another, as LSP says it: whole lines, as few of them as can be.

Pure. Refuses to know documents and who makes the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from lsprotocol import types

from treadle.server.editor.documents import split

# Comparing takes time with the square of this; what differs over more lines is one edit.
_COMPARED_LINES = 2000

# What the person's editor calls the change, in its list of what can be undone.
_LABEL = "Treadle"

Span: TypeAlias = tuple[int, int, int, int]
"""From and to which line of the old text, from and to which line of the new one."""


def edits_between(old: Sequence[str], new: str, encoding: str | None) -> list[types.TextEdit]:
    """Return the edits that make one text of another; it may take a second.

    Args:
        old: the lines of the text that is there, with their ends.
        new: the text that is wanted.
        encoding: in which units the editor counts the characters of a line.
    """
    lines = split(new)
    return [
        types.TextEdit(
            range=types.Range(start=_place(old, start, encoding), end=_place(old, end, encoding)),
            new_text="".join(lines[new_start:new_end]),
        )
        for start, end, new_start, new_end in _spans(old, lines)
    ]


def workspace_edit(
    uri: str, version: int | None, edits: list[types.TextEdit], *, is_versioned: bool
) -> types.ApplyWorkspaceEditParams:
    """Return what an editor is asked, to change one document.

    Args:
        uri: the document, as the editor spells it.
        version: the editor's number of what the edits are made for.
        edits: the edits.
        is_versioned: the editor knows edits that say their version, and refuses old ones.
    """
    edit = types.WorkspaceEdit(changes={uri: edits})
    if is_versioned:
        document = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version)
        edit = types.WorkspaceEdit(
            document_changes=[types.TextDocumentEdit(text_document=document, edits=list(edits))]
        )
    return types.ApplyWorkspaceEditParams(edit=edit, label=_LABEL)


def _spans(old: Sequence[str], new: Sequence[str]) -> Iterator[Span]:
    """Yield what differs."""
    first = _alike(old, new)
    most = min(len(old), len(new)) - first
    last = min(_alike(old[::-1], new[::-1]), most)
    between, instead = old[first : len(old) - last], new[first : len(new) - last]
    if not between and not instead:
        return
    if max(len(between), len(instead)) > _COMPARED_LINES:
        yield first, first + len(between), first, first + len(instead)
        return
    from difflib import SequenceMatcher

    # Lines that occur often are lines like others: an edit should not reach over them.
    for tag, *span in SequenceMatcher(None, between, instead, autojunk=False).get_opcodes():
        if tag != "equal":
            start, end, new_start, new_end = (first + each for each in span)
            yield start, end, new_start, new_end


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines two texts have in common at the beginning."""
    pairs = zip(old, new, strict=False)
    most = min(len(old), len(new))
    return next((index for index, (a, b) in enumerate(pairs) if a != b), most)


def _place(lines: Sequence[str], line: int, encoding: str | None) -> types.Position:
    """Return where a line begins; behind the last one, where the text ends."""
    if line < len(lines) or not lines or lines[-1].endswith(("\r", "\n")):
        return types.Position(line=line, character=0)
    return types.Position(line=line - 1, character=_units(lines[-1], encoding))


def _units(text: str, encoding: str | None) -> int:
    """Return the length of a text in the units of an editor."""
    if encoding == types.PositionEncodingKind.Utf32:
        return len(text)
    if encoding == types.PositionEncodingKind.Utf8:
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
