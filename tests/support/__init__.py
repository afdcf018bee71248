"""What several tests stand on: fake peers, driven by the tests and checked against real ones."""
