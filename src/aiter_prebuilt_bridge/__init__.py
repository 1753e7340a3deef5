"""Stock AITER, vLLM and SGLang on prebuilt operators: a hook around ``import aiter``, and no package of that name.

    pip install 'aiter-prebuilt[gfx950,bridge]'     # beside the amd-aiter that the client pins; nothing else is changed

``aiter_prebuilt_bridge_hook`` puts one finder on the path, which does nothing until somebody imports ``aiter``. From then on
AITER's modules are executed as they are, but for a few functions that would start programs (``probe_overrides``). The decorators
of its JIT serve what is ours (``stubs``). Public names whose calls ours can take become ours (``public``). The rest
stays AITER's, and ``lookup_log`` says why.
Importing this package imports nothing.
"""
