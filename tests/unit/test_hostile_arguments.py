"""Whatever a caller gives for an argument, a public function ends in a named error or serves the call.

No kernel runs: a stand-in takes what would go to the native operators. What those say of attributes is asked in
``tests/native/test_arguments.py``.
"""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from types import FunctionType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")

from support import public_calls  # noqa: E402

import aiter_prebuilt  # noqa: E402
from aiter_prebuilt.errors import AiterPrebuiltError, ArgumentError, ArgumentKindError  # noqa: E402
from aiter_prebuilt.execute.record import instead  # noqa: E402
from aiter_prebuilt.ops._named_errors import _unlike  # noqa: E402

BF16 = torch.bfloat16


class Hostile:
    """Raise whatever is asked of it."""

    def __bool__(self) -> bool:
        raise ZeroDivisionError("no truth")

    def __repr__(self) -> str:
        raise ZeroDivisionError("no text")

    __index__ = __float__ = __len__ = __iter__ = __eq__ = __bool__  # type: ignore[assignment]
    __hash__ = object.__hash__


#: What no argument should be, or only some may be.
VALUES: tuple[Any, ...] = (
    "a", "", None, 2**31, 2**63, 2**70, 2**2000, -1, 0, -(2**31), float("nan"), float("inf"), 1e300, 1.5, True, 1j, b"x", (), [],
    {}, (1, 2), [1, "a"], object(), Hostile(), np.arange(3), np.zeros(()), np.float32(2), np.int64(3), np.bool_(True),
    torch.zeros(3), torch.zeros(()), torch.zeros(0), torch.bfloat16, int, len,
)  # fmt: skip
#: What an option may be given by mistake.
OPTIONS: tuple[Any, ...] = ("a", None, [1], np.float32(2.5), np.int64(3), 2**70)
#: Functions that wait for other processes, or load kernels of a device.
ELSEWHERE = {"init_custom_qr", "preload", "qr_max_size"}
FUNCTIONS = sorted(set(public_calls.FUNCTIONS) - ELSEWHERE)


def _matrix(*shape: int, dtype: Any = BF16) -> Any:
    return torch.ones(*shape, dtype=dtype)


@pytest.fixture(scope="module")
def nothing_runs() -> Iterator[None]:
    """Every native operator of every function is a stand-in."""
    for name in FUNCTIONS:
        getattr(aiter_prebuilt, name)
    modules = [module for name, module in sys.modules.items() if name.startswith("aiter_prebuilt.ops")]
    with ExitStack() as stack:
        for module in modules:
            function = FunctionType((lambda: None).__code__, vars(module))
            stack.enter_context(instead(function, lambda *_: None))
        yield


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_refusal_is_a_named_error(name: str) -> None:
    function = getattr(aiter_prebuilt, name)
    raw = []
    for parameter in inspect.signature(function).parameters:
        for value in VALUES:
            try:
                function(**{**public_calls.arguments(name), parameter: value})
            except AiterPrebuiltError:
                continue
            except Exception as error:  # noqa: BLE001  # that is the question
                raw.append(f"{parameter}={type(value).__name__}: {type(error).__name__}: {error}")
    assert not raw


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_option_of_another_kind_is_refused_by_its_name(name: str) -> None:
    function, given = getattr(aiter_prebuilt, name), public_calls.arguments(name)
    try:
        function(**given)
    except AiterPrebuiltError:
        pytest.skip("the base call is refused, whatever its options")
    unnamed = []
    for parameter in inspect.signature(function).parameters.values():
        kinds = str(parameter.annotation)
        for value in OPTIONS if "Tensor" not in kinds else ():
            if _unlike(value, kinds):
                try:
                    function(**{**given, parameter.name: value})
                except AiterPrebuiltError as error:
                    if parameter.name not in str(error):
                        unnamed.append(f"{parameter.name}={value!r}: {error}")
    assert not unnamed


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("name", "argument", "value", "says"),
    [
        ("rms_norm", "use_model_sensitive_rmsnorm", np.arange(3), "rms_norm: use_model_sensitive_rmsnorm must be an int of"),
        ("flash_attn_func", "softmax_scale", "a", "flash_attn_func: softmax_scale must be a float or None, got 'a'"),
        ("flash_attn_func", "sink_ptr", np.arange(3), "sink_ptr must be a torch.Tensor or None, got a numpy.ndarray"),
        ("flash_attn_varlen_func", "max_seqlen_q", "a", "max_seqlen_q must be an int of 64 bits, got 'a'"),
        ("flash_attn_varlen_func", "min_seqlen_q", "a", "min_seqlen_q must be an int of 64 bits, got 'a'"),
        ("flash_attn_varlen_func", "logits_soft_cap", None, "flash_attn_varlen_func: logits_soft_cap must be a float, got None"),
        ("flash_attn_func", "q", None, "flash_attn_func: q must be a torch.Tensor, got None"),
        ("gemm_a4w4_asm", "bpreshuffle", np.arange(3), "gemm_a4w4_asm: bpreshuffle must be a bool"),
        ("fused_add_rmsnorm_pad", "x_pad_to_multiple", 2**70, "x_pad_to_multiple must be an int of 64 bits, got 11805"),
        ("fused_add_rmsnorm_pad", "x_pad_to_multiple", 2**62, "fused_add_rmsnorm_pad: the output cannot be allocated"),
    ],
)  # fmt: skip
def test_the_error_names_function_argument_and_value(name: str, argument: str, value: Any, says: str) -> None:
    with pytest.raises(ArgumentKindError) as caught:
        getattr(aiter_prebuilt, name)(**{**public_calls.arguments(name), argument: value})
    assert says in str(caught.value) and f"help(aiter_prebuilt.{name})" in str(caught.value)


