"""An editor that starts a daemon and a turn, tells its process id, and waits to be killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import IO, Any

LONGER_THAN_THE_TEST_SECONDS = 600


def send(stream: IO[bytes], **message: Any) -> None:
    """Write one frame."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    stream.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one frame."""
    length = int(stream.readline().split(b":")[1])
    stream.readline()
    return json.loads(stream.read(length))


daemon = subprocess.Popen(
    [sys.executable, "-m", "treadle", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
assert daemon.stdin is not None and daemon.stdout is not None
send(daemon.stdin, id=1, method="initialize", params={"capabilities": {}})
prompt = {"agent": "assistant", "instance": "a", "prompt": "Hi"}
send(daemon.stdin, id=2, method="session/prompt", params=prompt)
while receive(daemon.stdout).get("method") != "session/delta":
    pass
sys.stdout.write(f"{daemon.pid}\n")
sys.stdout.flush()
time.sleep(LONGER_THAN_THE_TEST_SECONDS)
