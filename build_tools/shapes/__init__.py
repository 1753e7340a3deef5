"""Models' shapes and clients' calls: which calls a step of a model makes, and what an operator's function makes of them."""
