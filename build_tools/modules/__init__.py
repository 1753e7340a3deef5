"""What AITER's JIT would compile: the modules of a source tree, read as text."""
