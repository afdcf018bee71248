"""`treadle model`, as a person types it; nothing is fetched here."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from treadle.cli import model as command
from treadle.cli.main import main
from treadle.errors import NoModel
from treadle.folders import CACHE_VARIABLE
from treadle.models.embedded.files import EMBEDDED_FILE, FILE_VARIABLE, cached_path

BODY = b"a model"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own: it must never remove the person's model."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    return tmp_path / "cache"


def install(cache: Path) -> Path:
    path = cached_path(cache)
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(EMBEDDED_FILE.size_bytes)  # sparse: it takes no room
    return path


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs `treadle model …` and gives back exit code, output and complaint."""

    def run_command(*arguments: str, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        code = main(["model", *arguments])
        return code, *capsys.readouterr()

    return run_command


def test_list_says_what_there_is_and_what_it_is_worth(run: Run, cache: Path) -> None:
    code, said, _ = run("list")
    assert code == 0
    assert "Qwen2.5-Coder-0.5B-Instruct (Q4_K_M): 491 MB, Apache-2.0" in said
    assert "tiny and often wrong" in said
    assert "not installed: run `treadle model pull`" in said

    path = install(cache)
    assert f"installed: {path}" in run("list")[1]


def test_list_says_when_the_runtime_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_has_runtime", lambda: False)

    assert "not installed; install it: pip install 'treadle[local]'" in run("list")[1]


def test_path_prints_the_path_alone_or_fails_with_what_to_do(run: Run, cache: Path) -> None:
    assert run("path") == (
        1,
        "",
        "treadle: the model is not installed [no_model]\n  run `treadle model pull`\n",
    )
    path = install(cache)
    assert run("path") == (0, f"{path}\n", "")


def test_remove_asks_and_says_how_much_is_free_again(run: Run, cache: Path) -> None:
    path = install(cache)

    assert run("remove", typed="n\n")[0] == 1
    assert path.exists()
    code, said, _ = run("remove", "--yes")
    assert (code, said) == (0, f"removed {path}: 491 MB are free again\n")
    assert not path.exists()
    assert run("remove")[1] == f"nothing to remove: there is no {path}\n"


def test_pull_says_the_size_first_and_tells_each_tenth_once(
    run: Run, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(_: Path, progress: Callable[[int, int], None]) -> Path:
        for done in range(101):
            progress(done * 4_914_000, 491_400_000)
        return cached_path(cache)

    monkeypatch.setattr(command, "pull", pull)
    monkeypatch.setattr(command, "_has_runtime", lambda: True)

    code, said, _ = run("pull")

    lines = said.splitlines()
    assert code == 0
    assert lines[0].startswith("Qwen2.5-Coder-0.5B-Instruct (Q4_K_M): 491 MB, Apache-2.0, to ")
    assert lines[1:-1] == [f"  {tenth}0% of 491 MB" for tenth in range(1, 11)]
    assert lines[-1] == f"ready: {cached_path(cache)}"


def test_a_pull_that_fails_says_what_to_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(*_: object) -> Path:
        raise NoModel("no network", how="plug it in")

    monkeypatch.setattr(command, "pull", pull)

    code, _, complaint = run("pull")
    assert (code, complaint) == (1, "treadle: no network [no_model]\n  plug it in\n")


def test_a_file_of_ones_own_is_used_and_nothing_fetched(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(BODY)
    monkeypatch.setenv(FILE_VARIABLE, str(own))
    monkeypatch.setattr(command, "pull", pytest.fail)

    assert f"{own} is used" in run("pull")[1]
    assert f"in its place: {own}" in run("list")[1]
    assert run("path") == (0, f"{own}\n", "")


def test_a_file_of_ones_own_that_is_gone_is_an_error(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILE_VARIABLE, str(Path("gone.gguf").absolute()))

    for verb in ("list", "pull", "path"):
        code, _, complaint = run(verb)
        assert code == 1 and "gone.gguf" in complaint
