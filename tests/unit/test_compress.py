"""Frames: every code object decodes to its bytes, near-copies cost little, and no dictionary needs another."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from build_tools.objects.unpack import decompress
from build_tools.pack.compress import DICTIONARY, LARGEST_DICTIONARY, compress
from build_tools.pack.writer import Packed

ROOT = Path(__file__).resolve().parents[2]


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


_PRINT = """
import hashlib, sys
sys.path[:0] = sys.argv[1:]
from build_tools.pack.compress import compress
from unit.test_compress import _near_copies
groups = "abcdefgh"
blobs = [blob for seed in range(len(groups)) for blob in _near_copies(seed, 6, 2000)]
packed = compress(blobs, [group for group in groups for _ in range(6)])
print(len(packed.dictionaries), hashlib.sha256(repr(packed).encode()).hexdigest(), hash("text"))
"""


def test_the_same_blobs_give_the_same_frames() -> None:
    """In processes that hash, and so order their sets, differently."""
    places = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests")]
    said = [
        subprocess.run(
            [sys.executable, "-c", _PRINT, *places], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True,
            check=True,
        ).stdout.split()
        for seed in ("1", "2")
    ]  # fmt: skip
    assert said[0][:2] == said[1][:2] and said[0][0] == "8"
    assert said[0][2] != said[1][2], "the seeds are two"
