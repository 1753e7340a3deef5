"""What the function of paged attention makes of its options, traced or not."""

from __future__ import annotations

from aiter_prebuilt.ops._common import refuse


def asked_object(name: str | None) -> str:
    """``kernelName`` of ``pa_fwd_asm`` as its operator has it, which knows the objects one by one."""
    if name is not None and name != "" and not str(name).endswith("_mtp_msk0E"):
        raise refuse(
            "pa_fwd_asm", "kernelName", name, 'None or the symbol of an object of AITER, "..._mtp_msk0E"'
        )
    return name or "chosen"
