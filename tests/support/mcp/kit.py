"""An MCP server on standard input and output that does wrong what its arguments say.

A program, never imported: `python -I -S kit.py NAME PORT [MISDEED[=NUMBER]]...`. It begins in
20 ms, for it is what hundreds of tests start.

Every process of it holds a line to PORT on loopback, which the kernel closes with the process,
however that dies; whoever listens there has the proof. What it is asked is told on that line too.
A process that is told to live for ever ends when whoever listens does.

Misdeeds, in any mixture:
    ignore-eof, ignore-term     ends neither at the end of its input, nor when it is asked to
    grandchild                  a process in its group holds its pipes
    deaf-grandchild             the same, and ignores TERM
    runaway                     a process in a session of its own holds its pipes and ignores TERM
    orphan                      the same without the pipes, and its parent is gone
    slow-start=SECONDS          reads nothing for so long
    die-at-start                complains and ends
    never-read                  reads nothing, ever
    silent-initialize           answers everything but `initialize`
    silent-list                 answers everything but `tools/list`
    silent-call                 answers everything but `tools/call`
    die-on-call=N               ends at the Nth call
    die-in-answer               ends in the middle of its answer to a call
    die-idle                    ends once its tools are known
    freeze-on-call              is stopped (SIGSTOP) by its first call
    close-stdin, close-stdout   closes it once its tools are known, and lives on
    change-tools                has another tool after each call, and says so
    huge-result                 answers a call with 20 MB
    garbage                     writes what is no message before each one
    answer-twice                answers everything twice, and what nobody asked
    flood-stderr=MS             64 KiB each so many milliseconds: of complaints
    flood-stdout=MS             of lines that are no messages
    flood-line=MS               of one line without an end
    flood-notifications=MS      of notifications
"""

from __future__ import annotations

import _socket  # `socket` takes longer to load than all the rest
import _thread
import json
import os
import signal
import sys
import time

HUGE_BYTES = 20_000_000
PIECE_BYTES = 64 * 1024
# What a flood begins with, at full speed: more than any pipe holds.
BURST_PIECES = 16
GARBAGE = (
    b"\n",
    b"npm WARN deprecated request@2.88.2\n",
    b"\xff\xfe\x00 no text\n",
    b'{"jsonrpc": "2.0", "id"\n',
    b"[]\nnull\n42\n",
    b'{"jsonrpc": "2.0"}\n',
)
NOTIFICATION = {
    "jsonrpc": "2.0",
    "method": "notifications/message",
    "params": {"level": "info", "data": "x" * 900},
}
FLOODS = {
    "flood-stderr": (2, b"Warning: %s\n" % (b"!" * 990)),
    "flood-stdout": (1, b"Progress: %s\n" % (b"#" * 990)),
    "flood-line": (1, b"." * 1000),
    "flood-notifications": (1, json.dumps(NOTIFICATION).encode() + b"\n"),
}


