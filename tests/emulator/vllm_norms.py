"""vLLM's wrappers around AITER's norms."""

from __future__ import annotations

from typing import Any

from emulator.client_tools import EPS, Calls, Tools


def norms(t: Tools) -> Calls:
    """Norms, of rows and of MLA's two latents."""
    return _rows(t) | _quantised(t) | _others(t) | _latents(t)


def _rows(t: Tools) -> Calls:
    torch = t.torch
    x, residual, weight = t.bf16(7, 512), t.bf16(7, 512), t.bf16(512)
    total = (x.float() + residual.float()).bfloat16()

    def rms_norm(v: Any) -> list[str]:
        return t.far("out", v.rms_norm(x, weight, EPS), t.norm(x, weight)) + t.faked(
            torch.ops.vllm_aiter.rms_norm, x, weight, EPS
        )

    def add(v: Any) -> list[str]:
        out, added = v.rms_norm2d_with_add(x, residual, weight, EPS)
        return t.far("out", out, t.norm(total, weight)) + t.far("residual", added, total, 2**-8)

    def operator_add(v: Any) -> list[str]:
        del v
        out, added = torch.ops.vllm_aiter.fused_add_rms_norm(x, residual, weight, EPS)
        problems = t.far("out", out, t.norm(total, weight)) + t.far("residual", added, total, 2**-8)
        return problems + t.faked(torch.ops.vllm_aiter.fused_add_rms_norm, x, residual, weight, EPS)

    return {"rms_norm": rms_norm, "rms_norm2d_with_add": add, "vllm_aiter::fused_add_rms_norm": operator_add}


def _quantised(t: Tools) -> Calls:
    torch = t.torch
    x, residual, weight = t.bf16(7, 512), t.bf16(7, 512), t.bf16(512)
    total = (x.float() + residual.float()).bfloat16()

    def dynamic(v: Any) -> list[str]:
        operator, problems = v.get_rmsnorm_fused_dynamic_quant_op(), []
        for kind in (t.fp8, torch.int8):
            out, scale = operator(x, weight, EPS, kind)
            problems += t.codes(str(kind), out, scale, t.norm(x, weight), 512)
        return problems + t.faked(operator, x, weight, EPS, t.fp8)

    def add_dynamic(v: Any) -> list[str]:
        operator, problems = v.get_rmsnorm_fused_add_dynamic_quant_op(), []
        for kind in (t.fp8, torch.int8):
            out, added, scale = operator(x, residual, weight, EPS, kind)
            problems += t.codes(str(kind), out, scale, t.norm(total, weight), 512)
            problems += t.far("residual", added, total, 2**-8)
        return problems + t.faked(operator, x, residual, weight, EPS, t.fp8)

    def group(v: Any) -> list[str]:
        out, scale = v.get_rmsnorm_group_fused_quant_op()(x, weight, EPS, 128)
        return t.codes("out", out, scale, t.norm(x, weight), 128) + t.faked(
            v.get_rmsnorm_group_fused_quant_op(), x, weight, EPS, 128
        )

    def add_group(v: Any) -> list[str]:
        operator = v.get_rmsnorm_group_add_fused_quant_op()
        out, added, scale = operator(x, residual, weight, EPS, 128)
        problems = t.codes("out", out, scale, t.norm(total, weight), 128) + t.far(
            "residual", added, total, 2**-8
        )
        return problems + t.faked(operator, x, residual, weight, EPS, 128)

    return {
        "rocm_aiter_rmsnorm_fused_dynamic_quant": dynamic, "rocm_aiter_rmsnorm_fused_add_dynamic_quant": add_dynamic,
        "rocm_aiter_rmsnorm_fp8_group_quant": group, "rocm_aiter_rmsnorm_with_add_fp8_group_quant": add_group,
    }  # fmt: skip


