"""Damaged bundles: cut at every boundary, one bit flipped in every part. Each ends in a named error before any launch,
and the damage of one operator or code object hides no other."""

from __future__ import annotations

import hashlib
import struct

import pytest

from aiter_prebuilt import errors
from aiter_prebuilt.contract import bundle as contract
from aiter_prebuilt.contract import records, version
from native import synthetic
from native.conftest import raw
from native.synthetic import A, Op, R, S, T

X = raw(0x7F0000000100, "f32", (8,))
OUT = raw(0x7F0000200000, "f32", (8,))


def ops(name: str) -> list[Op]:
    tensors = [T("x", "T", ["N"]), T("out", "T", ["N"], role="out")]
    attributes = [A("eps", "float", "1e-6"), A("mode", "enum", "a", ("a", "b"))]
    step = S("k", ["ptr x", "ptr out", "i32 N", "f32 eps"], ["N"], lds="N")

    def recipe(op: str, variant: str) -> R:
        blob = f"{name}-{op}-{variant}"
        return R(
            variant=variant, types=("f32",), when=["N < 9"], cost="N", workspace="N", steps=[step], blob=blob
        )

    return [
        Op(
            op,
            tensors,
            attributes,
            types={"T": ["f32"]},
            recipes=[recipe(op, variant) for variant in ("p", "q")],
            tuned_on=["N"],
            tuned=[(304, 1, [8])],
        )
        for op in ("one", "two")
    ]


@pytest.fixture
def run(native, stub, tmp_path):
    """run(bytes) -> calls both operators of the file; returns what the first raised, if anything."""
    path = tmp_path / "damaged.apb"

    def call(data: bytes) -> Exception | None:
        path.write_bytes(data)
        failure = None
        try:
            bundle = native.Bundle(str(path))
            for name in bundle.names:
                try:
                    native.Operator(name, lambda vendor, ordinal: ((bundle,), 304))(X, OUT)
                except errors.AiterPrebuiltError as error:
                    failure = failure or error
        except errors.AiterPrebuiltError as error:
            failure = error
        return failure

    return call


def parts(data: bytes) -> dict[str, tuple[int, int]]:
    """Every part of a bundle: name -> (offset, size)."""
    opened = contract.Bundle(data, lambda frame, size, dictionary: b"")
    found = {"magic": (0, 8), "versions": (8, 8), "header": (16, 80), "header hash": (96, 32)}
    found["root"] = (contract.HEADER_SIZE, struct.unpack_from("<Q", data, 32)[0])
    for ref in opened.root.operators:
        found[f"block {ref.name}"] = (ref.offset, ref.size)
    count = opened.root.code_object_count
    found["table"] = (opened.root.code_object_offset, count * records.record_size(records.CodeObject))
    for index in range(count):
        record = opened.record(index)
        found[f"frame {index}"] = (record.offset, record.stored_size)
    return found


@pytest.mark.parametrize("encoding", ["raw", "zstd"])
def test_whole_bundles_run(run, stub, blob, encoding):
    data = synthetic.bundle_bytes(ops(blob()), encoding=encoding)
    assert run(data) is None and stub.launches() == 2


