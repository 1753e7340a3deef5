"""Own bundles beside those of the product: what they add, where it stands, and that a bad one is refused alone."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from aiter_prebuilt import errors
from aiter_prebuilt.bundles import own_bundles
from aiter_prebuilt.contract import records
from aiter_prebuilt.contract.records import AFTER_PRODUCT
from native import synthetic
from native.conftest import Blob, Stub, raw
from native.synthetic import Op, R, S, T

if TYPE_CHECKING:
    from aiter_prebuilt._native import Operator

X = raw(0x7F0000000100, "f32", (8,))
WIDE = raw(0x7F0000000100, "f32", (80,))

_serial = itertools.count()
#: combine(*(tree, operators)): an operator over bundles of these trees; "" is the product.
Combine = Callable[..., "Operator"]


@pytest.fixture(autouse=True)
def _nothing_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_bundles, "_refused", {})


@pytest.fixture
def combine(native: ModuleType, tmp_path: Path) -> Combine:
    def make(*parts: Any, name: str = "o", change: Callable[[bytes], bytes] | None = None) -> Operator:
        bundles = []
        for tree, *ops in parts:
            profile = f"ck-free.{tree}" if tree else "ck-free"
            data = synthetic.bundle_bytes(
                list(ops), profile=profile, distribution=tree or "aiter-prebuilt-gfx942"
            )
            path = tmp_path / f"{next(_serial)}" / f"gfx942-{profile}.apb"
            path.parent.mkdir()
            path.write_bytes(change(data) if change and tree else data)
            bundles.append(native.Bundle(str(path)))
        made: Operator = native.Operator(name, lambda vendor, ordinal: (tuple(bundles), 304))
        return made

    return make


@pytest.fixture
def warned() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def one(kernel: str, blob: str, **more: Any) -> R:
    return R(kernel=kernel, steps=[S(symbol=kernel)], blob=blob, **more)


def op(*recipes: R, **more: Any) -> Op:
    kernels = list(dict.fromkeys(recipe.kernel for recipe in recipes))
    return Op("o", [T("x", "f32", ["N"])], recipes=list(recipes), kernels=kernels, **more)


def launched(made: Operator, stub: Stub, x: Any = X) -> bytes:
    made(x)
    symbol: bytes = stub.launch().symbol
    return symbol


def after(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels of trees that are written from now on stand behind the product's."""
    kernel = records.Kernel

    def behind(name: str, backend: int, profile: int, rank: int) -> Any:
        return kernel(name, backend, profile, rank + (AFTER_PRODUCT if name.startswith("own") else 0))

    monkeypatch.setattr(records, "Kernel", behind)


def test_a_bundle_says_whose_it_is(native: ModuleType, tmp_path: Path) -> None:
    for tree, profile in (("", "ck-free"), ("acme", "ck-full.acme")):
        path = tmp_path / "x.apb"
        path.write_bytes(synthetic.bundle_bytes([op(R())], profile=profile))
        assert native.Bundle(str(path)).tree == tree


def test_own_kernels_stand_before_the_product_s(combine: Combine, stub: Stub, blob: Blob) -> None:
    product = op(one("fast", blob(), cost="1"))
    own = op(one("own", blob(), cost="1000", when=["N < 10"]))
    for parts in ((("", product), ("acme", own)), (("acme", own), ("", product))):
        made = combine(*parts)
        assert launched(made, stub) == b"own"
        assert launched(made, stub, WIDE) == b"fast"
    assert own_bundles.refusals() == ()


def test_own_kernels_stand_behind_when_the_tree_says_so(
    combine: Combine, stub: Stub, blob: Blob, monkeypatch: pytest.MonkeyPatch
) -> None:
    after(monkeypatch)
    product = op(one("first", blob(), when=["N < 10"]), one("second", blob(), when=["N < 5"]))
    made = combine(("acme", op(one("own", blob()))), ("", product))
    assert launched(made, stub) == b"first"
    assert launched(made, stub, WIDE) == b"own"


def test_trees_stand_by_name_and_a_kernel_s_name_is_the_tree_s_own(
    combine: Combine, stub: Stub, blob: Blob
) -> None:
    product = op(R(kernel="k", variant="p", steps=[S(symbol="product")], blob=blob()))
    beta = op(R(kernel="k", variant="b", steps=[S(symbol="beta")], blob=blob(), cost="1"))
    alpha = op(R(kernel="k", variant="a", steps=[S(symbol="alpha")], blob=blob(), cost="9", when=["N < 10"]))
    made = combine(("", product), ("beta", beta), ("alpha", alpha))
    assert launched(made, stub) == b"alpha"
    assert launched(made, stub, WIDE) == b"beta"


def test_a_measured_row_goes_before_the_order(combine: Combine, stub: Stub, blob: Blob) -> None:
    product = op(one("measured", blob()), tuned_on=["N"], tuned=[(304, 0, [8])])
    made = combine(("", product), ("acme", op(one("own", blob()))))
    assert launched(made, stub) == b"measured"
    assert launched(made, stub, WIDE) == b"own"


def test_a_measured_row_of_a_tree_goes_before_one_of_the_product(
    combine: Combine, stub: Stub, blob: Blob
) -> None:
    product = op(one("measured", blob()), tuned_on=["N"], tuned=[(304, 0, [8])])
    own = op(one("own", blob()), one("tuned", blob()), tuned_on=["N"], tuned=[(304, 1, [8])])
    assert launched(combine(("", product), ("acme", own)), stub) == b"tuned"