def _others(t: Tools) -> Calls:
    torch = t.torch
    x, residual, weight = t.bf16(7, 512), t.bf16(7, 512), t.bf16(512)
    total = (x.float() + residual.float()).bfloat16()

    def static(v: Any) -> list[str]:
        scale = torch.tensor([0.03])
        out = v.get_fused_rms_fp8_per_tensor_static_quant_op()(x, weight, EPS, scale, t.fp8)
        want = (t.norm(x, weight) / 0.03).clamp(-t.largest, t.largest)
        return t.far("out", out, want, 2**-4)

    def add_static(v: Any) -> list[str]:
        scale = torch.tensor([0.03])
        out, added = v.get_fused_add_rms_fp8_per_tensor_static_quant_op()(
            x, residual, weight, EPS, scale, t.fp8
        )
        want = (t.norm(total, weight) / 0.03).clamp(-t.largest, t.largest)
        return t.far("out", out, want, 2**-4) + t.far("residual", added, total, 2**-8)

    def gated(v: Any) -> list[str]:
        gate = t.bf16(7, 512)
        out, scale = v.get_fused_rms_gated_fp8_group_quant_op()(x, weight, None, gate, EPS, True, "silu", 128)
        want = t.norm(x, weight) * torch.nn.functional.silu(gate.double())
        return t.codes("out", out, scale, want, 128)

    def pad(v: Any) -> list[str]:
        wide, other, by = t.bf16(5, 2880), t.bf16(5, 2880), t.bf16(2880)
        operator = v.get_triton_add_rmsnorm_pad_op()
        out, added = operator(wide, by, EPS, other, 256)
        total = (wide.float() + other.float()).bfloat16()
        want = torch.nn.functional.pad(t.norm(total, by), (0, 3072 - 2880))
        problems = t.far("out", out, want) + t.far("residual", added, total, 2**-8)
        return problems + t.faked(operator, wide, by, EPS, other, 256)

    return {
        "rocm_aiter_fused_rms_fp8_per_tensor_static_quant": static,
        "rocm_aiter_fused_add_rms_fp8_per_tensor_static_quant": add_static,
        "rocm_aiter_fused_rms_gated_fp8_group_quant": gated, "rocm_aiter_triton_add_rmsnorm_pad": pad,
    }  # fmt: skip


def _latents(t: Tools) -> Calls:
    both = t.bf16(6, 1536 + 576)
    q, kv = both[:, :1536], both[:, 1536 : 1536 + 512]
    by_q, by_kv = t.bf16(1536), t.bf16(512)

    def plain(v: Any) -> list[str]:
        operator = v.get_fused_mla_dual_rms_norm_op()
        found = operator(q, by_q, kv, by_kv, EPS, EPS)
        problems = t.far("q", found[0], t.norm(q, by_q)) + t.far("kv", found[1], t.norm(kv, by_kv))
        return problems + t.faked(operator, q, by_q, kv, by_kv, EPS, EPS)

    def per_token(v: Any) -> list[str]:
        operator = v.get_fused_mla_dual_rms_norm_per_token_quant_op()
        out, scale, normed = operator(q, by_q, kv, by_kv, EPS, EPS)
        problems = t.codes("q", out, scale, t.norm(q, by_q), 1536) + t.far("kv", normed, t.norm(kv, by_kv))
        return problems + t.faked(operator, q, by_q, kv, by_kv, EPS, EPS)

    def group(v: Any) -> list[str]:
        operator = v.get_fused_mla_dual_rms_norm_group_quant_op()
        out, scale, normed = operator(q, by_q, kv, by_kv, EPS, EPS, 128, False)
        problems = t.codes("q", out, scale, t.norm(q, by_q), 128) + t.far("kv", normed, t.norm(kv, by_kv))
        out, scale, _ = operator(q, by_q, kv, by_kv, EPS, EPS, 128, True)
        turned = scale.reshape(-1).reshape(12, 6).t()
        problems += t.codes("q, turned", out, turned, t.norm(q, by_q), 128)
        return problems + t.faked(operator, q, by_q, kv, by_kv, EPS, EPS, 128, False)

    return {
        "fused_mla_dual_rms_norm": plain, "fused_mla_dual_rms_norm_per_token_quant": per_token,
        "fused_mla_dual_rms_norm_group_quant": group,
    }  # fmt: skip
