"""An option that is a number is refused where it is None, as AITER does, unless None or any value is documented for it.

No kernel runs: a stand-in notes what would go to the native operators, which refuse None for a number themselves
(``tests/native/test_arguments.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from types import FunctionType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")

from support import public_calls  # noqa: E402

import aiter_prebuilt  # noqa: E402
from aiter_prebuilt.errors import AiterPrebuiltError  # noqa: E402
from aiter_prebuilt.execute.record import instead  # noqa: E402

#: Functions that wait for other processes, or ask the driver for a device.
ELSEWHERE = {
    "init_custom_qr", "preload", "qr_max_size", "qr_all_reduce", "qr_all_reduce_rmsnorm", "qr_get_handle", "qr_open_handles",
    "qr_destroy", "get_mla_metadata_info_v1", "get_ps_metadata_info_v1", "per_group_quant_hip",
}  # fmt: skip
FUNCTIONS = sorted(set(public_calls.FUNCTIONS) - ELSEWHERE)


@pytest.fixture(scope="module")
def handed() -> Iterator[list[Any]]:
    """Every native operator of every function is a stand-in; return the list of what they get."""
    for name in FUNCTIONS:
        getattr(aiter_prebuilt, name)
    got: list[Any] = []

    def note(given: Any) -> None:
        for each in given:
            (note if isinstance(each, (tuple, list)) else got.append)(each)

    with ExitStack() as stack:
        for module in [
            module for name, module in sys.modules.items() if name.startswith("aiter_prebuilt.ops")
        ]:
            stack.enter_context(
                instead(FunctionType((lambda: None).__code__, vars(module)), lambda *given: note(given))
            )
        yield got


@pytest.mark.parametrize("name", FUNCTIONS)
def test_none_is_refused_or_handed_on(name: str, handed: list[Any]) -> None:
    """To a native operator, which refuses it."""
    function = getattr(aiter_prebuilt, name)
    handed.clear()
    function(**public_calls.arguments(name))
    usual = sum(each is None for each in handed)
    silent = []
    for option in public_calls.numbers_of(name):
        handed.clear()
        try:
            function(**{**public_calls.arguments(name), option: None})
        except AiterPrebuiltError as error:
            if option not in str(error):
                silent.append(f"{option}: {error}")
            continue
        if sum(each is None for each in handed) <= usual:
            silent.append(option)
    assert not silent


@pytest.mark.parametrize(
    "name",
    ["flash_attn_func", "flash_attn_varlen_func", "mha_fwd", "mha_varlen_fwd", "mha_bwd", "mha_varlen_bwd"],
)
@pytest.mark.parametrize("value", [None, "a", float("nan"), 1.0, -0.5])
@pytest.mark.usefixtures("handed")
def test_dropout_is_a_share_below_one(name: str, value: Any) -> None:
    with pytest.raises(AiterPrebuiltError, match=f"{name}.*dropout_p") as caught:
        getattr(aiter_prebuilt, name)(**{**public_calls.arguments(name), "dropout_p": value})
    if not isinstance(value, float):
        assert f"dropout_p must be a float, got {value!r}" in str(caught.value)


@pytest.mark.usefixtures("handed")
def test_none_is_no_dropout_with_gradients_either() -> None:
    given = public_calls.arguments("flash_attn_func")
    with pytest.raises(AiterPrebuiltError, match="dropout_p must be a float, got None"):
        aiter_prebuilt.flash_attn_func(
            **{**given, "q": given["q"].clone().requires_grad_(), "dropout_p": None}
        )
