"""Calls of AITER's public functions that have no golden calls of their own: functions of ours around operators, and spellings of
an older tree. Each is judged by float64 or by AITER's own torch; where neither is at hand, by the bits of ours in its own words.

``bridge_program.py`` calls this in its process, where AITER is imported through the bridge.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable
from typing import Any

#: The edges of both rules for a scale of MXFP4, in units of a power of two, and numbers beside them.
_EDGES = (1.0, 1.4921875, 1.5, 1.5078125, 1.75, 1.9921875)
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _torch() -> Any:
    return importlib.import_module("torch")


def _there(module: str, name: str) -> Any:
    """A name of AITER's that is ours, or None where this tree has none."""
    from aiter_prebuilt_bridge import serving

    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError:
        return None
    assert found is None or serving.is_replacement(found), f"{module}.{name} is not ours"
    return found


def rope(given: dict[str, Any], row: Any) -> dict[str, Any]:
    """A golden call of an operator that writes, for a function that returns."""
    kept = {name: value for name, value in given.items() if not name.startswith(("output", "input_grads"))}
    if "output_grads" in given:
        kept["output_grads"] = given["output_grads"]
    theirs = {ours: name for name, ours in row.words.names} if row.words else {}
    return {theirs.get(name, name): value for name, value in kept.items()}


def rope_of_tokens(given: dict[str, Any], row: Any) -> dict[str, Any]:
    """Batches behind each other: tokens of [tokens, heads, dim]."""
    del row
    flat = {name: given[f"input_{name}"].flatten(0, 1) for name in ("x", "y")}
    places = {name: given[name].flatten() for name in ("positions", "offsets")}
    tables = {name: given[name].flatten(0, 2) for name in ("cos", "sin")}
    options = {name: given[name] for name in ("rotate_style", "reuse_freqs_front_part", "nope_first")}
    return flat | tables | places | options


def rope_back(given: dict[str, Any], row: Any) -> dict[str, Any] | None:
    """By the opposite angles, which are turned back; None where an element has an angle of its own."""
    del row
    if not given["reuse_freqs_front_part"]:
        return None
    same = ("cos", "positions", "rotate_style", "reuse_freqs_front_part", "nope_first")
    moved = {
        "x": given["input"],
        "out": given["output"],
        "sin": -given["sin"],
        "offsets": None,
        "inplace": False,
    }
    return {name: given[name] for name in same} | moved


def decode_of_groups(given: dict[str, Any], row: Any) -> dict[str, Any] | None:
    """`pa_fwd_asm`'s golden calls: its scales are those of AITER's assembly, and the other kernel's are not read."""
    del row
    if given["V"].dim() != 5:  # another name of the same memory, which is for the assembly alone
        return None
    same = set(given) - {"K_QScale", "V_QScale"}
    scales = {f"{name}_asm": given.get(name) for name in ("K_QScale", "V_QScale")}
    unused = dict.fromkeys(("exp_sums", "max_logits", "tmp_out"), given["Q"])
    return {name: given[name] for name in same} | scales | unused | {"scale": given["Q"].shape[-1] ** -0.5}


def metadata(given: dict[str, Any], row: Any) -> dict[str, Any] | None:
    """Without pages, and with one list under another name."""
    del row
    if given.get("page_size", 1) != 1:
        return None
    kept = {
        name: value
        for name, value in given.items()
        if name not in ("kv_last_page_lens", "page_size", "work_info_set")
    }
    return kept | {"work_info": given["work_info_set"]}


def results(result: Any, arguments: dict[str, Any], wants: Any) -> dict[str, Any]:
    """What an operator would have written: what was returned, else what was turned in place."""
    turned = [arguments[name] for name in ("x", "y", "input") if name in arguments]
    found = turned if result is None else [*result] if isinstance(result, tuple) else [result]
    return {want.name: each.reshape(want.shape) for want, each in zip(wants, found, strict=False)}


