"""What Dynamo traces of a hand-written function hands to the operator what the eager function does: the same tensors, new ones of
the same shapes and types, the same numbers. Every small call that the manifests have, both ways, and no kernel runs.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")

from support import call_tensors, torch_kernels  # noqa: E402

import aiter_prebuilt  # noqa: E402
from aiter_prebuilt.errors import ArgumentKindError  # noqa: E402
from aiter_prebuilt.execute.record import instead  # noqa: E402
from aiter_prebuilt.tracing import (  # noqa: E402
    attention,
    generated,
)

#: Modules with functions that are written by hand: they call torch's operators.
MODULES = [
    module
    for module in (
        import_module(f"aiter_prebuilt.tracing.{path.stem}")
        for path in sorted(Path(generated.__file__).parent.glob("[!_]*.py"))
    )
    if hasattr(module, "_OPS") and module is not generated
]
WRITTEN = sorted(
    {
        name
        for module in MODULES
        for name, value in vars(module).items()
        if name in generated.TRACED and inspect.isfunction(value) and value.__module__ == module.__name__
    }
)
#: A call is tried as it is, and with each of these left out or asked for where its function has them.
FORMS: tuple[dict[str, Any], ...] = (
    {}, {"YQ": None}, {"y": None}, {"out": None}, {"out_": None}, {"dq": None, "dv": None}, {"return_lse": True},
    {"num_kv_splits": None}, {"q_out": None, "k_out": None, "zeros_out": None},
    {"q_out": None, "decode_q_pe_out": None, "k_pe_out": None},
)  # fmt: skip


#: Places of the results among the tensors of the native call, where torch's operator makes them. The type comes last.
MADE = {
    "gemm_a4w4": (5,), "upcast_from_mxfp": (2,), "upcast_from_mxfp8": (2,), "downcast_to_mxfp": (1, 2),
    "downcast_to_mxfp8": (1, 2),
}  # fmt: skip


def eager(name: str, arguments: dict[str, Any]) -> tuple[list[Any], Any]:
    """What goes to the native side, and what comes back."""
    seen: list[list[Any]] = []
    function = getattr(aiter_prebuilt, name)
    with instead(function, lambda to, tensors, attributes: seen.append([*_viewed(to, tensors), *attributes])):
        result = function(**arguments)
    (only,) = seen
    return only, result


def _viewed(operator: Any, tensors: list[Any]) -> list[Any]:
    """Tensors as an operator with views reads them: those with a dim of size 1 more."""
    for kind, place, *order in operator.views or ():
        if kind == "order" and tensors[place] is not None and tensors[place].dim() == order[0]:
            assert [dim for dim in order[1] if dim >= 0] == list(range(order[0])), "no dims change places"
            tensors[place] = tensors[place].unsqueeze(order[1].index(-1))
    return tensors


def traced(
    name: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch, made: list[Any]
) -> tuple[list[Any], Any]:
    """The same of what is traced, which is called here as plain Python; torch's operator returns what is ``made``."""
    seen: list[list[Any]] = []

    def called(*values: Any) -> Any:
        seen.append(list(values))
        return (made[0] if len(made) == 1 else tuple(made)) if made else None

    stand_in = SimpleNamespace(default=called)
    for module in MODULES:
        monkeypatch.setattr(module, "_OPS", SimpleNamespace(**{name: stand_in}))
    monkeypatch.setattr(attention, "_units", lambda ordinal: 256)
    result = generated.TRACED[name](**arguments)
    (only,) = seen
    return only, result


def alike(one: Any, two: Any, given: list[Any]) -> bool:
    """The same argument, or two new tensors of one shape, type and layout, or the same number."""
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        if any(one is each for each in given):
            return one is two
        return (one.shape, one.dtype, one.stride()) == (two.shape, two.dtype, two.stride())
    if isinstance(one, (tuple, list)):
        return len(one) == len(two) and all(alike(*pair, given) for pair in zip(one, two, strict=True))
    return type(one) is type(two) and bool(one == two)


def test_every_function_by_hand_is_here() -> None:
    assert len(WRITTEN) > 50 and "flash_attn_func" in WRITTEN


