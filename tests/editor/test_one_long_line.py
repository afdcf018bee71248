"""A minified file is one line of megabytes; typing in it costs what is typed, or nearly so."""

from __future__ import annotations

import pytest

from support.daemon import daemon
from support.documents import changing, opening

URI = "file:///home/mac/app.min.js"
LINE = "a" * 5_000_000
EDITS = 400


@pytest.mark.parametrize("text", [LINE, f"{LINE}\n{LINE}"], ids=["one line", "two lines"])
async def test_an_editor_that_types_in_a_minified_file_is_still_answered(text: str) -> None:
    async with daemon() as client:
        client.notify("textDocument/didOpen", opening(URI, text))
        for number in range(EDITS):
            here = {"line": 0, "character": number}
            change = {"range": {"start": here, "end": here}, "text": "b"}
            client.notify("textDocument/didChange", changing(URI, number + 2, change))
        await client.still_answers()
