"""Frames: every code object decodes to its bytes, near-copies cost little, and no dictionary needs another."""

from __future__ import annotations

import random

from build_tools.objects.unpack import decompress
from build_tools.pack.compress import DICTIONARY, LARGEST_DICTIONARY, compress
from build_tools.pack.writer import Packed


def _near_copies(seed: int, count: int, size: int) -> list[bytes]:
    source = random.Random(seed)
    base = bytearray(source.randbytes(size))
    copies = []
    for _ in range(count):
        for _ in range(8):
            base[source.randrange(size)] = source.randrange(256)
        copies.append(bytes(base))
    return copies


def _decoded(packed: Packed, index: int) -> bytes:
    frame = packed.frames[index]
    if frame.encoding == "raw":
        return frame.data
    content = None
    if frame.dictionary is not None:
        stored = packed.dictionaries[frame.dictionary]
        assert stored.dictionary is None, "a dictionary needs no other"
        content = decompress(stored.data, stored.raw_size, None) if stored.encoding == "zstd" else stored.data
    return decompress(frame.data, frame.raw_size, content)


def _stored(packed: Packed) -> int:
    return sum(len(frame.data) for frame in (*packed.frames, *packed.dictionaries))


def test_every_frame_decodes() -> None:
    blobs = [*_near_copies(1, 12, 4000), *_near_copies(2, 7, 3000), b"", b"x"]
    packed = compress(blobs, ["a"] * 12 + ["b"] * 7 + ["c", "d"])
    assert [_decoded(packed, index) for index in range(len(blobs))] == blobs
    assert [frame.dictionary for frame in packed.frames] == [0] * 12 + [1] * 7 + [None] * 2


def test_near_copies_cost_a_twentieth() -> None:
    blobs = _near_copies(3, 40, 20000)
    assert _stored(compress(blobs, ["a"] * 40)) * 20 < sum(map(len, blobs))


def test_two_kinds_in_one_group_are_both_served() -> None:
    """Eight bytes change from copy to copy, so the worst served member is always of the kind that is missing."""
    blobs = [*_near_copies(6, 30, 9000), *_near_copies(7, 30, 9000)]
    random.Random(8).shuffle(blobs)
    assert _stored(compress(blobs, ["a"] * 60)) < 2 * 9000 + 60 * 120


def test_a_dictionary_has_its_bounds() -> None:
    """Half of each of these blobs is the same, so all of them help, and there are too many for one dictionary."""
    half = random.Random(1).randbytes(50_000)
    packed = compress([half + random.Random(place).randbytes(50_000) for place in range(2, 14)], ["a"] * 12)
    assert len(packed.dictionaries) > 1
    assert all(frame.raw_size <= DICTIONARY for frame in packed.dictionaries)


def test_large_members_get_a_larger_dictionary() -> None:
    half = random.Random(1).randbytes(100_000)
    packed = compress([half + random.Random(place).randbytes(100_000) for place in range(2, 7)], ["a"] * 5)
    assert any(frame.raw_size > DICTIONARY for frame in packed.dictionaries)
    assert all(frame.raw_size <= LARGEST_DICTIONARY for frame in packed.dictionaries)


def test_what_does_not_resemble_is_stored_alone() -> None:
    source = random.Random(4)
    packed = compress([source.randbytes(500) for _ in range(4)], ["a"] * 4)
    assert [frame.encoding for frame in packed.frames] == ["raw"] * 4 and packed.dictionaries == ()


def test_the_same_blobs_give_the_same_frames() -> None:
    blobs = _near_copies(5, 9, 2000)
    assert compress(blobs, ["a"] * 9) == compress(list(blobs), ["a"] * 9)