#: By the name of ours: how a golden call of it, or of the operator that it calls, is made one of AITER's function.
WAYS: dict[str, Callable[[dict[str, Any], Any], dict[str, Any] | None]] = {
    **{f"rope_{kind}fwd{end}": rope for kind in ("", "thd_", "cached_", "cached_positions_", "cached_positions_offsets_")
       for end in ("", "_inplace")},
    **{f"rope_{kind}bwd": rope for kind in ("", "thd_", "cached_")},
    "rope_cached_thd_positions_offsets_2c_fwd_inplace": rope_of_tokens,
    "rope_cached_positions_back": rope_back,
    "paged_attention_common": decode_of_groups,
}  # fmt: skip


def words(rule: str) -> list[dict[str, Any]]:
    """What is wrong with each of them. ``rule``: that of scales of MXFP4 in this tree, ``above`` or ``half``."""
    found = []
    for name, check in _CHECKS.items():
        try:
            problems = check(rule)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told
            problems = [f"{type(error).__name__}: {error}"[:600]]
        if problems is not None:
            found.append({"operator": name, "problems": problems})
    return found


def _inputs() -> Any:
    """[32, 256] bf16: groups whose largest size lies on each edge and beside it, zeros, small and large numbers."""
    torch = _torch()
    made = torch.randn(32, 8, 32, generator=torch.Generator().manual_seed(5))
    made = made / made.abs().amax(-1, keepdim=True)
    tops = torch.tensor([edge * 2.0**power for power in range(-8, 9) for edge in _EDGES])
    made = made * tops.repeat(3)[: 32 * 8].view(32, 8, 1)
    made[3, 2] = 0
    made[5, 1] = 1e-12
    return made.flatten(1).to(torch.bfloat16)


def _expected(x: Any, rule: str, least: float = 1e-10) -> tuple[Any, Any]:
    """Codes and bytes of scales by a rule, in float64."""
    torch = _torch()
    groups = x.double().unflatten(-1, (-1, 32))
    fraction, exponent = torch.frexp(groups.abs().amax(-1).clamp_min(least))
    above = fraction > 0.75 if rule == "above" else fraction >= 0.75
    power = exponent - 3 + above.int()
    sizes = groups.abs() / torch.exp2(power.double()).unsqueeze(-1)
    codes = torch.zeros_like(sizes, dtype=torch.uint8)
    for place, (low, high) in enumerate(itertools.pairwise(_FP4)):
        middle = (low + high) / 2
        codes += (sizes >= middle) if place % 2 else (sizes > middle)
    codes |= torch.signbit(groups).to(torch.uint8) << 3
    flat = codes.flatten(-2)
    return flat[..., 1::2] << 4 | flat[..., ::2], (power + 127).to(torch.uint8)


def _differs(found: Any, wanted: Any, what: str) -> list[str]:
    torch = _torch()
    pairs = zip(found, wanted, ("codes", "scales"), strict=False)
    return [
        f"{what}: {name}: {int((one.view(torch.uint8) != other.view(torch.uint8)).sum())} of {other.numel()} differ"
        for one, other, name in pairs
        if not torch.equal(one.view(torch.uint8), other.view(torch.uint8))
    ]


def scales_written(rule: str) -> list[str]:
    """The operator that writes tensors of its caller, by its public name and as one of torch's."""
    torch = _torch()
    x = _inputs()
    wanted = _expected(x, rule)
    problems = []
    functions = {
        "public": _there("aiter.ops.quant", "dynamic_per_group_scaled_quant_fp4"),
        "torch": getattr(torch.ops.aiter, "dynamic_per_group_scaled_quant_fp4", None),
    }
    for way, function in functions.items():
        if way == "torch" and function is None:  # a tree that does not register it
            continue
        out, scales = torch.empty(32, 128, dtype=torch.uint8), torch.empty(32, 8, dtype=torch.uint8)
        function(out, x, scales, 32, False)
        problems += _differs((out, scales), wanted, way)
    return problems


