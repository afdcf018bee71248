"""Models: the completion at the bottom of every stack, and those that ship."""
