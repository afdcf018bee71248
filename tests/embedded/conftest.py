"""The real model where it can be had, and a process that stands for it, with scripted answers."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from treadle.errors import NoModel
from treadle.folders import find_folders
from treadle.models.embedded.fetch import pull
from treadle.models.embedded.files import FILE_VARIABLE

# Speaks as `treadle.models.embedded.child` does. What it answers is told by the last message:
# "die" ends it in the middle, "hang" leaves the answer open, "overflow" refuses; anything else
# is answered with the request's own body, in pieces.
FAKE = """
import json, os, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
if len(sys.argv) > 2:
    sys.stderr.write(sys.argv[3]); sys.stderr.flush()
    print(sys.argv[2], flush=True)
    os._exit(7)

def watch():
    sys.stdin.buffer.read()
    os._exit(0)

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(body)
        last = request["messages"][-1]["content"]
        if self.headers["Authorization"] != "Bearer " + os.environ["TREADLE_EMBEDDED_KEY"]:
            return self.send_error(401)
        if last == "overflow":
            self.send_response(400); self.end_headers()
            error = {"code": 400, "type": "exceed_context_size_error", "n_ctx": 8192,
                     "message": "the request exceeds the available context size"}
            return self.wfile.write(json.dumps({"error": error}).encode())
        self.send_response(200); self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        text = last if "response_format" not in request else json.dumps(
            {"tool": "chat", "reply": last})
        if last.startswith("call "):
            text = json.dumps({"tool": "read", "arguments": {"path": last[5:]}})
        for character in text:
            self.event({"choices": [{"delta": {"content": character}}]})
        if last == "die":
            sys.stderr.write("out of luck"); sys.stderr.flush(); os._exit(9)
        if last == "hang":
            threading.Event().wait(60)
        self.event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        self.event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
        self.wfile.write(b"data: [DONE]\\n\\n")

    def event(self, chunk):
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\\n\\n"); self.wfile.flush()

    def log_message(self, *_): pass

threading.Thread(target=watch, daemon=True).start()
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"base_url": f"http://127.0.0.1:{server.server_port}/v1"}), flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="session")
def cache() -> Path:
    """The person's own cache: half a gigabyte is fetched once, not once a test."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the embedded model's runtime is not installed: pip install 'treadle[local]'")
    folder = find_folders().cache
    try:
        pull(folder, lambda done, total: None)
    except NoModel as error:
        pytest.skip(f"the embedded model cannot be had here: {error.message}")
    return folder


FakeCommand = Callable[..., Callable[[Path], Sequence[str]]]


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    """A folder with one file, named by its process id, for every process that was started."""
    folder = tmp_path / "starts"
    folder.mkdir()
    return folder


@pytest.fixture
def fake(tmp_path: Path, starts: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCommand:
    """Make commands of the fake; with `first_line` it says just that and ends."""
    model = tmp_path / "model.gguf"
    model.write_bytes(b"a model")
    monkeypatch.setenv(FILE_VARIABLE, str(model))

    def command(first_line: str | None = None, complaint: str = "") -> Callable[[Path], list[str]]:
        said = [] if first_line is None else [first_line, complaint]
        return lambda _: [sys.executable, "-I", "-c", FAKE, str(starts), *said]

    return command
