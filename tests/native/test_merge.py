"""Two bundles for one device: what the CK wheel adds to the CK-free wheel, and what may not be."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

import pytest

from aiter_prebuilt import errors
from native.conftest import Blob, Serve, Stub, raw
from native.synthetic import Op, R, S, T

X = raw(0x7F0000000100, "f32", (8,))
WIDE = raw(0x7F0000000100, "f32", (80,))


def one(kernel: str, variant: str, blob: str, **more: Any) -> R:
    return R(kernel=kernel, variant=variant, steps=[S(symbol=f"{kernel}_{variant}")], blob=blob, **more)


def op(recipes: list[R], kernels: list[str], **more: Any) -> Op:
    return Op("o", [T("x", "f32", ["N"])], recipes=recipes, kernels=kernels, **more)


def test_kernels_of_both_are_ordered_by_rank(serve: Serve, stub: Stub, blob: Blob) -> None:
    free = op([one("hip", "h", blob()), one("last", "z", blob())], ["hip", "unused", "last"])
    full = op([one("ck", "c", blob(), when=["N < 10"])], ["unused", "ck"])
    made = serve(free, full)
    made(X)
    assert stub.launch().symbol == b"hip_h"
    free = op([one("hip", "h", blob())], ["ck", "hip"])
    full = op([one("ck", "c", blob(), when=["N < 10"])], ["ck", "hip"])
    for groups in ((free, full), (full, free)):
        made = serve(*groups)
        made(X)
        assert stub.launch().symbol == b"ck_c"
        made(WIDE)
        assert stub.launch().symbol == b"hip_h"


def test_variants_of_one_kernel_from_two_bundles_compete_by_cost(
    serve: Serve, stub: Stub, blob: Blob
) -> None:
    first = op([one("k", "a", blob(), cost="N")], ["k"])
    second = op([one("k", "b", blob(), cost="N - 1")], ["k"])
    serve(first, second)(X)
    assert stub.launch().symbol == b"k_b"


def test_slots_may_be_numbered_differently(serve: Serve, stub: Stub, blob: Blob) -> None:
    first = op([one("k", "a", blob(), when=["N == 99"])], ["k"])
    second = op(
        [R(kernel="k", variant="b", steps=[S("k_b", ["i64 N", "ptr x"])], when=["N == 8"], blob=blob())],
        ["k"],
        extra_slots=["spare1", "spare2"],
    )
    serve(first, second)(X)
    assert stub.launch().symbol == b"k_b" and stub.kernargs()[:8] == (8).to_bytes(8, "little")


def test_a_tuned_row_of_the_second_bundle(serve: Serve, stub: Stub, blob: Blob) -> None:
    free = op([one("hip", "h", blob())], ["hip", "ck"])
    full = op(
        [one("ck", "a", blob()), one("ck", "b", blob())], ["hip", "ck"], tuned_on=["N"], tuned=[(304, 1, [8])]
    )
    made = serve(free, full)
    made(X)
    assert stub.launch().symbol == b"ck_b"
    made(WIDE)
    assert stub.launch().symbol == b"hip_h"


def test_the_same_recipe_twice_is_a_conflict(serve: Serve, stub: Stub, blob: Blob) -> None:
    made = serve(op([one("k", "a", blob())], ["k"]), op([one("k", "a", blob())], ["k"]))
    with pytest.raises(errors.BundleConflictError, match=r"k\[a\] is in .*\.apb and in .*\.apb"):
        made(X)
    assert stub.launches() == 0


def test_the_same_variant_for_other_types_is_none(serve: Serve, stub: Stub, blob: Blob) -> None:
    def typed(kind: str) -> Op:
        return Op(
            "o",
            [T("x", "T", ["N"])],
            types={"T": ["bf16", "f16"]},
            recipes=[R(types=(kind,), steps=[S(kind)], blob=blob())],
        )

    made = serve(typed("bf16"), typed("f16"))
    made(raw(0x1000, "f16", (8,)))
    assert stub.launch().symbol == b"f16"


def test_other_signatures_are_a_conflict(serve: Serve, stub: Stub, blob: Blob) -> None:
    made = serve(op([one("k", "a", blob())], ["k"]), op([one("k", "b", blob())], ["k"], signature="o(x, y)"))
    with pytest.raises(
        errors.BundleConflictError, match=r"has the signature 'o\(x\)' and .* has 'o\(x, y\)'"
    ):
        made(X)
    assert stub.launches() == 0


def test_an_operator_that_only_one_bundle_has(serve: Serve, stub: Stub, blob: Blob) -> None:
    other = Op("other", [T("x", "f32", ["N"])], recipes=[R(blob=blob())])
    made = serve(other, op([one("k", "a", blob())], ["k"]), name="o")
    made(X)
    assert stub.launch().symbol == b"k_a"
    with pytest.raises(
        errors.NoOperatorError, match="find the operator missing: no bundle for this device has it"
    ):
        serve(other, name="missing")(X)


def test_no_bundles_at_all(native: ModuleType, stub: Stub) -> None:
    with pytest.raises(errors.NoOperatorError, match="no bundle serves this device"):
        native.Operator("o", lambda vendor, ordinal: ((), 304))(X)


def test_what_resolve_raises_comes_through_and_is_asked_again(native: ModuleType, stub: Stub) -> None:
    calls: list[tuple[str, int]] = []

    def resolve(vendor: str, ordinal: int) -> NoReturn:
        calls.append((vendor, ordinal))
        raise errors.NoBundleError("serve gfx942", "no wheel", "pip install it")

    made = native.Operator("o", resolve)
    for _ in range(2):
        with pytest.raises(errors.NoBundleError, match="no wheel"):
            made(X)
    assert calls == [("amd", 0)] * 2
    answers: tuple[Any, ...] = (None, (), ((), "x"), ([], 1))
    for wrong in answers:
        with pytest.raises(TypeError):
            native.Operator("o", lambda vendor, ordinal, answer=wrong: answer)(X)
