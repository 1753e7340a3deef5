"""Bundles to measure with, made from the code objects of our own build."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import zstandard

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / part) for part in ("src", "tests", "")]

from native import synthetic
from native.synthetic import Op, R, S, T

from aiter_prebuilt.contract import bundle as contract
from aiter_prebuilt.contract.records import Operator
from build_tools.objects.unpack import decompress
from build_tools.pack import writer
from build_tools.pack.compress import compress, regions

ENTRIES: Final = 3000
#: Bytes of the code objects whose first launch is timed.
SIZES: Final = {"40 KB": 40 << 10, "200 KB": 200 << 10}
MEMBERS: Final = 12
#: The operators that ``samples.py`` launches, in so many copies, however many entries the source has.
COPIED: Final = ("rms_norm", "softmax")
COPIES: Final = 5
#: Code objects that share a dictionary in the large bundle.
SHARED: Final = 16


def read(source: Path) -> tuple[contract.Bundle, list[Operator], dict[int, bytes]]:
    """A built bundle: its operators, and its code objects by position."""
    bundle = contract.Bundle(source.read_bytes(), decompress)
    operators = [bundle.operator(name) for name in bundle.names]
    blobs = {
        entry.code_object: bundle.code_object(entry) for operator in operators for entry in operator.entries
    }
    return bundle, operators, blobs


def _patched(blob: bytes, number: int) -> bytes:
    """A near-copy: sixteen bytes of the code are others."""
    middle = len(blob) // 2
    return blob[:middle] + hashlib.sha256(b"%d" % number).digest()[:16] + blob[middle + 16 :]


def _frame(blob: bytes, content: bytes = b"", number: int | None = None) -> writer.Frame:
    raw = zstandard.DICT_TYPE_RAWCONTENT
    known = zstandard.ZstdCompressionDict(content, dict_type=raw) if content else None
    packed = zstandard.ZstdCompressor(level=3, dict_data=known, write_dict_id=False).compress(blob)
    return writer.Frame(packed, len(blob), hashlib.sha256(blob).digest(), "zstd", number)


def large_bundle(source: Path, path: Path) -> int:
    """A bundle of at least :data:`ENTRIES` entries: copies of every operator of ``source`` under numbered names, each with code
    objects of its own, stored as the build stores near-copies. Returns the number of entries.
    """
    bundle, operators, blobs = read(source)
    originals = [blob for _, blob in sorted(blobs.items())]
    contents = [b"".join(originals[at : at + SHARED]) for at in range(0, len(originals), SHARED)]
    dictionaries = tuple(_frame(content) for content in contents)
    frames = [_frame(blob, contents[at // SHARED], at // SHARED) for at, blob in enumerate(originals)]
    made: list[Operator] = list(operators)
    copy = 0
    while copy < COPIES or sum(len(operator.entries) for operator in made) < ENTRIES:
        copy += 1
        chosen = [operator for operator in operators if copy > COPIES or operator.name in COPIED]
        places: dict[int, int] = {}
        for position in sorted({entry.code_object for operator in chosen for entry in operator.entries}):
            places[position] = len(frames)
            other = _patched(blobs[position], copy)
            frames.append(_frame(other, contents[position // SHARED], position // SHARED))
        for operator in chosen:
            entries = tuple(
                replace(entry, code_object=places[entry.code_object], sha256=frames[places[entry.code_object]].sha256)
                for entry in operator.entries
            )  # fmt: skip
            made.append(replace(operator, name=f"{operator.name}_{copy}", entries=entries))
    path.write_bytes(writer.encode(bundle.root, tuple(made), tuple(frames), dictionaries, regions))
    return sum(len(operator.entries) for operator in made)


def _of_size(size: int, blobs: list[bytes]) -> bytes:
    """Real code of ``size`` bytes: the largest code object, then others behind it."""
    ordered = sorted(blobs, key=len, reverse=True)
    return b"".join(ordered)[:size]


def launch_bundle(source: Path, path: Path) -> dict[str, int]:
    """A bundle with :data:`MEMBERS` operators for each size, each with a code object of its own; name of the operator -> bytes as
    stored. Near-copies: every twentieth of their bytes comes from another kernel.
    """
    _, _, blobs = read(source)
    kernels = list(blobs.values())
    images: dict[str, bytes] = {}
    for size in SIZES.values():
        base = _of_size(size, kernels)
        for member in range(MEMBERS):
            image = bytearray(base)
            other = kernels[member % len(kernels)]
            for at in range(4096, size - 256, 5120):
                image[at : at + 256] = (other * 2)[at % len(other) :][:256].ljust(256, b"\0")
            image[-32:] = hashlib.sha256(b"%d" % member).digest()
            images[f"launch_{size}_{member}"] = bytes(image)
    names = list(images)
    packed = compress(list(images.values()), [name.rsplit("_", 1)[0] for name in names])
    operators = []
    for name in names:
        step = S("kernel", ["ptr x", "i64 N"], ["cdiv(N, 256)"])
        op = synthetic.encode_operator(
            Op(name, [T("x", "f32", ["N"])], recipes=[R(steps=[step], blob=name)]), names
        )
        entries = tuple(replace(entry, sha256=hashlib.sha256(images[name]).digest()) for entry in op.entries)
        operators.append(replace(op, entries=entries))
    path.write_bytes(
        writer.encode(synthetic.root(), tuple(operators), packed.frames, packed.dictionaries, regions)
    )
    return {name: len(frame.data) for name, frame in zip(names, packed.frames, strict=True)}
