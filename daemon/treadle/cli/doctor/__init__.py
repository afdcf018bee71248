"""`treadle doctor`: what there is, whether it works, and the command that mends what does not.

Each module looks at one thing and tells it as checks; `report` is the one structure that text and
JSON are made of. Nothing here changes anything on disk.
"""
