"""Frames: every code object decodes to its bytes alone, near-copies cost little, and a reference needs no other."""

from __future__ import annotations

import random

from build_tools.bundle import compress, decompress


def _near_copies(seed: int, count: int, size: int) -> list[bytes]:
    source = random.Random(seed)
    base = bytearray(source.randbytes(size))
    copies = []
    for _ in range(count):
        for _ in range(8):
            base[source.randrange(size)] = source.randrange(256)
        copies.append(bytes(base))
    return copies


def _decoded(frames: tuple, index: int) -> bytes:  # type: ignore[type-arg]
    frame = frames[index]
    if frame.encoding == "raw":
        return frame.data  # type: ignore[no-any-return]
    reference = None if frame.reference is None else _decoded(frames, frame.reference)
    return decompress(frame.data, frame.raw_size, reference)


def test_every_frame_decodes_and_references_stand_alone() -> None:
    blobs = [*_near_copies(1, 12, 4000), *_near_copies(2, 7, 3000), b"", b"x"]
    frames = compress(blobs, ["a"] * 12 + ["b"] * 7 + ["c", "d"])
    assert [_decoded(frames, index) for index in range(len(blobs))] == blobs
    used = {frame.reference for frame in frames} - {None}
    assert used and all(frames[index].reference is None for index in used)


def test_near_copies_cost_a_twentieth() -> None:
    blobs = _near_copies(3, 40, 20000)
    stored = sum(len(frame.data) for frame in compress(blobs, ["a"] * 40))
    assert stored * 20 < sum(map(len, blobs))


def test_what_does_not_resemble_is_stored_alone() -> None:
    source = random.Random(4)
    blobs = [source.randbytes(500) for _ in range(4)]
    assert [frame.encoding for frame in compress(blobs, ["a"] * 4)] == ["raw"] * 4


def test_the_same_blobs_give_the_same_frames() -> None:
    blobs = _near_copies(5, 9, 2000)
    assert compress(blobs, ["a"] * 9) == compress(list(blobs), ["a"] * 9)