def scales_made(rule: str) -> list[str]:
    """The functions that make tensors."""
    x = _inputs()
    wanted = _expected(x, rule)
    problems = []
    for name in ("per_1x32_f4_quant_hip", "per_1x32_mx_quant_hip"):
        function = _there("aiter.ops.quant", name)
        if function is not None:
            problems += _differs(function(x), wanted, name)
    kinds: Any = importlib.import_module("aiter").QuantType
    given = _there("aiter.ops.quant", "get_hip_quant")(kinds.per_1x32)
    return problems + _differs(given(x), wanted, "get_hip_quant")


def scales_of_torch(rule: str) -> list[str]:
    """AITER's own torch is there to compare with."""
    from aiter_prebuilt_bridge import serving

    x = _inputs()
    function = _there("aiter.ops.quant", "per_1x32_f4_quant")
    theirs = getattr(function, serving.MARK)
    kinds: Any = importlib.import_module("aiter").QuantType
    given = _there("aiter.ops.quant", "get_torch_quant")(kinds.per_1x32)
    problems = _differs(function(x), theirs(x), "per_1x32_f4_quant") + _differs(
        given(x), theirs(x), "get_torch_quant"
    )
    if rule == "above":
        for mode in range(4):
            problems += _differs(
                function(x, round_mode=mode), theirs(x, round_mode=mode), f"round_mode {mode}"
            )
        turned = [each.view(_torch().uint8).T for each in theirs(x.T.contiguous())]
        problems += _differs(function(x, pack_dim=0), turned, "pack_dim 0")
    return problems + _differs(function(x, shuffle=True), theirs(x, shuffle=True), "shuffled")


def layouts(rule: str) -> list[str]:
    """Functions of torch alone, against AITER's own."""
    from aiter_prebuilt_bridge import serving

    del rule
    torch = _torch()
    shuffle = _there("aiter.utility.fp4_utils", "e8m0_shuffle")
    scales = torch.arange(256 * 16, dtype=torch.int32).to(torch.uint8).view(256, 16)
    problems = _differs((shuffle(scales),), (getattr(shuffle, serving.MARK)(scales),), "e8m0_shuffle")
    weight = _there("aiter.ops.triton.utils.shuffle", "shuffle_weight")
    if weight is not None:
        x = torch.arange(32 * 64, dtype=torch.int32).to(torch.uint8).view(32, 64)
        problems += _differs((weight(x),), (getattr(weight, serving.MARK)(x),), "shuffle_weight")
    return problems


def as_triton(rule: str) -> list[str]:
    """Scales from 1.75 of a power on, as AITER's Triton kernels make them in both trees.

    Codes halfway are the larger one, and the even one since 2026. The utility's scales had room behind them before that.
    """
    import aiter_prebuilt

    torch = _torch()
    x = _inputs()
    codes, scales = torch.empty(32, 128, dtype=torch.uint8), torch.empty(32, 8, dtype=torch.uint8)
    aiter_prebuilt.quant_mxfp4(x, codes, scales, 32, 2 if rule == "above" else 4)
    utility = _there("aiter.utility.fp4_utils", "dynamic_mxfp4_quant")
    problems = []
    aiter: Any = importlib.import_module("aiter")
    makers = utility, _there("aiter.ops.quant", "get_triton_quant")(aiter.QuantType.per_1x32)
    for maker in makers:
        made = maker(x)
        if (made[0].dtype, made[1].dtype) != (torch.float4_e2m1fn_x2, torch.float8_e8m0fnu):
            problems.append(f"types {made[0].dtype} and {made[1].dtype}")
        if made[1].shape != ((32, 8) if rule == "above" else (256, 8)):
            problems.append(f"scales of {tuple(made[1].shape)}")
        problems += _differs((made[0], made[1][:32]), (codes, scales), maker.__name__)
    place = "aiter.ops.triton.quant.quant" if rule == "above" else "aiter.ops.triton.quant"
    others = {"Triton": _there(place, "dynamic_mxfp4_quant")}
    given = _there("aiter.ops.triton.moe.moe_op_gemm_a4w4", "mxfp4_quant")
    if given:
        others["mxfp4_quant"] = lambda each: given(each, 16, 64)
    assert None not in others.values()
    return problems + [
        text for name, each in others.items() for text in _differs(each(x), (codes, scales), name)
    ]


