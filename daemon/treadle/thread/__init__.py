"""Threads: messages, and the append-only files that keep them."""
