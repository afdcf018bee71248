"""Tools: the type, the pipeline of a call, one file a built-in.

Tools that share much lie together: `files/`, `search/`, `commands/`, `web/`. What every tool and
the pipeline stand on lies here; `builtin` lists them all.
"""
