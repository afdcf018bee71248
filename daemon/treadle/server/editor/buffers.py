"""The documents that are open in a client's editor, as the sandbox sees them.

Owns which of them the disk does not hold, and how a change is made in the editor. Light: without
an open document nothing of LSP's is loaded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.sandbox.overlay import NotApplied
from treadle.server.client_requests import ClientGone, ClientSaidNo
from treadle.server.editor.saving import as_bytes, as_text, holds, plain
from treadle.server.editor.tenant import Editor

if TYPE_CHECKING:
    from treadle.server.editor.documents import Document
    from treadle.server.editor.language_server import EditorServer

# An editor tells of its own change at once, most before they answer. One that does not within
# this has made another.
SHOWN_SECONDS = 2.0

# What is quoted of an editor's reason: a line.
_REASON_CHARACTERS = 200


class EditorBuffers:
    """One client's open documents; a `Buffers` of the sandbox's.

    Args:
        editor: the client's.
    """

    def __init__(self, editor: Editor) -> None:
        self._editor = editor

    async def files(self) -> Collection[Path]:
        """Return the files that are open; see the seam."""
        server = await self._editor.opened()
        return server.documents.files() if server else ()

    async def unsaved(self, file: Path, disk: bytes | None) -> bytes | None:
        """Return an open file's text where the disk is not right; see the seam."""
        document = await self._document(file)
        if document is None:
            return None
        text, revision, is_saved = document.source, document.revision, document.is_saved
        if disk is not None and await asyncio.to_thread(holds, disk, text):
            document.note_saved(revision)
            return None
        # Whoever opens a new file has not written one yet.
        is_untouched = disk is None and not text
        return None if is_saved or is_untouched else await asyncio.to_thread(as_bytes, text, disk)

    async def apply(self, file: Path, before: bytes, after: bytes) -> bool:
        """Change the text of an open file; see the seam for what is raised."""
        if not self._editor.can("workspace", "applyEdit"):
            raise NotApplied("this editor takes no changes from here")
        server, document = await self._editor.opened(), await self._document(file)
        wanted = as_text(after)
        if server is None or document is None or wanted is None:
            raise NotApplied("it is not open as text there any more")
        # Before anything else can change it: these lines are of this version.
        lines, version = tuple(document.lines), document.version
        shown = "".join(lines)
        if plain(shown) != plain(as_text(before) or ""):
            raise NotApplied("the editor shows another text than the file had")
        wanted = _with_ends_of(shown, wanted)
        await self._ask(server, document.uri, version, (lines, wanted))
        return await self._is_shown(file, plain(wanted))

    async def _ask(
        self, server: EditorServer, uri: str, version: int | None, texts: tuple[Sequence[str], str]
    ) -> None:
        """Ask the editor to make one text of another.

        Raises:
            NotApplied: it did not.
        """
        from treadle.server.editor.text_edits import edits_between, workspace_edit

        encoding = server.documents.position_encoding
        edits = await asyncio.to_thread(edits_between, *texts, encoding)
        is_versioned = self._editor.can("workspace", "workspaceEdit", "documentChanges")
        asked = workspace_edit(uri, version, edits, is_versioned=is_versioned)
        try:
            answer = await server.workspace_apply_edit_async(asked)
        except TimeoutError:
            # A versioned edit comes to nothing once the document has changed.
            raise NotApplied("the editor did not answer", may_follow=not is_versioned) from None
        except ClientSaidNo as error:
            raise NotApplied(_refused(error.error.message)) from None
        except ClientGone:
            raise NotApplied("the editor is gone") from None
        except ValueError:
            why = "the editor's answer could not be understood"
            raise NotApplied(why, may_follow=True) from None
        if not answer.applied:
            raise NotApplied(_refused(answer.failure_reason or ""))

    async def _is_shown(self, file: Path, text: str) -> bool:
        """Wait, within a bound, until the editor shows a text."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SHOWN_SECONDS):
                while not await self._shows(file, text):
                    await self._editor.next_told()
                return True
        return False

    async def _shows(self, file: Path, text: str) -> bool:
        document = await self._document(file)
        return document is not None and plain(document.source) == text

    async def _document(self, file: Path) -> Document | None:
        server = await self._editor.opened()
        return server.documents.files().get(file) if server else None


def _refused(reason: str) -> str:
    """Say why the editor did not want to."""
    said = " ".join(reason.split())[:_REASON_CHARACTERS].rstrip(".")
    return f"the editor refused the change ({said})" if said else "the editor refused the change"


def _with_ends_of(shown: str, wanted: str) -> str:
    """Give a text the line ends of another, where those are all alike."""
    lines = shown.count("\n")
    if lines and shown.count("\r\n") == lines:
        return wanted.replace("\r\n", "\n").replace("\n", "\r\n")
    return wanted.replace("\r\n", "\n") if lines and "\r" not in shown else wanted
