"""AMD's pseudocode of CDNA instructions, read and evaluated without anything of the executor.

The text comes from the PyPI package ``tinygrad`` (``str_pcode.PCODE``). ``lexer`` and ``parser`` make a
tree, ``compiler`` turns it into closures over :class:`~emulator.pcode.values.Value`, and ``formats`` does
floating point in exact rationals, rounded once. What the texts lack or have wrong stands, each with its
reason, in ``corrections``; what is not evaluated in ``entries``.
"""