def norm(rule: str) -> list[str]:
    """By AITER's places, of which the seventh was another."""
    del rule
    torch = _torch()
    x, residual, weight = (torch.randn(3, 40, dtype=torch.bfloat16) for _ in range(3))
    out, written = torch.empty_like(x), torch.empty_like(x)
    _there("aiter.ops.rmsnorm", "rmsnorm2d_fwd_with_add")(out, x, residual, written, weight[0], 1e-5, 0)
    total = x.double() + residual.double()
    wanted = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-5) * weight[0].double()
    problems = [] if torch.equal(written, total.to(x.dtype)) else ["the sum is wrong"]
    far = ((out.double() - wanted).abs() > 0.02 * wanted.abs() + 0.02).sum()
    return problems + ([f"{int(far)} elements are far off"] if far else [])


def handles(rule: str) -> list[str] | None:
    """A communicator of ours goes to functions of ours alone, however they are spelled."""
    del rule
    from aiter_prebuilt.errors import AiterPrebuiltError

    _torch().cuda.current_device = lambda: 0  # which asks for a torch with GPUs
    get, opened = (
        _there("aiter.ops.quick_all_reduce", name) for name in ("qr_get_handle", "qr_open_handles")
    )
    made = _there("aiter.ops.quick_all_reduce", "init_custom_qr")(0, 2, 1 << 20)
    problems = []
    if len(get.__signature__.parameters) == 1:
        handle = get(made)
        if tuple(handle.shape) != (64,) or not handle.any():
            problems.append(f"a handle of {tuple(handle.shape)}")
        wrong: Any = [handle]
    else:
        wrong = [0]
    try:
        opened(made, wrong)
        problems.append("handles of one rank of two were opened")
    except AiterPrebuiltError:
        pass
    _there("aiter.ops.quick_all_reduce", "qr_destroy")(made)
    return problems


def paged_logits(rule: str) -> list[str] | None:
    """The older tree's spelling against ours."""
    if rule != "half":
        return None
    import aiter_prebuilt

    torch = _torch()
    kind = torch.float8_e4m3fnuz if sys.argv[3] == "gfx942" else torch.float8_e4m3fn
    q = torch.randn(2, 1, 64, 128).to(kind)
    cache = torch.zeros(40, 1, 1, 132, dtype=torch.uint8)
    cache[..., :128] = torch.randn(40, 1, 1, 128).to(kind).view(torch.uint8)
    cache[..., 128:] = torch.rand(40, 1, 1, 1).view(torch.uint8)
    weights, lengths = torch.rand(2, 64), torch.tensor([11, 16], dtype=torch.int32)
    lists = torch.randperm(40, dtype=torch.int32)[:32].view(2, 16)
    results = [torch.full((2, 16), 7.0) for _ in range(2)]
    _there("aiter.ops.triton.pa_mqa_logits", "deepgemm_fp8_paged_mqa_logits")(
        q, cache, weights, results[0], lengths, lists, 16, 64, 5
    )
    aiter_prebuilt.deepgemm_fp8_paged_mqa_logits(q, cache, weights, results[1], lengths, lists, 16)
    return [] if torch.equal(*results) and not (results[0] == 7).all() else ["other bits than ours"]