@pytest.mark.parametrize("name", WRITTEN)
def test_the_traced_function_hands_on_what_the_eager_one_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiter_prebuilt.ops.mla_decode.compute_units", lambda _: 256)
    calls = [
        call
        for target in (torch_kernels.TARGET, "gfx942")
        for call in call_tensors.small(target)
        if call.operator == name and call.compute_units == 0
    ]
    parameters = inspect.signature(getattr(aiter_prebuilt, name)).parameters
    compared = 0
    for call in calls:
        plain = call_tensors.arguments(call)
        for form in FORMS:
            if not set(form) <= set(parameters):
                continue
            arguments = {**plain, **form}
            given = [value for value in arguments.values() if isinstance(value, torch.Tensor)]
            one, back = eager(name, arguments)
            made = [one[place] for place in MADE.get(name, ())]
            one = [value for place, value in enumerate(one) if place not in MADE.get(name, ())]
            two, again = traced(name, arguments, monkeypatch, made)
            if made:
                results = back if isinstance(back, tuple) else (back,)
                assert all(one is two for one, two in zip(results, made, strict=True))
                assert two.pop() in (None, made[0].dtype)
            assert len(one) == len(two)
            assert all(alike(*pair, given) for pair in zip(one, two, strict=True)), (
                f"{name} {call.label} {form}"
            )
            assert alike(back, again, given), f"{name} {call.label} {form}: what it returns"
            compared += 1
    assert compared


BF16, F32, FP8 = torch.bfloat16, torch.float32, torch.float8_e4m3fn
#: A product, and the operand types, the result's and the words of a call whose caller holds the memory of the result.
HELD: tuple[tuple[str, Any, Any, dict[str, Any]], ...] = (
    ("gemm_a16w16", BF16, BF16, {}), ("gemm_a16w16_fp32", BF16, F32, {"otype": F32}),
    ("gemm_a16w16_fp32", BF16, F32, {"dtype": F32}), ("gemm_a16w16_fp32", BF16, F32, {}),
)  # fmt: skip


@pytest.mark.parametrize(("operator", "kind", "result", "words"), HELD)
def test_a_traced_product_fills_the_memory_of_its_caller(
    operator: str, kind: Any, result: Any, words: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, y = (
        torch.zeros(5, 64, dtype=kind),
        torch.zeros(16, 64, dtype=kind),
        torch.zeros(5, 16, dtype=result),
    )
    seen: list[Any] = []
    made = torch.ones(5, 16, dtype=result)

    def call(*values: Any) -> Any:
        seen.append(values)
        return made

    stand_in = SimpleNamespace(default=call)
    monkeypatch.setattr(generated, "_OPS", SimpleNamespace(**{operator: stand_in}))
    traced_product = generated.TRACED["gemm_a16w16"]
    assert traced_product(a, b, y=y, **words) is y and bool((y == 1).all())
    assert [value is given for value, given in zip(seen[0], (a, b, None), strict=True)] == [True] * 3
    if words:
        assert traced_product(a, b, **words) is made


@pytest.mark.parametrize("wrong", [torch.zeros(5, 16, dtype=torch.float16), torch.zeros(5, 17, dtype=BF16),
                                   torch.zeros(16, 5, dtype=BF16).T])  # fmt: skip
def test_a_traced_product_takes_no_other_memory(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = torch.ones(5, 16, dtype=BF16)
    stand_in = SimpleNamespace(default=lambda *_: made)
    monkeypatch.setattr(generated, "_OPS", SimpleNamespace(gemm_a16w16=stand_in))
    with pytest.raises(ArgumentKindError, match="gemm_a16w16: its result needs a contiguous"):
        generated.TRACED["gemm_a16w16"](
            torch.zeros(5, 64, dtype=BF16), torch.zeros(16, 64, dtype=BF16), y=wrong
        )


def test_a_traced_product_of_fp8_takes_the_type_of_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    y, seen = torch.zeros(5, 16, dtype=torch.float16), list[Any]()

    def call(*values: Any) -> Any:
        seen.append(values)
        return torch.ones_like(y)

    stand_in = SimpleNamespace(default=call)
    monkeypatch.setattr(generated, "_OPS", SimpleNamespace(gemm_a8w8_blockscale=stand_in))
    given = (
        torch.zeros(5, 128, dtype=FP8),
        torch.zeros(16, 128, dtype=FP8),
        torch.zeros(5, 1),
        torch.zeros(1, 1),
    )
    assert generated.TRACED["gemm_a8w8_blockscale"](*given, BF16, y=y, config={}) is y
    assert seen[0][-1] == torch.float16
