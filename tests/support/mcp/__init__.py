"""MCP servers for tests, and what tests of them stand on.

kit            a server that does wrong whatever it is told to: a program
home           where each of its processes calls, so that a test hears of their death
misdeeds       what it can be told to do wrong, and what has to come of that
endings        sessions with such a server, by the dozen in one daemon, and how they end
"""
