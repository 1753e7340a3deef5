"""Every rule of an operator block, broken one at a time in a bundle whose hashes are right: refused
by both readers with the same words."""

from __future__ import annotations

from typing import Any

import pytest

from aiter_prebuilt import errors
from aiter_prebuilt.contract import bundle as contract
from aiter_prebuilt.contract import records
from build_tools.pack import writer
from native import synthetic
from native.conftest import Blob, Run, Stub
from native.test_damage import ops


def rebuilt(name: str, **changes: object) -> bytes:
    """A bundle whose hashes are right and whose operator 'one' breaks a rule: fields of records replaced by name."""
    op = synthetic.encode_operator(ops(name)[0], [f"{name}-one-p", f"{name}-one-q"])
    frames = tuple(
        writer.Frame(
            synthetic.code_object(f"{name}-one-{v}"), len(synthetic.code_object("")), bytes(32), "raw"
        )
        for v in "pq"
    )

    def patched(value: Any, path: str) -> Any:
        if isinstance(value, tuple) and value and hasattr(value[0], "__dataclass_fields__"):
            return tuple(patched(item, path) if i == 0 else item for i, item in enumerate(value))
        if not hasattr(value, "__dataclass_fields__"):
            return value
        prefix = type(value).__name__ + "."
        fields = {f: patched(getattr(value, f), path) for f in value.__dataclass_fields__}
        fields.update(
            {key.removeprefix(prefix): new for key, new in changes.items() if key.startswith(prefix)}
        )
        return type(value)(**fields)

    return writer.encode(synthetic.root(), (patched(op, ""),), frames)


