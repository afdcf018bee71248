"""What an agent may do: modes and what they allow."""
