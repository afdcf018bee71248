"""Processes: the one room that starts and stops children; and how a signal wakes our loop."""
