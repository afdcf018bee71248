"""What is remembered of servers: privately, whole or not at all, and within bounds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from treadle.mcp.declaration import ServerDeclaration
from treadle.mcp.remembered import MOST_BYTES, Known, Remembered
from treadle.mcp.remote import RemoteTool

FINGERPRINT = ServerDeclaration("it", command="server").fingerprint
OTHER = ServerDeclaration("it", command="other").fingerprint

KNOWN = Known(
    "modern",
    (
        RemoteTool("b", "Does b.", {"type": "object", "x": [1, None]}, "B", {"readOnlyHint": True}),
        RemoteTool("a"),
    ),
    frozenset({"tools", "resources"}),
)

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps no modes")


def file_of(folder: Path) -> Path:
    return folder / "mcp" / f"{FINGERPRINT}.json"


def test_what_is_kept_is_recalled_by_another_process_too(tmp_path: Path) -> None:
    Remembered(tmp_path).keep(FINGERPRINT, KNOWN)
    assert Remembered(tmp_path).recall(FINGERPRINT) == KNOWN
    assert Remembered(tmp_path).recall(OTHER) is None


def test_what_is_kept_last_counts_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    remembered = Remembered(tmp_path / "not" / "there")
    for known in (KNOWN, Known("handshake")):
        remembered.keep(FINGERPRINT, known)
        assert remembered.recall(FINGERPRINT) == known
    assert list((tmp_path / "not" / "there" / "mcp").iterdir()) == [
        file_of(tmp_path / "not" / "there")
    ]


@POSIX
def test_it_is_private(tmp_path: Path) -> None:
    Remembered(tmp_path).keep(FINGERPRINT, KNOWN)
    assert file_of(tmp_path).stat().st_mode & 0o777 == 0o600
    assert file_of(tmp_path).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"version":1,"fingerprint":"%s","era":"bronze","tools":[]}' % FINGERPRINT.encode(),
        b'{"version":2,"fingerprint":"%s","era":"modern","tools":[]}' % FINGERPRINT.encode(),
        b'{"version":1,"fingerprint":"%s","era":"modern","tools":[]}' % OTHER.encode(),
        b'{"version":1,"fingerprint":"%s","era":"modern","tools":[{}]}' % FINGERPRINT.encode(),
        b"[" * 100_000,
        b" " * (MOST_BYTES + 1),
    ],
)
def test_a_file_that_says_nothing_good_is_as_none(tmp_path: Path, content: bytes) -> None:
    Remembered(tmp_path).keep(FINGERPRINT, KNOWN)
    file_of(tmp_path).write_bytes(content)
    assert Remembered(tmp_path).recall(FINGERPRINT) is None
    Remembered(tmp_path).keep(FINGERPRINT, KNOWN)
    assert Remembered(tmp_path).recall(FINGERPRINT) == KNOWN


@POSIX
def test_a_file_that_others_may_write_is_as_none(tmp_path: Path) -> None:
    Remembered(tmp_path).keep(FINGERPRINT, KNOWN)
    file_of(tmp_path).chmod(0o666)
    assert Remembered(tmp_path).recall(FINGERPRINT) is None


@POSIX
@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_what_is_no_file_is_as_none_and_holds_nobody_up(tmp_path: Path, kind: str) -> None:
    file_of(tmp_path).parent.mkdir()
    if kind == "folder":
        file_of(tmp_path).mkdir()
    elif kind == "pipe":
        os.mkfifo(file_of(tmp_path))
    else:
        Remembered(tmp_path / "else").keep(FINGERPRINT, KNOWN)
        file_of(tmp_path).symlink_to(file_of(tmp_path / "else"))
    assert Remembered(tmp_path).recall(FINGERPRINT) is None


def test_too_much_is_forgotten(tmp_path: Path) -> None:
    remembered = Remembered(tmp_path)
    remembered.keep(FINGERPRINT, KNOWN)
    remembered.keep(FINGERPRINT, Known("modern", (RemoteTool("a", "x" * MOST_BYTES),)))
    assert remembered.recall(FINGERPRINT) is None
    assert list((tmp_path / "mcp").iterdir()) == []


def test_a_name_that_is_no_fingerprint_leads_nowhere(tmp_path: Path) -> None:
    for name in ("../config", "", "A" * 32):
        with pytest.raises(ValueError, match="no fingerprint"):
            Remembered(tmp_path).recall(name)
