"""MCP servers for tests, and what tests of them stand on.

kit            a server that does wrong whatever it is told to: a program
home           where each of its processes calls, so that a test hears of their death
"""
