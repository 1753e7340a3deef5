"""Forms of calls that clients and AITER's own tests make, on torch of the embedded device: served, or refused with a reason."""

from __future__ import annotations

import json

import pytest
from support.torch_programs import run_program

#: Form -> a part of the refusal. Every other form is served on both targets.
REFUSED: dict[str, str] = {
    # AITER's own raises NotImplementedError.
    "get_torch_quant(per_128x128)": "qType=one of QuantType.No",
    # AITER's own refuses a bias of another type than the result (ck_gemm_a8w8/gemm_a8w8.cu, TORCH_CHECK), and any of a shuffled
    # weight (aiter/ops/gemm_op_a8w8.py, `assert bias is None`), in the pinned tree and in August 2026.
    "gemm_a8w8, fp32 bias": "bias",
    "gemm_a8w8_bpreshuffle, bias": "bias=None",
    "fused_moe of mxfp8": "w1",
    # Our kernels read codes of 8 bits 16 at a time. The same size is served in 16 bits.
    "fused_moe of fp8, 88 columns": "EI % (32 if w2_shuffled else 16)",
    "fused_moe of int8, 88 columns": "EI % (32 if w2_shuffled else 16)",
}
#: The same of one target.
REFUSED_ON: dict[str, dict[str, str]] = {
    "gfx942": {"fmoe of 16 bits, inter_dim 256": "I % 512 == 0"},
    "gfx950": {
        "fmoe of 16 bits, inter_dim 256": "gfx942",
        "gemm_a8w8_ASM of padded rows": "gfx942",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_forms_of_clients_are_served_or_refused_by_name(target: str) -> None:
    done = run_program("client_forms", target)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    refused = REFUSED | REFUSED_ON[target]
    assert refused.keys() <= found.keys() and len(found) > 70
    wrong = [
        f"{form}: {came}"
        for form, came in found.items()
        if (refused[form] not in came if form in refused else came != "served")
    ]
    assert not wrong, "\n".join(wrong)
