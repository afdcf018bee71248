"""Sessions: one live object per pair, its lane, its events."""
