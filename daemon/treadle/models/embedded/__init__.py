"""The embedded model: a small one on this machine, for when no endpoint is configured."""
