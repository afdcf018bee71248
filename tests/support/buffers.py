"""An editor with documents that are typed in and changed by the daemon, as real ones do it.

Owns what its documents show. Written against LSP's words alone: positions are counted here by
the plain rule.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from support.daemon import Daemon, daemon, serving_after
from support.documents import changing, opening
from support.model_server import Answer, ModelServer, Request
from support.person import conversation, on, pair, write_agent

# What a result says where the editor was changed.
UNSAVED = (
    "The change is in the editor, unsaved: the file on the disk, which commands see, is as before "
    "until the person saves it."
)

# What an editor says that takes edits, and knows versions.
VERSIONED = {"workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}}}
UNVERSIONED = {"workspace": {"applyEdit": True}}


class FakeEditor:
    """Documents of one client, by URI.

    Attributes:
        shown: what each shows.
        versions: the number of each document's last change.
        refuses: what `workspace/applyEdit` is answered with instead of being done.
        before_it_applies: called before an edit is looked at.
        shows_instead: what a document shows after an edit instead of the text that was meant.
    """

    def __init__(self, client: Daemon) -> None:
        self.client = client
        self.shown: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.refuses: Any = None
        self.before_it_applies: Callable[[], None] = lambda: None
        self.shows_instead: str | None = None
        client.answers["workspace/applyEdit"] = self._apply

    def open(self, file: Path, text: str | None = None) -> str:
        """Open a file, as it is on the disk or with another text; return its URI."""
        uri = file.as_uri()
        self.shown[uri] = file.read_bytes().decode() if text is None else text
        self.versions[uri] = 1
        self.client.notify("textDocument/didOpen", opening(uri, self.shown[uri]))
        return uri

    def type(self, uri: str, text: str) -> None:
        """Make a document's text another one."""
        self.shown[uri] = text
        self.versions[uri] += 1
        self.client.notify(
            "textDocument/didChange", changing(uri, self.versions[uri], {"text": text})
        )

    def save(self, uri: str, file: Path, encoding: str = "utf-8") -> None:
        """Write a document to its file."""
        file.write_bytes(self.shown[uri].encode(encoding))
        self.client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    def _apply(self, params: Any) -> Any:
        self.before_it_applies()
        if self.refuses is not None:
            return self.refuses
        edit = params["edit"]
        for change in edit.get("documentChanges", []):
            document = change["textDocument"]
            if document["version"] != self.versions[document["uri"]]:
                return {"applied": False, "failureReason": "the document has changed"}
            self._edit(document["uri"], change["edits"])
        for uri, edits in edit.get("changes", {}).items():
            self._edit(uri, edits)
        return {"applied": True}

    def _edit(self, uri: str, edits: list[dict[str, Any]]) -> None:
        text = applied(self.shown[uri], edits)
        self.type(uri, text if self.shows_instead is None else self.shows_instead)


def applied(text: str, edits: list[dict[str, Any]], encoding: str = "utf-16-le") -> str:
    """Return a text after edits, all of which mean the text as it was.

    Raises:
        AssertionError: they overlap.
    """
    spans = sorted(
        (
            _offset(text, edit["range"]["start"], encoding),
            _offset(text, edit["range"]["end"], encoding),
            edit["newText"],
        )
        for edit in edits
    )
    pieces, done = [], 0
    for start, end, new in spans:
        assert done <= start <= end, "the edits overlap"
        pieces += [text[done:start], new]
        done = end
    return "".join([*pieces, text[done:]])


def _offset(text: str, position: dict[str, int], encoding: str) -> int:
    """Return how many characters are before a position."""
    starts = [0, *_line_starts(text)]
    line = text[starts[position["line"]] :]
    width = {"utf-8": 1, "utf-16-le": 2, "utf-32-le": 4}[encoding]
    units = line.encode(encoding)[: position["character"] * width]
    return starts[position["line"]] + len(units.decode(encoding))


def _line_starts(text: str) -> Iterator[int]:
    for at, character in enumerate(text):
        if character == "\n" or (character == "\r" and text[at + 1 : at + 2] != "\n"):
            yield at + 1


class Script:
    """A model that makes calls, one at each step of a turn."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, request: Request) -> Answer:
        """Answer a request with the next call, or be done."""
        return Answer(calls=[self.calls.pop(0)]) if self.calls else Answer("Done.")

    async def run(
        self, client: Daemon, *calls: tuple[str, dict[str, Any]], agent: str = "coder"
    ) -> list[str]:
        """Have a turn that makes these calls; return what the model read of each."""
        self.calls = list(calls)
        before = len(client.of("session/toolResult"))
        await client.request("session/prompt", pair("e", agent, prompt="Go on."))
        return [told["content"] for told in client.of("session/toolResult")[before:]]


class Bench:
    """A folder, an editor, and an agent that changes files without asking."""

    def __init__(self, root: Path, editor: FakeEditor, script: Script) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.editor = editor
        self._script = script

    async def run(self, *calls: tuple[str, dict[str, Any]]) -> list[str]:
        return await self._script.run(self.editor.client, *calls)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir())

    def file(self, name: str, data: bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path


@contextlib.asynccontextmanager
async def bench(root: Path, capabilities: dict[str, Any] = VERSIONED) -> AsyncIterator[Bench]:
    write_agent("coder", permissions="auto", sandbox="local", cwd=root)
    script = Script()
    async with conversation(script, capabilities=capabilities) as (client, _):
        yield Bench(root, FakeEditor(client), script)


@contextlib.asynccontextmanager
async def hasty_bench(
    root: Path, patience: str, capabilities: dict[str, Any] = VERSIONED
) -> AsyncIterator[Bench]:
    """The same, with a daemon that waits less for its editor: a module's constant, such as
    `buffers.SHOWN_SECONDS`.
    """
    write_agent("coder", permissions="auto", sandbox="local", cwd=root)
    script = Script()
    module, _, name = patience.partition(".")
    line = f"from treadle.server.editor import {module}; {module}.{name} = 0.05"
    program = serving_after(root.parent, line)
    async with (
        ModelServer(script) as server,
        daemon(env=on(server), initialize=False, program=program) as client,
    ):
        await client.initialize(capabilities=capabilities)
        yield Bench(root, FakeEditor(client), script)


def read(path: str) -> tuple[str, dict[str, Any]]:
    return "read", {"path": path}


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit", {"path": path, "edits": [{"old": old, "new": new}]}


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write", {"path": path, "content": content}


def grep(pattern: str) -> tuple[str, dict[str, Any]]:
    return "grep", {"pattern": pattern}
