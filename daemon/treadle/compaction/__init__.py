"""What of a conversation a model goes on seeing once its window fills; the thread keeps it all."""
