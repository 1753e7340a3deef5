"""What vLLM (``vllm.general_plugins``) and SGLang (``sglang.srt.plugins``) call in each of their processes: there the finder is
needed, also where no ``.pth`` is read (``python -S``, a folder on ``PYTHONPATH``).
"""

from __future__ import annotations

import sys

import aiter_prebuilt_bridge_hook as hook


def register() -> None:
    """Put the finder on the path. Of an AITER that was imported before, public names become ours; its stubs stay."""
    late = "aiter" in sys.modules and not hook.installed()
    if hook.install() and late and hook.ready():
        from aiter_prebuilt_bridge import lookup_log, public, triton_cache

        lookup_log.once(
            "aiter", "it was imported before the bridge: names that others copied from it stay AITER's"
        )
        for name, module in [*sys.modules.items()]:
            if name.startswith(("aiter.ops.", "aiter.fused_moe", "aiter.mla", "aiter.tuned_gemm")):
                public.replace(module)
        public.finish(sys.modules["aiter"])
        triton_cache.install()
