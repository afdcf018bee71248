"""An editor out of its mind: any mixture of frames that are all allowed, and what may come of them.

Owns what is said and what the editor itself has open after it. Refuses to know who listens.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from support.documents import changing, opening
from support.person import pair

# A large document, among many small ones.
LARGE_CHARACTERS = 1 << 20

# In the place of an error's code.
OK = 0

# What a position counts where nothing else was agreed on.
UNITS = "utf-16-le"


@dataclass
class Frame:
    """One message, and what may come of it."""

    message: dict[str, Any]
    codes: set[int] = field(default_factory=set)  # empty where no reply is due

    @property
    def request_id(self) -> Any:
        """The id that it asks under."""
        return self.message["id"]


class NoisyEditor:
    """It speaks the protocol, and says everything; all of it follows from a seed.

    Attributes:
        texts: the documents it has open, by their URIs.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._last_id = 0
        self._asked: list[Frame] = []
        self.texts: dict[str, str] = {}
        self._versions: dict[str, int] = {}
        self._kinds: list[tuple[Callable[[], Frame], int]] = [
            (self._good_request, 24),
            (self._refused_request, 16),
            (self._odd_id, 4),
            (self._notification, 14),
            (self._answer_to_nobody, 6),
            (self._cancel, 8),
            (self._open, 5),
            (self._change, 28),
            (self._replace, 3),
            (self._close, 2),
        ]

    def frames(self, count: int) -> Iterator[Frame]:
        """Say so many things."""
        kinds, weights = zip(*self._kinds, strict=True)
        for kind in self._random.choices(kinds, weights, k=count):
            frame = kind()
            if frame.codes:
                self._asked.append(frame)
            yield frame

    def closing(self) -> list[Frame]:
        """Close every document."""
        return [self._closed(uri) for uri in tuple(self.texts)]

    def opened(self, uri: str, text: str) -> Frame:
        """Open a document."""
        self.texts[uri] = text
        self._versions[uri] = 1
        return Frame(_notify("textDocument/didOpen", opening(uri, text)))

    def changed(self, uri: str, changes: list[dict[str, Any]]) -> Frame:
        """Change a document."""
        self._versions[uri] += 1
        params = changing(uri, self._versions[uri], *changes)
        return Frame(_notify("textDocument/didChange", params))

    def _request(self, codes: set[int], method: str, params: object = None) -> Frame:
        message = {"jsonrpc": "2.0", "id": self._new_id(), "method": method}
        return Frame(message if params is None else {**message, "params": params}, codes)

    def _new_id(self) -> int | str:
        self._last_id += 1
        number = self._last_id
        # The text "7" and the number 7 are two ids.
        odd = (number, str(number), -number, (1 << 70) + number, f"é😀\n{number}", f'"{number}')
        return self._random.choice(odd)

    def _pair(self, **members: object) -> dict[str, Any]:
        return pair(self._random.choice(("a", "b", "c", "../d 😀")), **members)

    def _good_request(self) -> Frame:
        either = {OK, -32803}
        if self._random.random() < 0.01:
            return self._request({OK}, "session/prompt", self._pair(prompt="What is new?"))
        return self._random.choice(
            [
                lambda: self._request({OK}, "agent/list"),
                lambda: self._request({OK}, "session/list", None),
                lambda: self._request({OK}, "session/list", {"limit": 2, "_meta": {"jsonrpc": 1}}),
                lambda: self._request({OK}, "session/cancel", self._pair()),
                # Refused where the session is still being opened.
                lambda: self._request(either, "session/close", self._pair(unknown=[{}])),
                lambda: self._request({OK}, "session/resume", self._pair()),
                lambda: self._request(either, "session/read", self._pair(limit=1)),
                lambda: self._command({OK}, "treadle.session.list"),
                lambda: self._command({OK}, "treadle.session.cancel", "assistant", "a"),
                lambda: self._command(either, "treadle.session.read", self._pair(limit=1)),
            ]
        )()

    def _command(self, codes: set[int], command: str, *arguments: object) -> Frame:
        params = {"command": command, "arguments": arguments}
        return self._request(codes, "workspace/executeCommand", params)

    def _refused_request(self) -> Frame:
        invalid = {-32602}
        return self._random.choice(
            [
                lambda: self._request({-32601}, "session/promt", self._pair()),
                lambda: self._request({-32601}, "textDocument/hover", {"position": {}}),
                lambda: self._request({-32601}, "$/unknown"),
                lambda: self._request({-32601}, "", {}),
                lambda: self._request({-32600}, "initialize", {"capabilities": {}}),
                lambda: self._request(invalid, "session/read", [1]),
                lambda: self._request(invalid, "session/read", {"agent": "assistant"}),
                lambda: self._request(invalid, "session/prompt", self._pair(prompt=7)),
                lambda: self._request(invalid, "session/prompt", self._pair(prompt=" ")),
                lambda: self._request(invalid, "session/close", {"agent": "a\0", "instance": "b"}),
                lambda: self._request(invalid, "session/list", {"cursor": "no"}),
                lambda: self._request({-32803}, "session/resume", pair("a", "nobody")),
                lambda: self._command(invalid, "treadle.session.promt"),
                lambda: self._command(invalid, "treadle.session.close", {"agent": 1}),
            ]
        )()

    def _odd_id(self) -> Frame:
        """Ask under an id that nobody can answer to: the reply's id is null."""
        odd = self._random.choice([None, True, 1.5, [], {}])
        return Frame({"jsonrpc": "2.0", "id": odd, "method": "session/list"}, {-32600})

    def _notification(self) -> Frame:
        return Frame(
            self._random.choice(
                [
                    lambda: _notify("initialized", {}),
                    lambda: _notify("$/unknown", [1, 2]),
                    lambda: _notify("nobody/knows"),
                    lambda: _notify("session/list"),
                    lambda: _notify("session/cancel", self._pair()),
                    lambda: _notify("session/close", self._pair()),
                    lambda: _notify("session/cancel", {"agent": 7}),
                    lambda: _notify("workspace/didChangeConfiguration", {"settings": {"a": 1}}),
                    lambda: _notify("workspace/didChangeConfiguration", {"settings": None}),
                    lambda: _notify("workspace/didChangeWatchedFiles", {"changes": []}),
                    lambda: _notify("textDocument/didSave", {"textDocument": {"uri": "a:b"}}),
                    lambda: _notify("textDocument/didOpen", {"textDocument": None}),
                    lambda: _notify("textDocument/didClose", {"textDocument": {"uri": "a:b"}}),
                    lambda: _notify("notebookDocument/didClose", {"notebookDocument": 7}),
                    lambda: _notify("$/setTrace", {"value": "off"}),
                ]
            )()
        )

    def _answer_to_nobody(self) -> Frame:
        answer = self._random.choice([{"result": None}, {"error": {"code": 1, "message": "no"}}])
        answered = self._random.choice([None, "x", 1 << 80, 99_999])
        return Frame({"jsonrpc": "2.0", "id": answered, **answer})

    def _cancel(self) -> Frame:
        """Cancel a request that may be in flight, or nothing at all."""
        if self._random.random() < 0.2:
            token = self._random.choice([1, "no such token"])
            return Frame(_notify("window/workDoneProgress/cancel", {"token": token}))
        asked = [frame for frame in self._asked[-3:] if frame.codes != {-32600}]
        if not asked:
            return Frame(_notify("$/cancelRequest", {"id": "nobody's"}))
        frame = self._random.choice(asked)
        frame.codes.add(-32800)
        return Frame(_notify("$/cancelRequest", {"id": frame.request_id}))

    def _open(self) -> Frame:
        uri = f"file:///{self._random.choice('abcdefgh')}%20é.md"
        if uri in self.texts:
            return self._replace()
        text = self._some_text(self._size())
        return self.opened(uri, text)

    def _change(self) -> Frame:
        """Change some places of a document, one after the other."""
        if not self.texts:
            return self._open()
        uri = self._random.choice(list(self.texts))
        return self.changed(
            uri, [self._edit(uri) for _ in range(self._random.choice((1, 1, 1, 4)))]
        )

    def _replace(self) -> Frame:
        """Send the whole of a document."""
        if not self.texts:
            return self._open()
        uri = self._random.choice(list(self.texts))
        self.texts[uri] = self._some_text(self._size())
        return self.changed(uri, [{"text": self.texts[uri]}])

    def _close(self) -> Frame:
        if not self.texts:
            return self._open()
        return self._closed(self._random.choice(list(self.texts)))

    def _closed(self, uri: str) -> Frame:
        del self.texts[uri]
        return Frame(_notify("textDocument/didClose", {"textDocument": {"uri": uri}}))

    def _edit(self, uri: str) -> dict[str, Any]:
        text = self.texts[uri]
        start = self._random.randint(0, len(text))
        end = min(len(text), start + self._random.choice((0, 0, 1, 10, 300)))
        new = self._some_text(self._random.choice((0, 1, 5, 100)))
        self.texts[uri] = text[:start] + new + text[end:]
        return {
            "range": {"start": _position(text, start), "end": _position(text, end)},
            "text": new,
        }

    def _size(self) -> int:
        """Return how large a document is: one in sixteen is large."""
        sizes = (0, 10, 100, 1000, LARGE_CHARACTERS)
        return self._random.choices(sizes, (3, 3, 4, 5, 1))[0]

    def _some_text(self, characters: int) -> str:
        """Return a text of lines, some of them long, with characters of every width."""
        piece = "".join(self._random.choices("ab é😀\u2028\n", (9, 9, 9, 3, 3, 1, 2), k=500))
        times = characters // len(piece) + 1
        return (piece * times)[:characters]


def _notify(method: str, params: object = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def _position(text: str, offset: int) -> dict[str, int]:
    start = text.rfind("\n", 0, offset) + 1
    units = len(text[start:offset].encode(UNITS)) // 2
    return {"line": text.count("\n", 0, offset), "character": units}
