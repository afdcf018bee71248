"""Agents as a person writes them, and the configuration beside them."""
