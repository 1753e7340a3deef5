"""Norms, activations, products, layouts of weights, and calls that compute nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from emulator.composed_calls.place import PACKAGE, Call, Place, host, near

import aiter_prebuilt as ap


def head_norms(place: Place, form: str) -> None:
    """Both norms of latent attention's two inputs."""
    q, k = place.normal(5, 256), place.normal(5, 128)
    a, b = place.normal(256), place.normal(128)
    if form == "_fused_qk_rmsnorm":
        found = PACKAGE._fused_qk_rmsnorm(None, q, a, 1e-6, None, k, b, 1e-6)
    else:
        found = ap.fused_qk_rmsnorm(q=q, q_weight=a, q_epsilon=1e-6, k=k, k_weight=b, k_epsilon=1e-6)
        assert found is not None
    for out, x, w in zip(found, (q, k), (a, b), strict=True):
        near(out, host(x) * (host(x).square().mean(-1, keepdim=True) + 1e-6).rsqrt() * host(w), 2**-6)


def silu(place: Place) -> None:
    """``fused_silu_mul``."""
    x = place.normal(5, 128)
    gate, up = host(x).chunk(2, -1)
    near(ap.fused_silu_mul(x), torch.nn.functional.silu(gate) * up, 2**-6)


def library_products(place: Place) -> None:
    """``hipb_mm``: 16-bit and fp8 matrices, a bias, GELU, scales of one value and of a row, a shuffled weight."""
    x, weight, bias = place.normal(5, 64), place.normal(48, 64), place.normal(48)
    plain = host(x) @ host(weight).T
    near(ap.hipb_mm(x, weight.t(), 7), plain, 0.02, like=x)
    near(ap.hipb_mm(x, weight.t().contiguous(), -1, None, torch.float32), plain, 1e-4)
    near(ap.hipb_mm(x.t().contiguous().t(), weight.t(), 0, bias), plain + host(bias), 0.02, like=x)
    gelu = torch.nn.functional.gelu(plain + host(bias), approximate="tanh")
    near(ap.hipb_mm(x, weight.t(), 0, bias, use_gelu=True), gelu, 0.02, like=x)
    blocks_of_16 = ap.shuffle_weight(weight, (16, 16)).t()
    near(ap.hipb_mm(x, blocks_of_16, -1, bias, bpreshuffle=True), plain + host(bias), 0.02, like=x)
    near(ap.hipb_mm(x, blocks_of_16, -1, out_dtype=torch.float32, bpreshuffle=True), plain, 1e-4)
    x8, weight8 = x.to(place.fp8), weight.to(place.fp8)
    rows = torch.rand(5, 1, generator=place.draw).to(place.device)
    columns = torch.rand(1, 48, generator=place.draw).to(place.device)
    codes = host(x8) @ host(weight8).T
    scaled = codes * host(rows) * host(columns)
    kind, given = torch.bfloat16, {"scaleA": rows, "scaleB": columns}
    near(ap.hipb_mm(x8, weight8.t(), 0, bias, kind, **given), scaled + host(bias), 0.02, like=x)
    one = rows[:1]
    near(ap.hipb_mm(x8, weight8.t(), 0, None, torch.float16, one), codes * float(one), 0.02)
    near(ap.hipb_mm(x8, weight8.t(), 0, out_dtype=kind, scaleB=one), codes * float(one), 0.02, like=x)
    turned_weight = ap.shuffle_weight(weight8, (16, 16)).t()
    near(ap.hipb_mm(x8, turned_weight, 0, None, kind, **given, bpreshuffle=True), scaled, 0.02, like=x)


def without_a_handle(call: Callable[[], None]) -> None:
    """``hipb_create_extension`` and its kin open no library: a product needs no call of them."""
    assert call() is None  # type: ignore[func-returns-value]


def moved_back(place: Place, name: str) -> None:
    """The layouts of weights and scales: what the processor makes of the same bytes, and no byte is lost."""
    shuffle = getattr(PACKAGE, name)
    rest: tuple[Any, ...]
    if name == "e8m0_shuffle":
        x, rest = place.whole(256, 256, 8, kind=torch.uint8), ()
    elif "scale" in name:
        x = place.whole(256, 2 * 256, 8, kind=torch.uint8)
        rest = (2, True) if name == "shuffle_scale_a16w4" else (2,)
    elif name == "shuffle_weight_a16w4":
        x, rest = place.whole(256, 2, 64, 128, kind=torch.uint8), (16, True)
    elif name == "moe_shuffle_weight":
        x, rest = place.whole(256, 2, 64, 128, kind=torch.uint8), (2,)
    else:
        x, rest = place.normal(2, 64, 128), ()
    found, right = shuffle(x, *rest), shuffle(x.cpu(), *rest)
    assert (
        found.is_cuda
        and found.dtype == right.dtype
        and torch.equal(found.cpu().view(torch.uint8), right.view(torch.uint8))
    )
    assert torch.equal(
        found.cpu().view(torch.uint8).flatten().sort().values,
        x.cpu().view(torch.uint8).flatten().sort().values,
    )


def preloaded(place: Place) -> None:
    """``preload`` loads kernels."""
    del place
    assert ap.preload("rms_norm") > 0


def check(holds: bool) -> None:
    """Assert."""
    assert holds


#: Function -> its call.
CALLS: Final[dict[str, Call]] = {
    "fused_silu_mul": silu,
    "hipb_mm": library_products,
    "hipb_create_extension": lambda _: without_a_handle(ap.hipb_create_extension),
    "hipb_destroy_extension": lambda _: without_a_handle(ap.hipb_destroy_extension),
    "preload": preloaded,
    "qr_max_size": lambda place: check(ap.qr_max_size() > 0),
    **{
        name: partial(moved_back, name=name)
        for name in (
            "e8m0_shuffle",
            "shuffle_scale",
            "moe_shuffle_scale",
            "shuffle_scale_a16w4",
            "shuffle_weight",
            "moe_shuffle_weight",
            "shuffle_weight_a16w4",
        )
    },
    **{name: partial(head_norms, form=name) for name in ("_fused_qk_rmsnorm", "fused_qk_rmsnorm")},
}