@pytest.mark.usefixtures("nothing_runs")
def test_the_method_of_an_object_names_its_errors_too() -> None:
    given = {"inp": _matrix(4, 64), "weights": _matrix(8, 64), "otype": BF16}
    for parameter in inspect.signature(aiter_prebuilt.tgemm.mm).parameters:
        for value in VALUES:
            try:
                aiter_prebuilt.tgemm.mm(**{**given, parameter: value})
            except AiterPrebuiltError:
                continue
    with pytest.raises(ArgumentKindError, match=r"tgemm.mm: inp must be a torch.Tensor, got None"):
        aiter_prebuilt.tgemm.mm(**{**given, "inp": None})


def test_a_call_that_python_cannot_bind_is_told_by_python() -> None:
    with pytest.raises(TypeError, match="no_such_argument") as caught:
        aiter_prebuilt.flash_attn_func(no_such_argument=1)  # type: ignore[call-arg]
    assert not isinstance(caught.value, AiterPrebuiltError)


def test_errors_of_the_device_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(2, 8)
    for error in (
        torch.OutOfMemoryError("no memory"),
        RuntimeError("HIP error: illegal address"),
    ):

        def failing(*_: Any, error: Exception = error) -> Any:
            raise error

        monkeypatch.setitem(aiter_prebuilt.topk.__globals__, "topk_plain", failing)
        with pytest.raises(type(error)) as caught:
            aiter_prebuilt.topk(x, 1)
        assert caught.value is error


def test_a_device_without_memory_is_told_by_torch() -> None:
    """Servers catch torch's own class where an output cannot be allocated, and try again with less."""

    def no_memory(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("HIP out of memory")

    full: Any = type("Full", (torch.Tensor,), {"new_empty": no_memory})
    x = torch.ones(1, 4, 2, 64, dtype=BF16).as_subclass(full)
    with pytest.raises(torch.OutOfMemoryError, match="HIP out of memory"):
        aiter_prebuilt.flash_attn_func(x, x, x)


def test_a_host_without_memory_is_a_named_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setitem(aiter_prebuilt.topk.__globals__, "topk_plain", failing)
    with pytest.raises(ArgumentError, match="topk: the host has too little memory"):
        aiter_prebuilt.topk(torch.ones(2, 8), 1)


def test_guarded_functions_look_like_functions() -> None:
    for name in FUNCTIONS:
        function = getattr(aiter_prebuilt, name)
        assert pickle.loads(pickle.dumps(function)) is function
        assert function.__name__ == name and function.__doc__
