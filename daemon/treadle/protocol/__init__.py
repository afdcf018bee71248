"""The contract with clients: wire structs by resource and the table of methods."""
