"""How a client and the shared daemon find each other; the standard library's light parts alone."""
