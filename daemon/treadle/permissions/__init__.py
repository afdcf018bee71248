"""What an agent may do: modes, verdicts, and asking a person."""
