"""Damaged bundles: cut at every boundary, one bit flipped in every part. Each ends in a named error before any launch,
and the damage of one operator or code object hides no other."""

from __future__ import annotations

import struct
from pathlib import Path
from types import ModuleType

import pytest
from support.mutate import offset_of, rehashed, stored_at

from aiter_prebuilt import errors
from aiter_prebuilt.contract import bundle as contract
from aiter_prebuilt.contract import records, version
from build_tools.pack import writer
from build_tools.pack.writer import as_is
from native import synthetic
from native.conftest import Blob, Run, Stub, raw
from native.synthetic import A, Op, R, S, T

pytest.importorskip("zstandard")
from build_tools.objects.unpack import decompress

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
    """Every part of a bundle: name -> (offset, size); the header by its fields."""
    found = {"magic": (0, 8), "versions": (8, 8), "header": (16, 80), "header hash": (96, 32)}
    opened = contract.Bundle(data, decompress)
    return found | {name: (offset, size) for name, offset, size in opened.parts() if name != "header"}


@pytest.mark.parametrize("encoding", ["raw", "zstd"])
def test_whole_bundles_run(run: Run, stub: Stub, blob: Blob, encoding: str) -> None:
    data = synthetic.bundle_bytes(ops(blob()), encoding=encoding)
    assert run(data) is None and stub.launches() == 2


