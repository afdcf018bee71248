"""The version of the distribution, and nothing else: the build reads this file."""

__version__ = "0.1.0"
