"""Caches of other compilers, filled ahead of time: what AITER's own kernels would have compiled at their first call."""