def test_an_operator_that_only_a_tree_has(combine: Combine, stub: Stub, blob: Blob) -> None:
    made = combine(("", Op("other", [T("x", "f32", ["N"])])), ("acme", op(one("own", blob()))))
    assert launched(made, stub) == b"own"


def test_another_signature_is_refused_alone(
    combine: Combine, stub: Stub, blob: Blob, warned: list[warnings.WarningMessage]
) -> None:
    made = combine(
        ("", op(one("k", blob()))),
        ("acme", op(one("own", blob()), signature="o(y)")),
        ("beta", op(one("b", blob()))),
    )
    assert launched(made, stub, WIDE) == b"b"
    (refused,) = own_bundles.refusals()
    assert (refused.tree, refused.operator) == ("acme", "o")
    assert "has the signature 'o(x)' and " in refused.reason and "has 'o(y)'" in refused.reason
    assert "Install a release of acme that is made for this one, or uninstall it" in refused.reason
    (warning,) = warned
    assert warning.category is own_bundles.OwnBundleWarning
    assert str(warning.message).startswith("aiter-prebuilt: the operator o of the own bundle /")


def test_names_of_arguments_are_compared_where_texts_are_equal(
    combine: Combine, stub: Stub, blob: Blob, warned: list[warnings.WarningMessage]
) -> None:
    own = Op("o", [T("y", "f32", ["N"])], recipes=[one("own", blob())], kernels=["own"], signature="o(x)")
    assert launched(combine(("", op(one("k", blob()))), ("acme", own)), stub) == b"k"
    assert [refused.tree for refused in own_bundles.refusals()] == ["acme"] and len(warned) == 1


def test_a_tree_whose_sizes_do_not_fit_a_call_has_no_candidate_for_it(
    combine: Combine, stub: Stub, blob: Blob
) -> None:
    own = Op("o", [T("x", "f32", ["8"])], recipes=[one("own", blob())], kernels=["own"], signature="o(x)")
    made = combine(("", op(one("k", blob()))), ("acme", own))
    assert launched(made, stub) == b"own"
    assert launched(made, stub, WIDE) == b"k"


def test_a_recipe_that_another_bundle_has_is_refused_alone(
    combine: Combine, stub: Stub, blob: Blob, warned: list[warnings.WarningMessage]
) -> None:
    own = op(one("k", blob()), one("more", blob()))
    made = combine(("", op(one("k", blob()))), ("acme", own))
    assert launched(made, stub) == b"k"
    (refused,) = own_bundles.refusals()
    assert (
        "the recipe k[v] is in " in refused.reason
        and "Give the kernel of acme another name" in refused.reason
    )


def flipped(offset: int) -> Callable[[bytes], bytes]:
    """Flip a byte, counted from the end."""
    return lambda data: data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]


def test_a_damaged_code_object_of_a_tree_is_refused_at_its_first_call(
    combine: Combine, stub: Stub, blob: Blob, warned: list[warnings.WarningMessage]
) -> None:
    made = combine(("", op(one("k", blob()))), ("acme", op(one("own", blob()))), change=flipped(-200))
    assert [launched(made, stub) for _ in range(3)] == [b"k"] * 3
    assert launched(made, stub, WIDE) == b"k"
    (refused,) = own_bundles.refusals()
    assert "is damaged: SHA-256 differs" in refused.reason and len(warned) == 1


def test_a_damaged_block_of_a_tree_is_refused(
    combine: Combine, stub: Stub, blob: Blob, warned: list[warnings.WarningMessage]
) -> None:
    own = op(one("own", blob()))
    place = synthetic.bundle_bytes([own], profile="ck-free.acme", distribution="acme").index(b"synthetic")
    made = combine(("", op(one("k", blob()))), ("acme", own), change=flipped(place))
    assert launched(made, stub) == b"k"
    assert "is damaged" in own_bundles.refusals()[0].reason and len(warned) == 1


def test_what_the_driver_refuses_to_load_is_refused_alone(
    combine: Combine, stub: Stub, blob: Blob, warned: list[warnings.WarningMessage]
) -> None:
    product = op(one("k", blob()))
    assert launched(combine(("", product)), stub) == b"k"  # it is loaded, and stays so
    made = combine(("", product), ("acme", op(one("own", blob()))))
    stub.fault("load", 200)
    assert launched(made, stub) == b"k"
    (refused,) = own_bundles.refusals()
    assert (
        refused.tree == "acme"
        and "Cannot load kernel o-own-v-own of o" in refused.reason
        and len(warned) == 1
    )


def test_a_preload_passes_a_bad_tree_over(
    combine: Combine, stub: Stub, blob: Blob, warned: list[warnings.WarningMessage]
) -> None:
    made = combine(("", op(one("k", blob()))), ("acme", op(one("own", blob()))), change=flipped(-200))
    made.preload("amd", 0)
    assert len(warned) == 1
    assert launched(made, stub) == b"k"


def test_with_nothing_else_the_error_is_the_tree_s(combine: Combine, stub: Stub, blob: Blob) -> None:
    made = combine(("acme", op(one("own", blob()))), change=flipped(-200))
    with pytest.raises(errors.BundleDamagedError, match=r"acme==0\.1\.0"):
        made(X)


def test_warnings_that_are_errors_do_not_end_a_call(
    combine: Combine, stub: Stub, blob: Blob, capfd: pytest.CaptureFixture[str]
) -> None:
    made = combine(("", op(one("k", blob()))), ("acme", op(one("own", blob()), signature="o(y)")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert launched(made, stub) == b"k"
    assert "the own bundle" in capfd.readouterr().err