BAD = b"\x10"  # ADD on an empty stack
RULES: list[tuple[dict[str, Any], str]] = [
    ({"Operator.return_count": 3}, "more returns than tensors"),
    ({"Tensor.type_var": 1}, "unknown type variable"),
    ({"Tensor.dtype": 16}, "unknown type or role"),
    ({"Tensor.role": 3}, "unknown type or role"),
    ({"Tensor.in_place": 1}, "memory of a tensor that it cannot be in place of"),  # it is an input
    ({"Tensor.role": 1, "Tensor.in_place": 3}, "memory of a tensor that it cannot be in place of"),
    ({"Tensor.role": 1, "Tensor.in_place": 65535}, "memory of a tensor that it cannot be in place of"),
    ({"Tensor.address_slot": 99}, "slot out of range"),
    ({"Tensor.given_slot": 99}, "slot out of range"),
    ({"Tensor.align": 3}, "no power of two"),
    ({"Tensor.dims": (), "Tensor.star": 1}, "a star and no dim"),
    ({"Tensor.contiguous": 0}, "not one stride per dim"),
    ({"Tensor.dims": tuple(records.Dim(0, 0, b"") for _ in range(17))}, "too many dims"),
    ({"Dim.kind": 3}, "unknown kind"),
    ({"Dim.slot": 99}, "slot out of range"),
    ({"Dim.code": BAD}, "stack underflow"),
    ({"Dim.kind": 2}, "without its expression"),
    ({"Attribute.kind": 5}, "unknown kind"),
    ({"Attribute.slot": 5}, "slot out of range"),
    ({"Attribute.default": "x"}, "a default of another kind"),
    ({"Attribute.default": "0x1p3"}, "a default of another kind"),
    ({"Attribute.default": "1_0"}, "a default of another kind"),
    ({"Attribute.default": "1e"}, "a default of another kind"),
    ({"Attribute.default": " 1"}, "a default of another kind"),
    ({"Attribute.kind": 0, "Attribute.default": "9223372036854775808"}, "a default of another kind"),
    ({"Attribute.kind": 0, "Attribute.default": "+1"}, "a default of another kind"),
    ({"Attribute.kind": 1, "Attribute.default": "1"}, "a default of another kind"),
    ({"Attribute.kind": 3, "Attribute.default": "c"}, "a default of another kind"),
    ({"TypeVariable.allowed": (16,)}, "allows type 16"),
    ({"Kernel.backend": 5}, "unknown backend"),
    ({"Recipe.kernel": 1}, "names kernel 1"),
    ({"Recipe.types": ()}, "leaves a type variable open"),
    ({"Recipe.types": (99,)}, "names type 99"),
    ({"Recipe.cost": BAD}, "stack underflow"),
    ({"Recipe.workspace": b"\x03\x63\x00"}, "slot 99"),
    ({"Condition.code": b""}, "no program"),
    ({"Condition.code": b"\xff"}, "unknown operation"),
    ({"Step.entry": 9}, "names entry 9"),
    ({"Step.kernarg_size": 5000}, "kernarg buffer of 5000"),
    ({"Step.kernarg_size": 4}, "leaves the kernarg buffer"),
    ({"Step.kernarg_size": 23}, "leaves the kernarg buffer"),  # the last argument ends at 24
    ({"Step.block_x": 0}, "a block of no threads"),
    ({"Step.block_y": 5}, "more than 1024"),
    ({"Step.grid_x": BAD}, "stack underflow"),
    ({"Step.lds": BAD}, "stack underflow"),
    ({"Arg.kind": 6}, "unknown kind"),
    ({"Arg.kind": 5}, "a program must end with exactly one value"),
    ({"Arg.kind": 5, "Arg.code": b"\x48"}, "stack underflow at byte 0"),
    ({"Arg.kind": 5, "Arg.code": b"\x41\x63\x00"}, "slot 99 at byte 0"),
    ({"Arg.kind": 5, "Arg.code": b"\x42\x05\x00"}, "float slot 5 at byte 0, which no attribute has"),
    ({"Arg.kind": 5, "Arg.code": b"\x01\x07"}, "unknown operation 0x01"),
    ({"Arg.size": 3}, "argument of 3 bytes"),
    ({"Arg.size": 4}, "argument of 4 bytes"),
    ({"Arg.offset": 2**32 - 4}, "leaves the kernarg buffer"),
    ({"Arg.operand": 2}, "names no tensor"),
    ({"Arg.kind": 4, "Arg.operand": 1}, "names no float"),
    ({"Arg.kind": 3}, "no program"),
    ({"Entry.code_object": 2}, "names code object 2"),
    ({"TunedRow.recipe": 2}, "a tuned row names recipe 2"),
    ({"TunedRow.values": (1, 2)}, "another number of values"),
    ({"TunedRow.last": (9, 9)}, "a tuned row ends with another number of values"),
    ({"TunedRow.last": (-9,)}, "a tuned row ends before it begins"),
    (
        {"Operator.tuned": (records.TunedRow(304, 0, (9,)), records.TunedRow(304, 0, (8,)))},
        "tuned rows are not sorted",
    ),
    ({"Operator.tuned_slots": (99,)}, "tuned slot is out of range"),
    ({"Operator.slots": tuple(f"s{i}" for i in range(600))}, "512 slots"),
]


@pytest.mark.parametrize(
    ("changes", "words"), RULES, ids=[next(iter(c)) + f"-{i}" for i, (c, _) in enumerate(RULES)]
)
def test_a_rule_of_the_format_broken_with_good_hashes(
    run: Run, stub: Stub, blob: Blob, changes: dict[str, Any], words: str
) -> None:
    data = rebuilt(blob(), **changes)
    failure = run(data)
    assert type(failure) is errors.BundleDamagedError and words in failure.found, failure
    assert stub.launches() == 0
    with pytest.raises(contract.FormatError) as refused:
        contract.Bundle(data).operator("one")
    assert str(refused.value) == failure.found, "both readers say the same"


def test_the_unbroken_rebuild_runs(run: Run, stub: Stub, blob: Blob) -> None:
    """So that the rules above fail for their own reason."""
    assert run(rebuilt(blob())) is None and stub.launches() == 1
