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
