"""Where tools may act: one contract, several kinds."""
