"""The tools that search files: `glob` by their names, `grep` by their text."""
