"""The wire: bytes to frames, frames to messages, and the descriptors and threads under them."""
