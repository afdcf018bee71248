"""Server-sent events: bytes in, the data of whole events out.

Owns lines, their ends and events that span several of them. Refuses to know what data means.
Its work is linear in the bytes it is fed, however they are cut.
"""

from __future__ import annotations


class EventReader:
    """Collects bytes until events are whole.

    Only data matters to this protocol: names, ids, retry times and comments are skipped
    (https://html.spec.whatwg.org/multipage/server-sent-events.html, "Interpreting").
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []  # pieces of a line whose end has not come
        self._data: list[bytes] = []  # data lines of the event under way
        self._after_cr = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Take the next bytes; return the data of every event that they complete."""
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
        if not piece:
            return []
        self._after_cr = piece.endswith(b"\r")
        lines = piece.splitlines()
        rest = b"" if piece.endswith((b"\n", b"\r")) else lines.pop()
        if lines:
            lines[0] = b"".join((*self._line, lines[0]))
            self._line.clear()
        if rest:
            self._line.append(rest)
        return self._events(lines)

    def finish(self) -> list[bytes]:
        """Return the event at the end of a stream that did not close it with a blank line."""
        return self._events([b"".join(self._line), b""])

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:])
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
        return events
