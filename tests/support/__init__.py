"""What several tests stand on; each door is for claims that only it can observe.

waiting        waits for a condition, within the one bound that all tests share
turns          completions, a tool and readings of what a turn left: no daemon, no runtime
sessions       sessions of a runtime, in the test's own loop: no connection
line           a connection over a real runtime, in the test's own loop: no process
disk           a disk that fails when a test says so: no device, no limit of the system
daemon         `treadle serve` in a process of its own, driven through its pipes
approving      an agent that asks before it acts, and what its thread keeps of the answers
calls          built-in tools as a model calls them, in either sandbox: no turn, no daemon
commands       the tools that run commands, on a folder: no turn, no daemon
forked         such daemons by the hundred: forks of a process that has loaded everything
process        what the system knows of a process
switchboard    where processes call, so that a test hears of their death
model_server   an OpenAI-compatible endpoint on loopback, which misbehaves on request
strict_model   a provider that refuses what strict providers refuse
model_peer     a bare agent on that endpoint
documents      documents as editors tell of them, and what a model reads of one
buffers        an editor whose documents the daemon changes, and an agent that changes files
editors        what the clients of real editors are answered with, and how their reports are read
peers          programs of other houses: skipped where missing, unless they have to be there
noise          an editor that says everything that is allowed, in any mixture
tasks          agents that give tasks to others, and what their threads keep
small_window   conversations that fill a small window, and a model that sums them up
long_talk      hundreds of turns, and a provider that counts its window for itself and refuses
survived       what a thread has to hold after a kill, and that it can be sent
tmux           a real terminal, its keys and its screen
chat           `treadle chat` in such a terminal
doctor         `treadle doctor`, run to its end, and what it said
scripts        agents that speak by a script
person         what a person keeps and says, and a daemon on a model server
web            a server whose answers are bytes, and a network on which it is the internet
"""
