"""Tools: the type, the pipeline of a call, one file a built-in."""
