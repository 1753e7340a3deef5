"""Opens built bundles on the build side: the contract's reader with a zstd decoder."""

from __future__ import annotations

from pathlib import Path

import zstandard

from aiter_prebuilt.contract.bundle import Bundle


def open_bundle(path: Path) -> Bundle:
    """Open a built bundle for reading."""
    return Bundle(path.read_bytes(), decompress)


def decompress(frame: bytes, raw_size: int, dictionary: bytes | None) -> bytes:
    """Decompress a frame.

    It is the decoder that the contract's reader asks for, on the build side.

    Raises:
        ValueError: the frame decodes to another size.
        zstandard.ZstdError: it does not decode.
    """
    content = None
    if dictionary:
        content = zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    decompressor = zstandard.ZstdDecompressor(dict_data=content)
    data = decompressor.decompress(frame, max_output_size=raw_size)
    if len(data) != raw_size:
        raise ValueError(f"{len(data)} bytes decoded, {raw_size} recorded")
    return data
