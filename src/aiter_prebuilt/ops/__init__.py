"""AITER's functions: the same names, parameters and in-place or returning behaviour, over prebuilt kernels.

Each function does only what Python must: refuse options that no kernel covers, allocate what it returns, and hand
everything to the operator's native object, which checks, chooses and launches.
"""
