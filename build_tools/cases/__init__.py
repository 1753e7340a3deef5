"""Calls with known answers: ``manifests/<family>/cases.toml`` and ``reference.py`` -> ``contract.calls.Call``.

``subject`` what is needed of an operator; ``words`` the grammar of a call; ``bind`` shapes, strides and types of one call;
``draw`` its inputs; ``reference`` its exact results, ``near`` how far a kernel may be off; ``interval`` what is wanted of the
device; ``make`` all of that for a target; ``sensitivity`` shows that the cases would notice a wrong kernel.
"""
