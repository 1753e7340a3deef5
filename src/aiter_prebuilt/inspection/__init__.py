"""Calls that a user describes in words: which kernel they choose and why, how long they take, which of a model's are served."""
