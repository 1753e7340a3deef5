"""What Dynamo traces of a function makes the native calls of the eager function: every small call that the manifests have, in all
its forms. Both run here as plain Python, and no kernel runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")

from support import call_tensors, public_calls, torch_kernels  # noqa: E402

import aiter_prebuilt  # noqa: E402
from aiter_prebuilt.devices import device  # noqa: E402
from aiter_prebuilt.errors import AiterPrebuiltError  # noqa: E402
from aiter_prebuilt.launch.graph_break import is_traced  # noqa: E402

#: A call is tried as it is, and with each of these left out or asked for where its function has such options.
FORMS: tuple[dict[str, Any], ...] = (
    {}, {"YQ": None}, {"y": None}, {"out": None}, {"out_": None}, {"dq": None, "dv": None}, {"return_lse": True},
    {"num_kv_splits": None}, {"q_out": None, "k_out": None, "zeros_out": None},
    {"q_out": None, "decode_q_pe_out": None, "k_pe_out": None},
)  # fmt: skip
FACTS = device.DeviceFacts("amd", 0, "a GPU", "gfx950", "gfx950", frozenset(), 256, 1 << 30, 1)


@pytest.fixture(scope="module")
def seen() -> Iterator[list[torch_kernels.NativeCall]]:
    """The calls of kernels, which do nothing else."""
    yield from torch_kernels.recorded()


@pytest.fixture
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU of 256 compute units."""
    from aiter_prebuilt.tracing import functions

    for module in (device, functions.DEVICE):
        monkeypatch.setattr(module, "facts", lambda *_: FACTS)


def _calls(name: str) -> Iterator[dict[str, Any]]:
    parameters = inspect.signature(getattr(aiter_prebuilt, name)).parameters
    optional = {key for key, each in parameters.items() if each.default is None or each.default is False}
    for target in (torch_kernels.TARGET, "gfx942"):
        for call in call_tensors.small(target):
            if call.operator == name:
                for form in FORMS:
                    if set(form) <= optional:
                        yield call_tensors.arguments(call) | form


def _shown(result: Any, given: list[Any]) -> Any:
    """A result without its values: an argument by its place, a new tensor by shape, element type and strides."""
    if isinstance(result, tuple | list):
        return [_shown(each, given) for each in result]
    if isinstance(result, torch.Tensor):
        place = next((place for place, each in enumerate(given) if each is result), None)
        return (tuple(result.shape), result.dtype, result.stride()) if place is None else place
    return result


@pytest.mark.usefixtures("_gpu")
@pytest.mark.parametrize("home", sorted(set(aiter_prebuilt.ops.HOMES.values())))
def test_the_traced_function_makes_the_calls_of_the_eager_one(
    seen: list[torch_kernels.NativeCall], home: str
) -> None:
    from aiter_prebuilt.tracing.functions import TRACED

    for name in [name for name, its in aiter_prebuilt.ops.HOMES.items() if its == home]:
        compared = 0
        for arguments in _calls(name):
            traced = TRACED[name](**arguments)
            calls = [*seen]
            seen.clear()
            given = {key: torch_kernels.dispatched(each) for key, each in arguments.items()}
            eager = getattr(aiter_prebuilt, name)(**given)
            assert calls and calls == seen, name
            seen.clear()
            found = _shown(traced, [*arguments.values()]), _shown(eager, [*given.values()])
            assert found[0] == found[1], name
            compared += 1
        assert compared, name


@pytest.mark.parametrize(
    "name", [name for name in public_calls.FUNCTIONS if is_traced(getattr(aiter_prebuilt, name))]
)
@pytest.mark.usefixtures("_gpu", "seen")
def test_none_for_a_number_is_refused(name: str) -> None:
    """By the function itself or, where it hands the number on, by torch's operator."""
    from aiter_prebuilt.tracing.functions import TRACED

    for option in public_calls.numbers_of(name):
        with pytest.raises((AiterPrebuiltError, RuntimeError), match=rf"\b{option}\b"):
            TRACED[name](**{**public_calls.arguments(name), option: None})


@pytest.mark.parametrize(
    ("name", "option"), [("flash_attn_func", "dropout_p"), ("moe_fused_gate", "n_share_experts_fusion")]
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_compiled_call_refuses_none(name: str, option: str, inside: bool) -> None:
    function = getattr(aiter_prebuilt, name)
    given = {**public_calls.arguments(name), option: None}

    def outer(**given: Any) -> Any:
        return function(**given)

    call = outer if inside else function
    words = f"{option} must be .*, got None"
    torch.compiler.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=words):
        torch.compile(call, backend="eager", fullgraph=True)(**given)
    with pytest.raises(AiterPrebuiltError, match=words):
        torch.compile(call, backend="eager")(**given)
    torch.compiler.reset()