@pytest.mark.parametrize("encoding", ["raw", "zstd"])
def test_cut_at_every_boundary(run: Run, stub: Stub, blob: Blob, encoding: str) -> None:
    data = synthetic.bundle_bytes(ops(blob()), encoding=encoding)
    cuts = {0, 1, len(data) - 1}
    for offset, size in parts(data).values():
        cuts |= {offset, offset + size // 2, offset + size}
    for cut in sorted(cuts - {len(data)}):
        failure = run(data[:cut])
        assert type(failure) is errors.BundleDamagedError, cut
        assert "damaged.apb" in failure.asked and failure.fix
    assert stub.launches() == 0 and stub.load_attempts() == 0


def test_longer_than_it_says(run: Run, stub: Stub, blob: Blob) -> None:
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
ZSTD_PARTS = [*PARTS, "dictionary 0", "dictionary 1"]


@pytest.mark.parametrize(
    ("encoding", "part"), [*(("raw", part) for part in PARTS), *(("zstd", part) for part in ZSTD_PARTS)]
)
def test_one_bit(
    native: ModuleType, stub: Stub, blob: Blob, tmp_path: Path, encoding: str, part: str
) -> None:
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
        # Two bytes of a zstd frame's header (an unused bit, the window size) may change and the content stays the same,
        # which its hash proves.
        unread = part.startswith("frame") and encoding == "zstd" and at in (4, 5)
        assert type(error) is errors.BundleDamagedError or unread, (at, error)
    assert stub.launches() == 0


def test_a_damaged_block_hides_no_other_operator(
    native: ModuleType, stub: Stub, blob: Blob, tmp_path: Path
) -> None:
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


def test_other_versions(run: Run, stub: Stub, blob: Blob) -> None:
    data = synthetic.bundle_bytes(ops(blob()))
    assert run(rehashed(data)) is None
    before = stub.launches()
    for fmt, recipe in (
        (version.BUNDLE_FORMAT + 1, version.RECIPE),
        (version.BUNDLE_FORMAT - 1, version.RECIPE),
        (version.BUNDLE_FORMAT, version.RECIPE + 1),
    ):
        failure = run(rehashed(data, fmt, recipe))
        assert type(
            failure
        ) is errors.BundleVersionError and f"bundle format {fmt} and recipe version {recipe}" in str(failure)
    assert stub.launches() == before


def patched(data: bytes, at: int, form: str, value: object) -> bytes:
    """``data`` with one value of its root replaced, and the hashes above it right again."""
    changed = bytearray(data)
    struct.pack_into("<" + form, changed, at, value)
    return rehashed(changed)


def python_says(data: bytes) -> str:
    """What the Python reader finds wrong when everything is used; empty when nothing is."""
    try:
        bundle = contract.Bundle(data, decompress)
        for name in bundle.names:
            for entry in bundle.operator(name).entries:
                bundle.code_object(entry)
    except contract.FormatError as error:
        return str(error)
    return ""


ROOT_FIELDS = [
    ("table", "offset", "Q", 2**63, "the table: "),
    ("table", "offset", "Q", 0, "the table: "),
    ("table", "stored_size", "I", 2**32 - 1, "the table: "),
    ("table", "raw_size", "I", 3, "the table: "),
    ("table", "raw_size", "I", 2**31, "the table has 2147483648 bytes, at most"),
    ("table", "raw_size", "I", 4096, "the table does not decode"),
    ("table", "dictionary", "I", 7, "the table names dictionary 7 of 2"),
    ("table", "encoding", "I", 2, "the table has the unknown encoding 2"),
    ("table", "encoding", "I", 0, "the table is stored as it is, and says"),
    ("table", "sha256", "B", 0, "the table is damaged: its SHA-256"),
    ("operators", "offset", "Q", 2**63, "operator 'one': "),
    ("operators", "stored_size", "I", 2**32 - 1, "operator 'one': "),
    ("operators", "raw_size", "I", 10, "operator 'one': "),
    ("operators", "raw_size", "I", 2**31, "operator 'one' has 2147483648 bytes, at most"),
    ("operators", "raw_size", "I", 5000, "operator 'one' does not decode"),
    ("operators", "dictionary", "I", 0, "operator 'one'"),
    ("operators", "dictionary", "I", 2, "operator 'one' names dictionary 2 of 2"),
    ("operators", "encoding", "I", 9, "operator 'one' has the unknown encoding 9"),
    ("operators", "sha256", "B", 0, "operator 'one' is damaged: its SHA-256"),
    ("dictionaries", "offset", "Q", 1, "dictionary 0: "),
    ("dictionaries", "stored_size", "I", 2**32 - 1, "dictionary 0: "),
    ("dictionaries", "raw_size", "I", 2**31, "dictionary 0 has 2147483648 bytes, at most"),
    ("dictionaries", "raw_size", "I", 100, "dictionary 0 does not decode"),
    ("dictionaries", "dictionary", "I", 1, "dictionary 0 needs a dictionary itself"),
    ("dictionaries", "encoding", "I", 2, "dictionary 0 has the unknown encoding 2"),
    ("dictionaries", "sha256", "B", 0, "dictionary 0 is damaged: its SHA-256"),
]


@pytest.mark.parametrize(("part", "name", "form", "value", "words"), ROOT_FIELDS)
def test_fields_of_the_root_that_lie_with_good_hashes(
    run: Run, stub: Stub, blob: Blob, part: str, name: str, form: str, value: int, words: str
) -> None:
    data = synthetic.bundle_bytes(ops(blob()), encoding="zstd")
    at = stored_at(data, part) + offset_of(records.Stored, name)
    if name == "sha256":
        value = data[at] ^ 1
    changed = patched(data, at, form, value)
    failure = run(changed)
    assert type(failure) is errors.BundleDamagedError and failure.found.startswith(words), failure
    assert python_says(changed).startswith(words)
    assert stub.launches() <= 1, "only the other operator may have run"


def retabled(name: str, index: int, column: int, value: int) -> bytes:
    """A bundle with one number of its table replaced (columns as in ``CodeObject``), every hash right."""
    blobs = [f"{name}-{op}-{variant}" for op in ("one", "two") for variant in ("p", "q")]
    operators = tuple(synthetic.encode_operator(op, blobs) for op in ops(name))
    images = [synthetic.code_object(blob) for blob in blobs]
    frames = tuple(synthetic.zstd_frame(image, images[1]) for image in images)

    def pack(regions: list[bytes]) -> writer.Packed:
        if len(regions) == 1:
            table = bytearray(regions[0])
            struct.pack_into("<I", table, 16 * index + 4 * column, value)
            regions = [bytes(table)]
        return as_is(regions)

    return writer.encode(synthetic.root(), operators, frames, (synthetic.zstd_frame(images[1]),), pack)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        (0, 2**31, "the table's frames end at"),
        (0, 0, "the table's frames end at"),
        (1, 2**31, "code object 1 has 2147483648 bytes, at most"),
        (1, 100, "code object 1 does not decode"),
        (2, 1, "code object 1 names dictionary 1 of 1"),
        (2, records.NONE32, "code object 1 does not decode"),
        (3, 2, "code object 1 has the unknown encoding 2"),
        (3, 0, "code object 1 is stored as it is, and says"),
    ],
)
def test_a_table_that_lies_with_good_hashes(
    run: Run, stub: Stub, blob: Blob, column: int, value: int, words: str
) -> None:
    changed = retabled(blob(), 1, column, value)
    failure = run(changed)
    assert type(failure) is errors.BundleDamagedError and failure.found.startswith(words), failure
    assert python_says(changed).startswith(words)
    assert stub.launches() <= 1, "only the other operator may have run"


