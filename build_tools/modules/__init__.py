"""Read the modules that AITER's JIT would compile.

They are those of a source tree, read as text.
"""
