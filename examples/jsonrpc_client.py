"""A whole client in plain Python: what it does can be done in any language.

    python examples/jsonrpc_client.py

It starts a daemon, prompts one session twice, and prints the answers as they come.
"""

import json
import subprocess
import sys
from typing import Any


class Client:
    """Speaks JSON-RPC 2.0, framed by `Content-Length`, over the pipes of one daemon."""

    def __init__(self, *command: str) -> None:
        self._daemon = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._last_id = 0

    def request(self, method: str, **params: Any) -> Any:
        """Send a request; print deltas until its reply has come, and return the result."""
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("method") == "session/delta":
                print(message["params"]["text"], end="", flush=True)
            elif message.get("id") == self._last_id:
                if "error" in message:
                    raise RuntimeError(message["error"])
                return message["result"]

    def close(self) -> int:
        """End the daemon as a client should; return its exit code."""
        self.request("shutdown")
        self._send({"method": "exit"})
        return self._daemon.wait()

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._daemon.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._daemon.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        length = 0
        while header := self._daemon.stdout.readline().strip():
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if not length:
            raise EOFError("the daemon has gone; its own words are on standard error")
        return json.loads(self._daemon.stdout.read(length))


client = Client(sys.executable, "-m", "treadle", "serve")  # or simply: treadle serve
client.request("initialize", processId=None, capabilities={})
session = {"agent": "assistant", "instance": "jsonrpc-client"}
for prompt in ("My name is Mac.", "What is my name?"):
    print(">", prompt)
    result = client.request("session/prompt", **session, prompt=prompt)
    print(f"\n  turn {result['turn']}: {result['stopReason']}")
sys.exit(client.close())
