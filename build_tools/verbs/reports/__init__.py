"""Report kinds, one per file.

Coverage, compiled, proved, adopted and chosen kernels.
"""
