"""One small reference case per operator, run on a device and compared with float64 formulas; the standard library is enough.

``numbers`` stores and reads element types, ``formulas`` has one function per operator, ``cases`` puts them to small inputs,
``run`` executes them. The formulas of ``tests/reference`` say the same in torch and are compared over all types and layouts.
"""