class Kit:
    """The server."""

    def __init__(self, name: str, port: int, misdeeds: dict[str, float]) -> None:
        self.name = name
        self.port = port
        self.misdeeds = misdeeds
        self.calls = 0
        self.writing = _thread.allocate_lock()
        self.home = self.call_home(name)

    def run(self) -> None:
        if "ignore-term" in self.misdeeds:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for kin in ("grandchild", "deaf-grandchild", "runaway", "orphan"):
            if kin in self.misdeeds:
                self.fork(kin)
        tell(self.home, f"pid {os.getpid()}")
        if "die-at-start" in self.misdeeds:
            os.write(2, b"cannot start: the kit was told to die\n")
            os._exit(3)
        for flood in FLOODS:
            if flood in self.misdeeds:
                _thread.start_new_thread(self.flood, (flood,))
        if "never-read" in self.misdeeds:
            linger(self.home)
        time.sleep(self.misdeeds.get("slow-start", 0))
        self.serve()

    def serve(self) -> None:
        try:
            for line in iter(sys.stdin.buffer.readline, b""):
                self.take(json.loads(line))
        except OSError:  # nobody reads us any more, which is an end as well
            pass
        tell(self.home, "eof")
        if "ignore-eof" in self.misdeeds:
            linger(self.home)
        os._exit(0)

    def take(self, message: dict) -> None:
        method = message.get("method", "")
        params = message.get("params") or {}
        tell(self.home, f"{method} {params.get('name', '')}".strip())
        if "id" not in message or not method or f"silent-{method.split('/')[-1]}" in self.misdeeds:
            return
        if method == "initialize":
            self.answer(message, self.introduction(params))
        elif method == "tools/list":
            self.answer(message, {"tools": self.tools()})
            self.be_known()
        elif method == "tools/call":
            self.call(message, params)
        elif method == "ping":
            self.answer(message, {})
        else:
            self.write(
                {"id": message["id"], "error": {"code": -32601, "message": "no such method"}}
            )

    def introduction(self, params: dict) -> dict:
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "serverInfo": {"name": self.name, "version": "1"},
        }

    def tools(self) -> list:
        names = ["echo", "wait"]
        if "change-tools" in self.misdeeds:
            names.append(f"new{self.calls}")
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        return [{"name": name, "description": name, "inputSchema": schema} for name in names]

    def be_known(self) -> None:
        if "die-idle" in self.misdeeds:
            os.write(2, b"ends for no reason\n")
            os._exit(5)
        for number, name in enumerate(("close-stdin", "close-stdout")):
            if name in self.misdeeds:
                os.close(number)
                linger(self.home)

    def call(self, request: dict, params: dict) -> None:
        self.calls += 1
        if "freeze-on-call" in self.misdeeds:
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.calls == self.misdeeds.get("die-on-call"):
            os.write(2, b"dies of this call\n")
            os._exit(4)
        if params["name"] == "wait":
            return
        text = (params.get("arguments") or {}).get("text", "")
        if "huge-result" in self.misdeeds:
            text = "x" * HUGE_BYTES
        self.answer(request, {"content": [{"type": "text", "text": text}]})
        if "change-tools" in self.misdeeds:
            self.write({"method": "notifications/tools/list_changed"})

    def answer(self, request: dict, result: dict) -> None:
        message = {"id": request["id"], "result": result}
        if "die-in-answer" in self.misdeeds and request["method"] == "tools/call":
            os.write(1, json.dumps(message).encode()[:20])
            os._exit(6)
        self.write(message)
        if "answer-twice" in self.misdeeds:
            self.write(message)
            self.write({"id": 987_654, "result": {}})
            self.write({"id": "nobody's", "error": {"code": 1, "message": "for nobody"}})

    def write(self, message: dict) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        noise = b"".join(GARBAGE) if "garbage" in self.misdeeds else b""
        with self.writing:
            write_all(1, noise + line)

    def flood(self, name: str) -> None:
        number, unit = FLOODS[name]
        piece = unit * (PIECE_BYTES // len(unit))
        pause_seconds = self.misdeeds[name] / 1000
        sent = 0
        try:
            while True:
                if number == 1:
                    with self.writing:
                        write_all(number, piece)
                else:
                    write_all(number, piece)
                sent += 1
                if sent > BURST_PIECES:
                    time.sleep(pause_seconds)
        except OSError:  # nobody reads it any more
            return

    def fork(self, kin: str) -> None:
        """Start a relative; its line is there before it is, so that it is never unheard of."""
        line = self.call_home(f"{self.name}/{kin}")
        if os.fork():
            line.close()
            return
        self.home.close()
        if kin in ("runaway", "orphan"):
            os.setsid()
        if kin == "orphan":
            if os.fork():
                os._exit(0)
            null = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
        term = signal.SIG_DFL if kin == "grandchild" else signal.SIG_IGN
        signal.signal(signal.SIGTERM, term)
        tell(line, f"pid {os.getpid()}")
        linger(line)

    def call_home(self, name: str) -> _socket.socket:
        line = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        line.connect(("127.0.0.1", self.port))
        tell(line, name)
        line.recv(1)  # it is heard of
        return line


def tell(line: _socket.socket, news: str) -> None:
    """Say something at home; without a home there is nothing to live for."""
    try:
        line.sendall(f"{news}\n".encode())
    except OSError:
        os._exit(9)


def linger(line: _socket.socket) -> None:
    """Live until home is gone, whatever else happens."""
    try:
        while line.recv(100):
            pass
    finally:
        os._exit(9)


def write_all(number: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]


def main() -> None:
    name, port, *misdeeds = sys.argv[1:]
    pairs = [misdeed.partition("=") for misdeed in misdeeds]
    Kit(name, int(port), {name: float(number or 0) for name, _, number in pairs}).run()


main()
