"""The bridge from torch tensors to the manifests' references: it rounds once, and it can say wrong."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from support import call_tensors, references, torch_kernels  # noqa: E402

from aiter_prebuilt.execute import judge  # noqa: E402
from aiter_prebuilt.tracing import signatures  # noqa: E402


def test_every_operator_has_one() -> None:
    assert set(references.functions()) >= set(signatures.load())


@pytest.mark.parametrize("name", sorted(signatures.load()))
def test_the_kernel_made_of_a_reference_gives_the_answers_of_the_golden_calls(name: str) -> None:
    """By way of torch's schema, and judged as a device's results are."""
    signature = signatures.load()[name]
    for call in call_tensors.small(torch_kernels.TARGET):
        if call.operator != name:
            continue
        args = call_tensors.schema_arguments(call)
        made = references.kernel(name)(*args)
        found = dict(zip((each.name for each in signature.arguments), args, strict=False))
        found |= dict(
            zip(
                (each.name for each in signature.returns),
                made if isinstance(made, tuple) else (made,),
                strict=False,
            )
        )
        for want in call.wants:
            data = (
                found[want.name]
                .reshape(-1)
                .clone(memory_format=torch.contiguous_format)
                .view(torch.uint8)
                .numpy()
                .tobytes()
            )
            far, wrong = judge.values(want, data)
            assert not wrong and far <= 1, (call.label, wrong)


def test_a_wrong_value_is_missed() -> None:
    x, weight = torch.randn(3, 64).bfloat16(), torch.randn(64).bfloat16()
    out = references.kernel("rms_norm")(x, weight, 1e-6)
    given = {"input": x, "weight": weight, "epsilon": 1e-6}
    assert references.misses("rms_norm", {"out": out}, **given) == {}
    out[1, 5] *= 1.02
    assert references.misses("rms_norm", {"out": out}, **given) == {"out": [1, 5]}
    out[1, 5] = float("nan")
    assert references.misses("rms_norm", {"out": out}, **given) == {"out": [1, 5]}
