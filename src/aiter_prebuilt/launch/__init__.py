"""From an operator's name to a launch: dispatch, loading ahead, a user's tuned tables, checks of values."""
