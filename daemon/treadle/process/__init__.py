"""Child processes: the one room that starts and stops them."""
