"""Sandboxes of every kind that ships, filled with the same files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from treadle.sandbox import holding
from treadle.sandbox.local import LocalSandbox
from treadle.sandbox.overlay import Overlay
from treadle.sandbox.sandbox import Sandbox
from treadle.sandbox.virtual import VirtualSandbox

Fill = Callable[[Mapping[str, bytes]], Sandbox]


class Elsewhere:
    """An editor that has one file open, which is in no sandbox."""

    async def files(self) -> list[Path]:
        return [Path(__file__)]

    async def unsaved(self, file: Path, disk: bytes | None) -> bytes | None:
        raise AssertionError("what lies outside is looked at")

    async def apply(self, file: Path, before: bytes, after: bytes) -> bool:
        raise AssertionError("what lies outside is changed")


@pytest.fixture(params=["virtual", "local", "local, opened by path", "beside an editor"])
def fill(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fill:
    if request.param == "virtual":
        return lambda files: VirtualSandbox(dict(files))
    if request.param == "beside an editor":
        return lambda files: Overlay(_local(tmp_path / "root", files), Elsewhere())
    monkeypatch.setattr(holding, "HAS_DIR_FD", request.param == "local")
    return lambda files: _local(tmp_path / "root", files)


@pytest.fixture(params=["by descriptors", "by path"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local sandbox's root that holds `folder/a.txt`, beside a folder `outside` with a secret."""
    monkeypatch.setattr(holding, "HAS_DIR_FD", request.param == "by descriptors")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "a.txt").write_text("A")
    return root


def _local(root: Path, files: Mapping[str, bytes]) -> Sandbox:
    root.mkdir(exist_ok=True)
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return LocalSandbox(root)
