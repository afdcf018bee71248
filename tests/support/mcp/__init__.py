"""MCP servers for tests, and what tests of them stand on.

kit            a server that does wrong whatever it is told to: a program
home           where each of its processes calls, so that a test hears of their death
misdeeds       what it can be told to do wrong, and what has to come of that
lines          a server of a few lines of plain Python, any of which a test replaces: a program
official       a server made with the SDK, of both eras: a program, or an application
web            applications behind a url on loopback, and what they were asked
host           a host that answers as a test says, and connections for it
endings        sessions with such a server, by the dozen in one daemon, and how they end
"""
