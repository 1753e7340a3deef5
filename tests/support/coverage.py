"""The coverage report of the embedded device's library, for single instructions and for all that we ship."""

from __future__ import annotations

import ctypes
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from support.assembly import code_object
from support.emulator import bundles, library

S_ENDPGM = 0xBF810000
_ROOM = 16  # dwords of the code object that instructions are put into


@dataclass(frozen=True, slots=True)
class Use:
    """One mnemonic of a code object, and how often it stands there."""

    mnemonic: str
    count: int
    decoded: bool
    executable: bool


def code_objects(target: str) -> Iterator[tuple[str, bytes]]:
    """Each code object of the target's bundles once, with the name of an entry in it."""
    from build_tools.objects.unpack import open_bundle

    seen: set[bytes] = set()
    for path in bundles(target, "ck-full"):
        bundle = open_bundle(path)
        for name in bundle.names:
            for entry in bundle.operator(name).entries:
                if entry.sha256 not in seen:
                    seen.add(entry.sha256)
                    yield entry.name, bundle.code_object(entry)


def document(image: bytes) -> dict[str, Any]:
    """Return the document of ``apb_emulator_coverage``."""
    lib = library()
    lib.apb_emulator_coverage.restype = ctypes.c_void_p
    lib.apb_emulator_free.argtypes = (ctypes.c_void_p,)
    pointer = lib.apb_emulator_coverage(image, ctypes.c_size_t(len(image)))
    text = ctypes.string_at(pointer)
    lib.apb_emulator_free(pointer)
    found: dict[str, Any] = json.loads(text)
    return found


def uses(image: bytes, target: str) -> list[Use]:
    """Every mnemonic of a code object for ``target``."""
    found = document(image)
    assert found.get("target") == target, found
    return [Use(**row) for row in found["instructions"]]


@cache
def _room(target: str) -> tuple[bytes, int]:
    """A code object of nothing but s_endpgm, and where its code begins in the file."""
    elffile = pytest.importorskip("elftools.elf.elffile")
    image = code_object(target, f".fill {_ROOM}, 4, {S_ENDPGM:#x}")
    return image, int(elffile.ELFFile(io.BytesIO(image)).get_section_by_name(".text")["sh_offset"])


def patched(target: str, words: Sequence[int]) -> bytes:
    """A code object whose kernel is ``words`` and s_endpgm."""
    image, at = _room(target)
    assert len(words) < _ROOM
    code = b"".join(word.to_bytes(4, "little") for word in words)
    return image[:at] + code + image[at + len(code) :]


def instruction(target: str, words: Sequence[int]) -> Use:
    """The report on one instruction in a code object of its own."""
    rows = uses(patched(target, words), target)
    (use,) = [row for row in rows if row.mnemonic != "s_endpgm"] or rows
    return use
