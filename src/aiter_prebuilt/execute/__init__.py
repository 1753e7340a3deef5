"""Executes calls with known answers (``contract/calls.py``) on a device, through the functions that serve users, and judges them.

    python -m build_tools ... | python -m aiter_prebuilt.execute        a JSON line for each call

No formula is here: a call brings its inputs as bytes and an interval for each element of its results. ``array`` is a tensor
without a framework, ``layout`` finds its elements in its memory, ``values`` says what stored bytes mean, ``judge`` compares,
``record`` sees what was chosen, ``recipes`` names it by content, ``run`` does one call, ``fork`` does it in a child,
``explain`` says what it would launch, without a device.
"""