@pytest.mark.parametrize("encoding", ["raw", "zstd"])
def test_cut_at_every_boundary(run, stub, blob, encoding):
    data = synthetic.bundle_bytes(ops(blob()), encoding=encoding)
    cuts = {0, 1, len(data) - 1}
    for offset, size in parts(data).values():
        cuts |= {offset, offset + size // 2, offset + size}
    for cut in sorted(cuts - {len(data)}):
        failure = run(data[:cut])
        assert type(failure) is errors.BundleDamagedError, cut
        assert "damaged.apb" in failure.asked and failure.fix
    assert stub.launches() == 0 and stub.load_attempts() == 0


def test_longer_than_it_says(run, stub, blob):
    assert type(run(synthetic.bundle_bytes(ops(blob())) + b"\0")) is errors.BundleDamagedError
    assert stub.launches() == 0


PARTS = [
    "magic",
    "versions",
    "header",
    "header hash",
    "root",
    "block one",
    "block two",
    "table",
    "frame 0",
    "frame 1",
    "frame 3",
]


@pytest.mark.parametrize("encoding", ["raw", "zstd"])
@pytest.mark.parametrize("part", PARTS)
def test_one_bit(native, stub, blob, tmp_path, encoding, part):
    """One bit of the part, at up to 24 places, each in a bundle of its own: loaded code objects are remembered by hash."""
    path = tmp_path / "flipped.apb"
    _, size = parts(synthetic.bundle_bytes(ops(blob()), encoding=encoding))[part]
    for at in sorted({0, size - 1, *range(0, size - 8, max(1, size // 24))}):
        data = bytearray(synthetic.bundle_bytes(ops(blob()), encoding=encoding))
        data[parts(bytes(data))[part][0] + at] ^= 1 << (at % 8)
        path.write_bytes(data)
        error = None
        try:
            bundle = native.Bundle(str(path))
            for name in bundle.names:
                native.Operator(name, lambda vendor, ordinal, b=bundle: ((b,), 304)).preload("amd", 0)
        except errors.AiterPrebuiltError as caught:
            error = caught
        # The raw size and the reference of a frame that is stored raw are not used. Two bytes of a zstd frame's header
        # (an unused bit, the window size) may change and the content stays the same, which its hash proves.
        unread = part == "table" and encoding == "raw" and 12 <= at % 24 < 20
        unread = unread or (part.startswith("frame") and encoding == "zstd" and at in (4, 5))
        assert type(error) is errors.BundleDamagedError or unread, (at, error)
    assert stub.launches() == 0


def test_a_damaged_block_hides_no_other_operator(native, stub, blob, tmp_path):
    data = bytearray(synthetic.bundle_bytes(ops(blob())))
    offset, size = parts(bytes(data))["block one"]
    data[offset + size // 2] ^= 1
    path = tmp_path / "b.apb"
    path.write_bytes(data)
    bundle = native.Bundle(str(path))
    assert bundle.names == ("one", "two")
    for _ in range(2):
        with pytest.raises(
            errors.BundleDamagedError,
            match=r"operator 'one' is damaged.*SHA-256.*pip install --force-reinstall --no-deps aiter-prebuilt-gfx942==0.1.0",
        ):
            native.Operator("one", lambda vendor, ordinal: ((bundle,), 304))(X, OUT)
    native.Operator("two", lambda vendor, ordinal: ((bundle,), 304))(X, OUT)
    assert stub.launches() == 1


def reheader(data: bytes, fmt: int, recipe: int) -> bytes:
    head = data[:8] + struct.pack("<II", fmt, recipe) + data[16:96]
    return head + hashlib.sha256(head).digest() + data[128:]


def test_other_versions(run, stub, blob):
    data = synthetic.bundle_bytes(ops(blob()))
    assert run(reheader(data, version.BUNDLE_FORMAT, version.RECIPE)) is None
    before = stub.launches()
    for fmt, recipe in (
        (version.BUNDLE_FORMAT + 1, version.RECIPE),
        (version.BUNDLE_FORMAT, version.RECIPE + 1),
    ):
        failure = run(reheader(data, fmt, recipe))
        assert type(
            failure
        ) is errors.BundleVersionError and f"bundle format {fmt} and recipe version {recipe}" in str(failure)
    assert stub.launches() == before


def rebuilt(name: str, **changes: object) -> bytes:
    """A bundle whose hashes are right and whose operator 'one' breaks a rule: fields of records replaced by name."""
    op = synthetic.encode_operator(ops(name)[0], [f"{name}-one-p", f"{name}-one-q"])
    frames = tuple(
        contract.Frame(
            synthetic.code_object(f"{name}-one-{v}"), len(synthetic.code_object("")), bytes(32), "raw"
        )
        for v in "pq"
    )

    def patched(value, path: str):
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

    return contract.encode(synthetic.root(), (patched(op, ""),), frames)


BAD = b"\x10"  # ADD on an empty stack
RULES = [
    ({"Operator.return_count": 3}, "more returns than tensors"),
    ({"Tensor.type_var": 1}, "unknown type variable"),
    ({"Tensor.dtype": 16}, "unknown type or role"),
    ({"Tensor.role": 3}, "unknown type or role"),
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
    ({"Attribute.kind": 4}, "unknown kind"),
    ({"Attribute.slot": 5}, "slot out of range"),
    ({"Attribute.default": "x"}, "a default of another kind"),
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
    ({"Step.block_x": 0}, "a block of no threads"),
    ({"Step.block_y": 5}, "more than 1024"),
    ({"Step.grid_x": BAD}, "stack underflow"),
    ({"Step.lds": BAD}, "stack underflow"),
    ({"Arg.kind": 5}, "unknown kind"),
    ({"Arg.size": 3}, "argument of 3 bytes"),
    ({"Arg.size": 4}, "argument of 4 bytes"),
    ({"Arg.offset": 2**32 - 4}, "leaves the kernarg buffer"),
    ({"Arg.operand": 2}, "names no tensor"),
    ({"Arg.kind": 4, "Arg.operand": 1}, "names no float"),
    ({"Arg.kind": 3}, "no program"),
    ({"Entry.code_object": 2}, "names code object 2"),
    ({"TunedRow.recipe": 2}, "a tuned row names recipe 2"),
    ({"TunedRow.values": (1, 2)}, "another number of values"),
    ({"Operator.tuned_slots": (99,)}, "tuned slot is out of range"),
    ({"Operator.slots": tuple(f"s{i}" for i in range(600))}, "512 slots"),
]


@pytest.mark.parametrize(
    ("changes", "words"), RULES, ids=[next(iter(c)) + f"-{i}" for i, (c, _) in enumerate(RULES)]
)
def test_a_rule_of_the_format_broken_with_good_hashes(run, stub, blob, changes, words):
    failure = run(rebuilt(blob(), **changes))
    assert type(failure) is errors.BundleDamagedError and words in failure.found, failure
    assert stub.launches() == 0


def test_the_unbroken_rebuild_runs(run, stub, blob):
    """So that the rules above fail for their own reason."""
    assert run(rebuilt(blob())) is None and stub.launches() == 1


def test_a_block_under_the_name_of_another(run, stub, blob):
    data = bytearray(synthetic.bundle_bytes(ops(blob())))
    root_at, root_size = parts(bytes(data))["root"]
    array_at, _ = struct.unpack_from("<II", data, root_at + 56)
    first, second = root_at + array_at, root_at + array_at + 56
    data[first + 8 : first + 56] = data[second + 8 : second + 56]
    data[40:72] = hashlib.sha256(data[root_at : root_at + root_size]).digest()
    failure = run(reheader(bytes(data), version.BUNDLE_FORMAT, version.RECIPE))
    assert type(failure) is errors.BundleDamagedError and "the block is that of 'two'" in failure.found
    assert stub.launches() == 1, "the other operator is whole"


def test_a_reference_with_a_reference_and_frames_that_lie(run, stub, blob):
    name = blob()
    data = synthetic.bundle_bytes(ops(name), encoding="zstd")
    table, _ = parts(data)["table"]
    for index, field, value, words in (
        (1, 16, 2, "is a reference and has a reference itself"),
        (1, 16, 1, "has a reference itself"),
        (1, 16, 77, "leaves the table"),
        (1, 12, 2**31, "leave the file"),
        (1, 12, 100, "does not decode"),
        (1, 8, 2**31, "leave the file"),
        (1, 0, 2**63, "leave the file"),
        (1, 20, 2, "unknown encoding 2"),
        (1, 20, 0, "SHA-256 differs"),
    ):
        changed = bytearray(data)
        struct.pack_into("<Q" if field == 0 else "<I", changed, table + 24 * index + field, value)
        failure = run(bytes(changed))
        assert type(failure) is errors.BundleDamagedError and words in failure.found, (field, value, failure)
        assert stub.launches() <= 1, "only the other operator may have run"
        stub.reset()
        name = blob()
        data = synthetic.bundle_bytes(ops(name), encoding="zstd")


def test_files_that_are_none(native, tmp_path):
    for path, words in ((tmp_path / "missing.apb", "cannot be opened"), (tmp_path, "not a regular file")):
        with pytest.raises(errors.BundleDamagedError, match=words):
            native.Bundle(str(path))
    with pytest.raises(TypeError):
        native.Bundle(7)
