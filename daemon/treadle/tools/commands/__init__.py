"""The tools for commands: `shell` runs one, `jobs` looks after those in the background."""