def batch_prefill(rule: str) -> list[str]:
    """By AITER's places, with and without those that the older tree has not."""
    torch = _torch()
    q = torch.randn(7, 2, 128, dtype=torch.bfloat16)
    k, v = torch.randn(2, 9, 1, 128).to(torch.bfloat16)
    begins, ends = torch.tensor([0, 7], dtype=torch.int32), torch.tensor([0, 9], dtype=torch.int32)
    pages = torch.randperm(9, dtype=torch.int32)
    sink = () if rule == "half" else (0,)
    given = (q, k, v, begins, ends, pages, 7, 9, 0.0, 0.1, 0.0, False, True, -1, -1, *sink, False, False)
    out = _there("aiter.ops.mha", "mha_batch_prefill")(*given)[0]
    keys, values = (each.double()[pages.long(), 0] for each in (k, v))
    scores = torch.einsum("qhd,kd->hqk", q.double(), keys) * 0.1
    mask = torch.arange(9)[None] > torch.arange(7)[:, None] + 2
    wanted = torch.einsum("hqk,kd->qhd", scores.masked_fill(mask, -torch.inf).softmax(-1), values)
    worst = float((out.double() - wanted).abs().max())
    return [] if worst < 0.03 else [f"off by {worst}"]


def experts(rule: str) -> list[str] | None:
    """By AITER's places, of which the last two are behind others in August 2026, against ours by name. gfx942 has none."""
    import aiter_prebuilt

    if sys.argv[3] == "gfx942":
        return None

    torch = _torch()
    place = "aiter.ops.triton.moe." if rule == "above" else "aiter.ops.triton."
    function = _there(f"{place}moe_op_gemm_a8w4", "moe_gemm_a8w4")
    x = torch.randn(5, 128).to(torch.float8_e4m3fn)
    pairs = torch.randint(0, 256, (4, 64, 64), dtype=torch.uint8).transpose(1, 2)
    scales = torch.randint(120, 125, (4, 64, 4), dtype=torch.uint8).transpose(1, 2)
    one = torch.ones(1)
    bias = torch.randn(4, 64)
    data, gather, _ = aiter_prebuilt.routing(torch.randn(5, 4, dtype=torch.bfloat16), 2)
    given = (
        x,
        pairs,
        None,
        scales,
        one,
        None,
        bias,
        data,
        gather,
        None,
        None,
        None,
        torch.bfloat16,
        True,
        1.7,
        7.0,
    )
    more = (60, 100) if rule == "half" else ()
    named = {} if rule == "half" else {"unpadded_N": 60, "unpadded_K": 100}
    wanted = aiter_prebuilt.moe_gemm_a8w4(*given, unpadded_N=60, unpadded_K=100)
    found = function(*given, *more, **named)
    assert found.shape == (10, 32) and not found.isnan().any()
    return [] if torch.equal(found, wanted) else ["other bits than ours"]


def flattened(rule: str) -> list[str]:
    """Two dims made one, of rows that lie apart: groups of fp8 near float64, MXFP4 as of a matrix."""
    torch = _torch()
    place = "aiter.ops.triton.quant." if rule == "above" else "aiter.ops.triton."
    fp8 = _there(f"{place}fused_fp8_quant", "fused_flatten_fp8_group_quant")
    fp4 = _there(f"{place}fused_mxfp4_quant", "fused_flatten_mxfp4_quant")
    x = torch.randn(3, 5, 256, dtype=torch.bfloat16).transpose(0, 1)
    flat = x.reshape(5, 768)
    problems = []
    for options in ({}, {"transpose_scale": True})[: 2 if rule == "above" else 1]:
        codes, scales = fp8(x, 128, **options)
        wanted = flat.double().unflatten(1, (-1, 128)).abs().amax(-1) / torch.finfo(codes.dtype).max
        if (
            scales.stride() != ((1, 5) if options else (6, 1))
            or ((scales - wanted) / wanted).abs().max() > 1e-6
        ):
            problems.append(f"scales of fp8 {scales.stride()}")
        found = codes.double().unflatten(1, (-1, 128)) * scales.double().unsqueeze(-1)
        if (
            codes.shape != (5, 768)
            or (found.flatten(1) - flat.double()).abs().max() > 0.07 * flat.abs().max()
        ):
            problems.append("codes of fp8")
    codes, scales = _there("aiter.utility.fp4_utils", "dynamic_mxfp4_quant")(flat)
    matrix = codes, scales[:5]
    made = fp4(x)
    strides = [] if made[1].stride() == (1, 5) else [f"scales of fp4 {made[1].stride()}"]
    return problems + strides + _differs((made[0], made[1].contiguous()), matrix, "fp4")


