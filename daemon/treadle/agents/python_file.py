"""An agent as a Python file: loaded under a deadline, and every way to fail is words.

The file runs in a thread of its own, so that one that never ends holds nobody up for long: its
thread is left behind. Owns that. Refuses to know what the file may say (`described` does) and
whether it may be run at all (`ownership` and `trust` do).
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import threading
import types
from functools import partial
from pathlib import Path

from treadle.agents.checks import FILE_LIMIT_BYTES
from treadle.agents.definition import AgentDefinition
from treadle.agents.described import Definition
from treadle.agents.own_errors import broken, line_in, said_by
from treadle.errors import ConfigurationError

# Importing a large library takes a second or two; what takes longer waits for something.
LOAD_SECONDS = 5.0

# Files that never end, each edited a few times; beyond that threads would pile up.
MOST_LEFT_BEHIND = 8

_left_behind: list[threading.Thread] = []


def load_agent(path: Path, data: bytes) -> AgentDefinition:
    """Run an agent's file and return what its `agent()` describes; blocks up to the deadline.

    Args:
        path: where it lies; its stem is the agent's name.
        data: what it holds.

    Raises:
        InvalidAgent: it cannot be used; the message names the line where one is known.
    """
    if len(data) > FILE_LIMIT_BYTES:
        raise broken(path, f"the file is larger than {FILE_LIMIT_BYTES // 1024} KiB")
    _left_behind[:] = [thread for thread in _left_behind if thread.is_alive()]
    if len(_left_behind) >= MOST_LEFT_BEHIND:
        raise broken(
            path, f"{MOST_LEFT_BEHIND} agent files have not ended loading; start Treadle anew"
        )
    load = _Load(path, data)
    load.start()
    if not load.ended.wait(LOAD_SECONDS):
        _left_behind.append(load)
        raise broken(
            path,
            f"it was not loaded within {LOAD_SECONDS:g} s; it goes on in a thread that is left "
            "behind. What takes time belongs into a tool or a layer",
        )
    if load.definition is None:
        raise broken(path, load.problem, load.line)
    return load.definition.named(path.stem, str(path))


class _Load(threading.Thread):
    """One run of a file; a daemon thread, so that it cannot keep the process from ending."""

    def __init__(self, path: Path, data: bytes) -> None:
        super().__init__(name=f"treadle-load-{path.name}", daemon=True)
        self.ended = threading.Event()
        self.definition: Definition | None = None
        self.problem = ""
        self.line: int | None = None
        self._path = path
        self._data = data

    def run(self) -> None:
        try:
            self.definition = _definition(self._path, self._data)
        except BaseException as error:
            self.problem, self.line = said_by(error), line_in(error, self._path)
        finally:
            self.ended.set()


def _definition(path: Path, data: bytes) -> Definition:
    """Run a file as a module of its own; the last one that could be used stays in its place.

    Raises:
        BaseException: whatever the file raises.
        ConfigurationError: it describes no agent.
    """
    # By path, so that two workspaces can have files of one name; data classes look it up here.
    name = "treadle_agent_" + hashlib.sha256(str(path).encode(errors="replace")).hexdigest()[:16]
    module = types.ModuleType(name)
    module.__file__ = str(path)
    # Standard output is where a command's answer goes; the daemon's own is guarded already.
    module.__dict__["print"] = partial(print, file=sys.stderr)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        exec(compile(data, str(path), "exec", dont_inherit=True), module.__dict__)
        return _described(getattr(module, "agent", None))
    except BaseException:
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before
        raise


def _described(agent: object) -> Definition:
    wanted = "write `def agent():` that returns a treadle.Definition"
    if not callable(agent):
        raise ConfigurationError(f"it has no function agent(); {wanted}")
    made = agent()
    if inspect.iscoroutine(made):
        made.close()
        raise ConfigurationError(f"agent() must not be async; {wanted}")
    if not isinstance(made, Definition):
        raise ConfigurationError(f"agent() returns {type(made).__name__}; {wanted}")
    return made