def test_a_block_under_the_name_of_another(run: Run, stub: Stub, blob: Blob) -> None:
    data = synthetic.bundle_bytes(ops(blob()))
    first, second = (stored_at(data, "operators", index) for index in range(2))
    size = records.record_size(records.Stored)
    changed = patched(data, first, f"{size}s", data[second : second + size])
    failure = run(changed)
    assert type(failure) is errors.BundleDamagedError and "the block is that of 'two'" in failure.found
    assert "the block is that of 'two'" in python_says(changed)
    assert stub.launches() == 1, "the other operator is whole"


@pytest.mark.parametrize("encoding", ["raw", "zstd"])
def test_two_code_objects_swapped(run: Run, stub: Stub, blob: Blob, encoding: str) -> None:
    """Their bytes and their records, so that each decodes well: only the hash in the entry tells."""
    name = blob()
    blobs = [f"{name}-{op}-{variant}" for op in ("one", "two") for variant in ("p", "q")]
    operators = tuple(synthetic.encode_operator(op, blobs) for op in ops(name))
    images = [synthetic.code_object(blobs[place]) for place in (1, 0, 2, 3)]
    frames = as_is(images).frames if encoding == "raw" else tuple(map(synthetic.zstd_frame, images))
    changed = writer.encode(synthetic.root(), operators, frames)
    failure = run(changed)
    assert type(failure) is errors.BundleDamagedError and "SHA-256 differs" in failure.found
    assert "SHA-256 differs" in python_says(changed)
    assert stub.launches() == 1, "the other operator is whole"


def test_a_load_that_failed_is_tried_again(
    native: ModuleType, stub: Stub, blob: Blob, tmp_path: Path
) -> None:
    """As long as the file is damaged the answer is the same; once it is whole under the same mapping, calls run."""
    good = synthetic.bundle_bytes(ops(blob()))
    offset, _ = parts(good)["frame 1"]
    path = tmp_path / "b.apb"
    path.write_bytes(good[: offset + 9] + bytes([good[offset + 9] ^ 1]) + good[offset + 10 :])
    bundle = native.Bundle(str(path))
    one = native.Operator("one", lambda vendor, ordinal: ((bundle,), 304))
    with pytest.raises(errors.BundleDamagedError) as first:
        one(X, OUT)
    with pytest.raises(errors.BundleDamagedError) as second:
        one(X, OUT)
    assert str(second.value) == str(first.value) and stub.launches() == 0 and stub.load_attempts() == 0
    with path.open("r+b") as file:
        file.write(good)
    one(X, OUT)
    assert (stub.launches(), stub.load_attempts()) == (1, 1)


def test_files_that_are_none(native: ModuleType, tmp_path: Path) -> None:
    for path, words in ((tmp_path / "missing.apb", "cannot be opened"), (tmp_path, "not a regular file")):
        with pytest.raises(errors.BundleDamagedError, match=words):
            native.Bundle(str(path))
    with pytest.raises(TypeError):
        native.Bundle(7)
