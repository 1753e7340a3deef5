"""A bundle that is made to be read slowly: arrays and text that are named again and again. Both readers refuse it in the same
words and in time in proportion to the file, before they walk it."""

from __future__ import annotations

import struct
import time
from types import ModuleType

import pytest
from support.mutate import offset_of, rehashed

from aiter_prebuilt import errors
from aiter_prebuilt.contract import bundle as contract
from aiter_prebuilt.contract import records, rules
from build_tools.pack import writer
from native import synthetic
from native.conftest import Blob, Run, Stub
from native.test_damage import ops

WORDS = f"more than {rules.MAX_WALK} bytes of arrays and text to read"
RECIPE, STEP = records.record_size(records.Recipe), records.record_size(records.Step)


def with_block(name: str, change: bytes) -> bytes:
    """A bundle whose operator 'one' has ``change`` as its block, with good hashes."""
    blobs = [f"{name}-{op}-{variant}" for op in ("one", "two") for variant in ("p", "q")]
    operators = tuple(synthetic.encode_operator(op, blobs) for op in ops(name))
    images = [synthetic.code_object(blob) for blob in blobs]

    def pack(regions: list[bytes]) -> writer.Packed:
        if len(regions) > 1:
            regions = [change or regions[0], *regions[1:]]
        return writer.as_is(regions)

    return writer.encode(synthetic.root(), operators, writer.as_is(images).frames, (), pack)


def block(name: str) -> bytearray:
    """The block of operator 'one' as it is."""
    opened = contract.Bundle(with_block(name, b""))
    stored = opened.root.operators[0].stored
    data = with_block(name, b"")
    return bytearray(data[stored.offset : stored.offset + stored.stored_size])


def grown(region: bytearray, array: str, element: bytes, count: int) -> bytes:
    """The block with another array in its first record: ``count`` times ``element``, behind everything."""
    region += bytes(-len(region) % 8)
    struct.pack_into("<II", region, offset_of(records.Operator, array), len(region), count)
    return bytes(region) + element * count


def first(region: bytearray, array: str, size: int) -> bytearray:
    (at,) = struct.unpack_from("<I", region, offset_of(records.Operator, array))
    return region[at : at + size]


def many_recipes(region: bytearray) -> bytes:
    return grown(region, "recipes", bytes(first(region, "recipes", RECIPE)), 400_000)


def shared_steps(region: bytearray) -> bytes:
    """2,000 recipes that all have the same 100,000 steps."""
    recipe = first(region, "recipes", RECIPE)
    (at,) = struct.unpack_from("<I", recipe, offset_of(records.Recipe, "steps"))
    step = bytes(region[at : at + STEP])
    region += bytes(-len(region) % 8)
    struct.pack_into("<II", recipe, offset_of(records.Recipe, "steps"), len(region), 100_000)
    region += step * 100_000
    return grown(region, "recipes", bytes(recipe), 2_000)


def shared_text(region: bytearray) -> bytes:
    """30,000 slots that all have the same name of a million letters."""
    at = len(region)
    region += b"x" * 1_000_000
    return grown(region, "slots", struct.pack("<II", at, 1_000_000), 30_000)


CASES = {"recipes": many_recipes, "steps": shared_steps, "text": shared_text}


@pytest.mark.parametrize("case", CASES)
def test_both_readers_refuse_it_soon(run: Run, stub: Stub, blob: Blob, case: str) -> None:
    name = blob()
    data = with_block(name, CASES[case](block(name)))
    start = time.process_time()
    failure = run(data)
    native_seconds = time.process_time() - start
    assert type(failure) is errors.BundleDamagedError and WORDS in failure.found, failure
    assert stub.launches() == 1, "the other operator is whole"
    start = time.process_time()
    with pytest.raises(contract.FormatError) as refused:
        contract.Bundle(data).operator("one")
    assert str(refused.value) == failure.found, "both readers say the same"
    # It was hours. Wide, because a session may watch every line that is executed.
    assert native_seconds < 2 and time.process_time() - start < 200


def test_a_large_block_below_the_limit_is_read(native: ModuleType, run: Run, stub: Stub, blob: Blob) -> None:
    name = blob()
    region = block(name)
    text = b"x" * 1_000_000
    at = len(region)
    region += text
    slots = struct.unpack_from("<II", region, offset_of(records.Operator, "slots"))
    old = bytes(region[slots[0] : slots[0] + 8 * slots[1]])
    region += bytes(-len(region) % 8)
    struct.pack_into("<II", region, offset_of(records.Operator, "slots"), len(region), slots[1] + 12)
    region += old + struct.pack("<II", at, len(text)) * 12
    assert run(with_block(name, bytes(region))) is None and stub.launches() == 2


def test_bytes_72_to_95_of_the_header_are_zero(run: Run, stub: Stub, blob: Blob) -> None:
    """Whatever they come to mean, a reader that does not know it must not pass it over."""
    good = synthetic.bundle_bytes(ops(blob()))
    for at in (72, 80, 95):
        changed = bytearray(good)
        changed[at] = 1
        failure = run(rehashed(changed))
        assert type(failure) is errors.BundleDamagedError
        assert failure.found == "bytes 72 to 95 of the header are not zero"
        with pytest.raises(contract.FormatError, match="bytes 72 to 95 of the header are not zero"):
            contract.Bundle(rehashed(changed))
    assert stub.launches() == 0
