"""The tools for files: `read`, `edit`, `write`, `remove` and `undo`, and what they share."""
