"""Operators and traced functions, as torch.compile sees them.

Each operator is ``torch.ops.aiter_prebuilt.NAME`` with its shapes, and each function has a traced form.
"""
