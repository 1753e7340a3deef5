"""Which operators a function launches is read from its code: all that it may, through helpers, tables and objects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import aiter_prebuilt
from aiter_prebuilt.__main__ import main
from aiter_prebuilt.bundles import locate
from aiter_prebuilt.commands import preload
from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import ArgumentError, ArgumentKindError, NoDeviceError
from aiter_prebuilt.launch import loading, operator_closure
from aiter_prebuilt.tracing import signatures

#: Public functions that launch no kernel of ours, and why.
NO_LAUNCH = dict.fromkeys(
    (
        "e8m0_shuffle", "moe_shuffle_scale", "moe_shuffle_weight", "shuffle_scale", "shuffle_scale_a16w4", "shuffle_weight",
        "shuffle_weight_a16w4",
    ),
    "torch moves the bytes, once, when weights are loaded",
) | dict.fromkeys(
    ("get_torch_quant", "per_1x32_f4_quant", "per_tensor_quant", "pertoken_quant"),
    "AITER's reference functions, of torch alone",
) | dict.fromkeys(
    ("get_mla_metadata_info_v1", "get_ps_metadata_info_v1"), "shapes of tensors, reckoned on the host"
) | dict.fromkeys(
    ("qr_destroy", "qr_get_handle", "qr_max_size", "qr_open_handles"), "memory and handles: the driver's"
) | {"swap_blocks": "torch's copies"}  # fmt: skip

pytest.importorskip("aiter_prebuilt._native", reason="operators are objects of the extension")


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("rms_norm", {"rms_norm"}),
        ("tgemm", {"gemm_a16w16", "gemm_a16w16_fp32"}),
        ("fused_topk", {"topk_softmax"}),
        ("mla_decode_fwd", {"mla_decode_fwd"}),
        ("get_hip_quant", {"dynamic_per_token_scaled_quant", "static_per_tensor_quant", "dynamic_per_tensor_quant"}),
        ("fused_moe", {"fused_experts", "fused_experts_a8w8", "fused_experts_mxfp4", "moe_sorting_fwd", "fmoe_g1u1"}),
        ("shuffle_weight", set()),
        ("qr_all_reduce", {"peer_all_reduce", "peer_all_reduce_codes"}),
        ("qr_all_reduce_rmsnorm", {"peer_all_reduce", "peer_all_reduce_codes", "rmsnorm2d_fwd_with_add"}),
        ("CustomAllreduce", {
            "peer_all_reduce", "peer_all_reduce_rmsnorm", "peer_all_gather", "peer_reduce_scatter", "fused_add_rmsnorm_pad",
            "rmsnorm2d_fwd_with_add", "add_rmsnorm_quant", "rmsnorm_quant", "dynamic_per_token_scaled_quant",
            "quant_mxfp4",
        }),
    ],
)  # fmt: skip
def test_operators_behind_a_function(name: str, operators: set[str]) -> None:
    found = set(operator_closure.operators_of(operator_closure.public(name)))
    assert operators <= found and bool(found) == bool(operators)
    assert found <= signatures.load().keys()


def test_every_operator_is_behind_its_own_function() -> None:
    """Of functions by hand as of generated ones, so that preload of a name is never of nothing."""
    names = signatures.load().keys() & aiter_prebuilt.ops.HOMES.keys()
    assert len(names) > 150
    # A function may have more than one operator, or stand on one of another name.
    empty = [name for name in names if not operator_closure.operators_of(operator_closure.public(name))]
    assert not empty, empty


def test_what_launches_nothing_has_a_reason() -> None:
    """Preloading any other public name is preloading something."""
    called = [
        name for name in aiter_prebuilt.__all__ if operator_closure.is_called(operator_closure.public(name))
    ]
    assert len(called) > 270
    empty = {name for name in called if not operator_closure.operators_of(operator_closure.public(name))}
    assert empty == NO_LAUNCH.keys()
    others = set(aiter_prebuilt.__all__) - set(called)
    assert others == {"__version__", "preload", "ActivationType", "GateMode", "QuantType"}


@pytest.mark.parametrize("name", ["__version__", "QuantType", "preload", 3, aiter_prebuilt.rms_norm])
def test_names_that_nothing_is_launched_by(name: Any) -> None:
    with pytest.raises(ArgumentKindError, match="preload"):
        loading.wanted(("rms_norm", name), "amd", 0)


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A card of each target, and what was loaded there."""
    cards = [
        SimpleNamespace(vendor="amd", ordinal=at, target=target)
        for at, target in enumerate(("gfx942", "gfx950"))
    ]
    bundles = [SimpleNamespace(target=each.target, profile="ck-free", tree="") for each in cards]
    said: list[str] = []

    def load(name: str, facts: Any) -> preload.Loaded:
        said.append(f"{name} {facts.target}")
        return preload.Loaded(name, "card", facts.target, 1, 0.0, "")

    monkeypatch.setattr(
        device, "probe", lambda vendor: SimpleNamespace(devices=cards if vendor == "amd" else [])
    )
    monkeypatch.setattr(locate, "installed", lambda: bundles)
    monkeypatch.setattr(
        loading, "operators", lambda vendor, ordinal: ("peer_all_reduce", "rms_norm", "softmax")
    )
    monkeypatch.setattr(preload, "_load", load)
    return said


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        (["rms_norm", "qr_all_reduce", "--target", "gfx950"], ["rms_norm gfx950", "peer_all_reduce gfx950"]),
        (["--operator", "tgemm", "--target", "gfx942"], ["tgemm gfx942"]),
        (
            ["rms_norm", "--operator", "softmax"],
            ["rms_norm gfx942", "softmax gfx942", "rms_norm gfx950", "softmax gfx950"],
        ),
        (["--target", "gfx942"], ["peer_all_reduce gfx942", "rms_norm gfx942", "softmax gfx942"]),
        (["shuffle_weight"], []),
    ],
)
def test_the_command_takes_names(words: list[str], loaded: list[str], two_devices: list[str]) -> None:
    assert main(["preload", *words]) == 0 and two_devices == loaded


def test_the_command_says_what_it_cannot_load(
    two_devices: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preload", "rms_norm", "--target", "sm_90"]) == NoDeviceError.exit_code
    assert main(["preload", "rms_norm", "--target", "gfx906"]) == ArgumentError.exit_code
    assert "gfx906 (MI50) is not supported" in capsys.readouterr().err
    assert main(["preload", "QuantType"]) == ArgumentKindError.exit_code
    assert "ArgumentKindError: Cannot preload 'QuantType'" in capsys.readouterr().err and not two_devices


@pytest.mark.parametrize("words", [["coverage", "--mod", "llama3"], ["coverage", "--model", "llama3", "--engin", "vllm"],
                                   ["preload", "--targ", "gfx942"], ["doctor", "--js"], ["--vers"]])  # fmt: skip
def test_options_have_no_short_forms(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2


def test_names_that_are_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that is no function is taken by its own name; of functions only operators that the device has."""
    assert operator_closure.public("no_such_name") is None
    monkeypatch.setattr(loading, "operators", lambda vendor, ordinal: ("fused_experts", "rms_norm"))
    wanted: Any = loading.wanted
    assert wanted(("rms_norm", "fused_moe", "no_such_name"), "amd", 0) == (
        "rms_norm",
        "fused_experts",
        "no_such_name",
    )
    assert wanted((), "amd", 0) == ("fused_experts", "rms_norm")