def block_scales(rule: str) -> list[str]:
    """Products with block scales that are written into a tensor, or whose weight has 16 rows in one, beside float64."""
    torch = _torch()
    kind = torch.float8_e4m3fnuz if sys.argv[3] == "gfx942" else torch.float8_e4m3fn
    rows, n, k = 5, 256, 512
    x, w = (torch.randn(each, k).to(kind) for each in (rows, n))
    xs, ws = torch.rand(rows, k // 128), torch.rand(n // 128, k // 128)
    wanted = (x.double().unflatten(1, (-1, 128)) * xs.double().unsqueeze(-1)).flatten(1) @ (
        w.double().unflatten(1, (-1, 128)) * ws.double().repeat_interleave(128, 0).unsqueeze(-1)
    ).flatten(1).T
    shuffled = w.view(torch.uint8).view(n // 16, 16, k // 32, 2, 16).permute(0, 2, 3, 1, 4).contiguous()
    weight = shuffled.view(n, k).view(kind)
    turned = xs.T.contiguous().view(rows, -1)
    place = "aiter.ops.gemm_op_a8w8"
    out = [torch.full((rows, n), torch.nan, dtype=torch.bfloat16) for _ in range(4)]
    plain, other = (
        _there(place, name) for name in ("gemm_a8w8_blockscale_ck", "gemm_a8w8_blockscale_bpreshuffle_ck")
    )
    made = {"ck": plain(x, w, xs, ws, out[0]), "bpreshuffle_ck": other(x, weight, turned, ws, out[1])}
    if rule == "above":
        asm = _there(place, "gemm_a8w8_blockscale_bpreshuffle_asm")
        made["asm"] = asm(x, weight, out[2], turned, ws, splitK=2)
        made["cktile"] = _there(place, "gemm_a8w8_blockscale_cktile")(x, w, xs, ws, out[3], splitK=1)
        triton = _there("aiter.ops.triton.gemm.basic.gemm_a8w8_blockscale", "gemm_a8w8_blockscale_preshuffle")
        rowed = weight.view(torch.uint8).view(n // 16, k * 16)
        made["turned"] = triton(x, rowed, turned, ws)
        made["strided"] = triton(x, rowed.view(kind), xs, ws, is_x_scale_tranposed=False, y=out[0].clone())
    far = {
        name: float((each.double() - wanted).abs().max() / wanted.abs().max()) for name, each in made.items()
    }
    kept = [
        f"out {place} is not written" for place, each in enumerate(out[: len(made)]) if each.isnan().any()
    ]
    return [f"{name} is off by {each}" for name, each in far.items() if not each < 0.01] + kept


def enumerations(rule: str) -> list[str]:
    """AITER's classes stay AITER's: their members are ours by name and value, and options of ours take them."""
    import aiter_prebuilt
    from aiter_prebuilt.ops._common import number

    aiter: Any = importlib.import_module("aiter")
    kinds: list[Any] = [aiter.ActivationType, aiter.QuantType]
    if rule == "above":
        kinds.append(importlib.import_module("aiter.ops.flydsl.moe_common").GateMode)
    problems = []
    for kind in kinds:
        members = dict(getattr(kind, "__members__", {}))
        mine = getattr(aiter_prebuilt, kind.__name__).__members__
        if not members or any(mine.get(name) != member.value for name, member in members.items()):
            problems.append(f"{kind.__name__}: {members}")
        if any(number(member) != mine[name] for name, member in members.items()):
            problems.append(f"{kind.__name__}: no number of ours")
    return problems


_CHECKS: dict[str, Callable[[str], list[str] | None]] = {
    each.__name__: each
    for each in (
        scales_written, scales_made, scales_of_torch, layouts, as_triton, enumerations, norm, handles, paged_logits,
        batch_prefill, experts, flattened, block_scales,
    )
}  # fmt: skip
