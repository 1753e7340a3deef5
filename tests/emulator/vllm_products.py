"""vLLM's wrappers around AITER's products, quantising functions and layouts."""

from __future__ import annotations

from typing import Any

from emulator.client_tools import Calls, Tools


def products(t: Tools) -> Calls:
    """Products of 8 and of 4 bits, alone and in batches."""
    return _of_8_bits(t) | _others(t)


def _of_8_bits(t: Tools) -> Calls:
    torch = t.torch
    m, n, k = 5, 256, 512
    a, b = t.quantised(m, k), t.quantised(n, k)
    by_row, by_column = t.scales(m, 1), t.scales(n, 1)
    want = (a.double() * by_row) @ (b.double() * by_column).t()
    groups, blocks = t.scales(m, k // 128), t.scales(n // 128, k // 128)
    wide = blocks.double().repeat_interleave(128, 0).repeat_interleave(128, 1)
    want_blocks = (a.double() * groups.double().repeat_interleave(128, 1)) @ (b.double() * wide).t()

    def rows(v: Any) -> list[str]:
        out = v.w8a8_gemm(a, b, by_row, by_column, None, torch.bfloat16)
        whole, other = ((torch.randint(-9, 9, size)).to(torch.int8) for size in ((m, k), (n, k)))
        of_int8 = v.w8a8_gemm(whole, other, by_row, by_column, None, torch.bfloat16)
        exact = (whole.double() * by_row) @ (other.double() * by_column).t()
        problems = t.far("fp8", out, want, 2**-6) + t.far("int8", of_int8, exact, 2**-6)
        return problems + t.faked(
            torch.ops.vllm.rocm_aiter_w8a8_gemm, a, b, by_row, by_column, None, torch.bfloat16
        )

    def shuffled(v: Any) -> list[str]:
        bias = t.bf16(n)
        out = v.preshuffled_per_token_w8a8_gemm(
            a, v.shuffle_weight(b), by_row, by_column, bias, torch.bfloat16
        )
        return t.far("out", out, want + bias.double(), 2**-6)

    def hipb(v: Any) -> list[str]:
        out = v.hipb_mm_fp8(a, v.shuffle_weight(b).t(), by_row, by_column.t(), None, torch.bfloat16)
        return t.far("out", out, want, 2**-6)

    def scaled(v: Any) -> list[str]:
        out = v.gemm_a8w8_blockscale(a, b, groups, blocks, torch.bfloat16)
        return t.far("out", out, want_blocks, 2**-6) + t.faked(
            torch.ops.vllm.rocm_aiter_gemm_a8w8_blockscale, a, b, groups, blocks, torch.bfloat16
        )

    def scaled_shuffled(v: Any) -> list[str]:
        columns = groups.t().contiguous().t()
        out = v.gemm_a8w8_blockscale_bpreshuffle(a, v.shuffle_weight(b), columns, blocks, torch.bfloat16)
        return t.far("out", out, want_blocks, 2**-6)

    def triton(v: Any) -> list[str]:
        return t.far(
            "out", v.triton_gemm_a8w8_blockscale(a, b, groups, blocks, torch.bfloat16), want_blocks, 2**-6
        )

    def triton_shuffled(v: Any) -> list[str]:
        out = v.triton_gemm_a8w8_blockscale_preshuffle(a, v.shuffle_weight(b), groups, blocks, torch.bfloat16)
        return t.far("out", out, want_blocks, 2**-6)

    return {
        "w8a8_gemm": rows, "preshuffled_per_token_w8a8_gemm": shuffled, "hipb_mm_fp8": hipb,
        "gemm_a8w8_blockscale": scaled, "gemm_a8w8_blockscale_bpreshuffle": scaled_shuffled,
        "triton_gemm_a8w8_blockscale": triton, "triton_gemm_a8w8_blockscale_preshuffle": triton_shuffled,
    }  # fmt: skip


def _others(t: Tools) -> Calls:
    torch = t.torch
    m, k = 5, 512
    a, by_row = t.quantised(m, k), t.scales(m, 1)

    def absorbed(v: Any) -> list[str]:
        x, w, scale = t.bf16(4, 3, 128), t.quantised(4, 512, 128), torch.tensor([0.02])
        exact = x.double() @ (w.double() * 0.02).transpose(1, 2)
        out = v.triton_fp8_bmm(x, w, scale, group_size=128, transpose_bm=False)
        turned = v.triton_fp8_bmm(x, w, scale, group_size=128, transpose_bm=True)
        return t.far("out", out, exact, 2**-4) + t.far("turned", turned, exact.transpose(0, 1), 2**-4)

    def fp4(v: Any) -> list[str]:
        codes, scale = _mxfp4(t, 64, k)
        x = t.bf16(m, k)
        out = v.triton_fp4_gemm_dynamic_quant(x, codes, scale.t().contiguous())
        want = x.double() @ _decoded(t, codes, scale).t()
        return t.far("out", out, want, 0.25)

    def a8wfp4(v: Any) -> list[str]:
        codes, scale = _mxfp4(t, 64, k)
        out = v.gemm_a8wfp4(a, codes, by_row, scale, torch.bfloat16)
        return t.far("out", out, (a.double() * by_row) @ _decoded(t, codes, scale).t(), 2**-5)

    def absorbed_fp4(v: Any) -> list[str]:
        codes, scale = _mxfp4(t, 2 * 64, k)
        x = t.bf16(2, m, k)
        out = v.batched_gemm_a16wfp4(x, codes.view(2, 64, -1), scale.view(2, 64, -1), prequant=True)
        return t.far("out", out, x.double() @ _decoded(t, codes, scale).view(2, 64, k).transpose(1, 2), 0.25)

    return {
        "triton_fp8_bmm": absorbed, "triton_fp4_gemm_dynamic_quant": fp4, "gemm_a8wfp4": a8wfp4,
        "batched_gemm_a16wfp4": absorbed_fp4,
    }  # fmt: skip


def _mxfp4(t: Tools, rows: int, columns: int) -> tuple[Any, Any]:
    """Random FP4 codes, two a byte, and their exponents."""
    torch = t.torch
    return torch.randint(0, 256, (rows, columns // 2)).to(torch.uint8), torch.randint(
        120, 128, (rows, columns // 32)
    ).to(torch.uint8)


def _decoded(t: Tools, codes: Any, scale: Any) -> Any:
    torch = t.torch
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    table = torch.cat([table, -table])
    values = torch.stack([table[(codes & 15).long()], table[(codes >> 4).long()]], -1).reshape(
        codes.shape[0], -1
    )
    return values * torch.exp2(scale.double() - 127).repeat_interleave(32, 1)


def quantising(t: Tools) -> Calls:
    """Quantising, by tensors, tokens and groups."""
    torch = t.torch
    x = t.bf16(9, 1024)

    def tensor(v: Any) -> list[str]:
        out, scale = v.per_tensor_quant(x, t.fp8)
        problems = t.codes("dynamic", out.reshape(1, -1), scale, x.reshape(1, -1), x.numel())
        out, _ = v.per_tensor_quant(x, t.fp8, torch.tensor([0.02]))
        return problems + t.far("static", out, (x.double() / 0.02).clamp(-t.largest, t.largest), 2**-4)

    def token(v: Any) -> list[str]:
        problems = []
        for kind in (t.fp8, torch.int8):
            out, scale = v.per_token_quant(x, kind)
            problems += t.codes(str(kind), out, scale, x, 1024)
        return problems + t.faked(torch.ops.vllm.rocm_aiter_per_token_quant, x, t.fp8, None)

    def group(v: Any) -> list[str]:
        out, scale = v.group_fp8_quant(x)
        problems = t.codes("rows", out, scale, x, 128)
        out, scale = v.group_fp8_quant(x, 128, True)
        problems += t.codes("turned", out, scale.reshape(-1).reshape(8, 9).t(), x, 128)
        return problems + t.faked(torch.ops.vllm.rocm_aiter_group_fp8_quant, x, 128, False)

    def activated(v: Any) -> list[str]:
        out, scale = v.get_act_mul_fused_fp8_group_quant_op()(x, 128)
        gate, up = x.double().chunk(2, -1)
        problems = t.codes("out", out, scale, torch.nn.functional.silu(gate) * up, 128)
        return problems + t.faked(v.get_act_mul_fused_fp8_group_quant_op(), x, 128)

    return {
        "per_tensor_quant": tensor, "per_token_quant": token, "group_fp8_quant": group,
        "rocm_aiter_act_mul_and_fp8_group_quant": activated,
    }  # fmt: skip


def layouts(t: Tools) -> Calls:
    """Weights in the order in which kernels read them."""
    torch = t.torch

    def weight(v: Any) -> list[str]:
        w = t.bf16(64, 128)
        found = v.shuffle_weight(w)
        want = w.view(4, 16, 4, 4, 8).permute(0, 2, 3, 1, 4).reshape(64, 128)
        problems = [] if torch.equal(found, want) else ["the tiles are in another order"]
        return problems + (
            [] if getattr(found, "is_shuffled", False) else ["it does not say that it is shuffled"]
        )

    def packed(v: Any) -> list[str]:
        codes = torch.randint(0, 256, (2, 128, 64)).to(torch.uint8)
        exponents = torch.randint(0, 256, (2 * 256, 8)).to(torch.uint8)
        problems = []
        for name, given, found in (
            ("weights", codes, v.shuffle_weight_a16w4(codes, 16, True)),
            ("scales", exponents, v.shuffle_scale_a16w4(exponents, 2, True)),
        ):
            there, here = (each.view(torch.uint8).flatten().sort().values for each in (given, found))
            if not torch.equal(there, here) or torch.equal(
                given.flatten(), found.view(torch.uint8).flatten()
            ):
                problems.append(f"{name}: no other order of the same bytes")
        return problems

    return {"shuffle_weight": weight, "shuffle_weight_a16w4, shuffle_scale_a16w4": packed}
