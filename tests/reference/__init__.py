"""Torch references: one plain function per operator, under AITER's name, returning the expected outputs."""
