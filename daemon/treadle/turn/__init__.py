"""A turn: one env through a stack of layers, one file each; `default.py` holds the order."""
