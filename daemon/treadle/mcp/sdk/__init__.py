"""What speaks with a server by the SDK.

Its modules import `mcp`, pydantic and the rest of that weight at their top; so they are loaded in
a worker thread when the first server is connected with, by `connection`, and by nobody else.
"""
