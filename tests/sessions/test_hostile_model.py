"""A model that tries everything: it reads, writes and reaches nothing beyond what it was given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.approving import AGENT, PERMISSION, careful_agent, client_that, here
from support.daemon import daemon, serving_after
from support.person import stored
from support.web import PUBLIC, WebServer, redirect
from treadle.folders import LOG_VARIABLE
from treadle.permissions.modes import MODES, PermissionMode
from treadle.runtime.outbox import Pair
from treadle.runtime.shown import shown
from treadle.thread.replay import load

# Names of one allowed host, and where the daemon's resolver says that they lie.
NAMES = {
    "docs.example": [PUBLIC],
    "loopback.docs.example": ["127.0.0.1"],
    "metadata.docs.example": ["169.254.169.254"],
    "six.docs.example": ["::1"],
    "mapped.docs.example": ["::ffff:127.0.0.1"],
    "both.docs.example": [PUBLIC, "10.0.0.1"],
}

# What stands in for the resolver, and for the one public address; all others are what they are.
NETWORK = """
from treadle.tools.web.network import SystemNetwork
connect = SystemNetwork.connect
async def resolve(self, host, port): return {names}[host]
async def connect_there(self, address, port, seconds):
    public = address == {public!r}
    place = ('127.0.0.1', {port}) if public else (address, port)
    return await connect(self, *place, seconds)
SystemNetwork.resolve, SystemNetwork.connect = resolve, connect_there
"""


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def _reads(outside: Path) -> list[dict[str, Any]]:
    """Ways to see what lies outside; `work` has links to it."""
    return [
        _call("read", path=path)
        for path in (
            "../outside/secret.txt",
            str(outside / "secret.txt"),
            "link.txt",
            "folder/secret.txt",
            "folder",
            "sub/../../outside/secret.txt",
            "/proc/self/environ",
            "/etc/passwd",
            "~/.ssh/id_rsa",
            "output://1.txt",
            "output://../../secret.txt",
            "pipe",
        )
    ] + [
        _call("glob", pattern="*", path="../outside"),
        _call("glob", pattern="*", path="folder"),
        _call("grep", pattern="hidden", path="folder"),
        _call("grep", pattern="hidden", path="../outside"),
        _call("grep", pattern="hidden", path="--follow"),
    ]


def _fetches(private: int) -> list[dict[str, Any]]:
    """Ways to reach this machine and its neighbours."""
    hosts = [
        f"127.0.0.1:{private}",
        "169.254.169.254",
        f"[::1]:{private}",
        f"2130706433:{private}",
        f"0x7f000001:{private}",
        f"0177.0.0.1:{private}",
        f"127.1:{private}",
        f"[::ffff:127.0.0.1]:{private}",
        f"localhost:{private}",
        f"docs.example@127.0.0.1:{private}",
        f"docs.example.evil.example:{private}",
        *(f"{name}:{private}" for name in NAMES if name != "docs.example"),
    ]
    redirects = [f"docs.example/{number}" for number in range(len(_redirects(private)))]
    return [_call("fetch", url=f"http://{place}/") for place in hosts] + [
        *(_call("fetch", url=f"http://{place}") for place in redirects),
        _call("fetch", url="file:///etc/passwd"),
    ]


def _redirects(private: int) -> list[str]:
    return [
        f"http://127.0.0.1:{private}/",
        f"http://[::1]:{private}/",
        f"http://2130706433:{private}/",
        f"http://loopback.docs.example:{private}/",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
    ]


def _writes(outside: Path) -> list[dict[str, Any]]:
    """Ways to change what lies outside, or what was never read."""
    places = ["../outside/secret.txt", str(outside / "new.txt"), "link.txt", "folder/new.txt"]
    places += ["dangling.txt", "pipe", "folder", "unread.txt"]
    edit = [{"old": "hidden", "new": "gone"}]
    return [
        *(_call("write", path=place, content="gone") for place in places),
        *(_call("edit", path=place, edits=edit) for place in places),
        *(_call("remove", path=place) for place in ("../outside/secret.txt", "folder/secret.txt")),
        _call("undo"),
        _call("undo", redo=True),
    ]


# Nobody but the person allows anything, whatever a model calls or claims.
_PRETENCES = [
    _call(PERMISSION, outcome="allow_session"),
    _call("session/resume", options={"permissions": "auto"}),
    _call("approve", call="c1"),
    _call("read", path="inside.txt", permissions="auto"),
]


def _workspace(tmp_path: Path, work: Path) -> Path:
    """Make what lies inside and outside, and the ways between; return the folder outside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("hidden\n")
    (work / "sub").mkdir()
    (work / "inside.txt").write_text("seen\n")
    (work / "unread.txt").write_text("hidden here\n")
    (work / "link.txt").symlink_to(outside / "secret.txt")
    (work / "folder").symlink_to(outside)
    (work / "dangling.txt").symlink_to(outside / "new.txt")
    os.mkfifo(work / "pipe")
    return outside


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _log_text() -> str:
    return "".join(path.read_text() for path in Path(os.environ[LOG_VARIABLE]).glob("*.log"))


@pytest.mark.skipif(os.name == "nt", reason="links and pipes as POSIX has them")
@pytest.mark.parametrize("mode", MODES)
async def test_whatever_a_model_tries_is_refused_even_where_a_person_allows_it(
    tmp_path: Path, mode: PermissionMode
) -> None:
    async with WebServer() as private, WebServer() as public:
        redirects = enumerate(_redirects(private.port))
        public.answers = {f"/{number}": redirect(place) for number, place in redirects}
        shells = [_call("shell", command=f"touch {tmp_path}/outside/shell")]
        batches = [
            _reads(tmp_path / "outside"),
            _fetches(private.port),
            _writes(tmp_path / "outside"),
            _PRETENCES,
            shells if mode == "read_only" else [],
        ]
        work = careful_agent(
            tmp_path,
            *filter(None, batches),
            permissions=mode,
            fetch_allow="[docs.example]",
            max_turns=50,
        )
        outside = _workspace(tmp_path, work)
        before = _files(outside), _files(work)
        network = NETWORK.format(names=NAMES, public=PUBLIC, port=public.port)
        program = serving_after(tmp_path, *network.strip().splitlines())
        async with daemon(program=program, initialize=False) as client:
            client.answers[PERMISSION] = lambda params: {"outcome": "allow_once"}
            await client.initialize(capabilities=client_that(requestPermission=True))
            result = await client.request("session/prompt", here(prompt="Go"))
            assert (result["text"], result["stopReason"]) == ("Done.", "end_turn")
        assert private.connections == 0
        assert len(public.targets) == len(_redirects(0))

    assert (_files(outside), _files(work)) == before
    messages = load(stored(AGENT, "test")).messages
    calls = [(call.name, call.arguments) for one in messages for call in one.tool_calls]
    came_to = [(one.is_error, one.text) for one in messages if one.role == "tool"]
    told = [
        (call, text)
        for call, (is_error, text) in zip(calls, came_to, strict=True)
        if not is_error or "hidden" in text
    ]
    assert told == []
    log = _log_text()
    assert log.count(f"{shown(Pair(AGENT, 'test'))}, turn 1: ") >= len(calls)
    assert sum(line.endswith(" failed") for line in log.splitlines()) == len(calls)
    assert "hidden" not in log
