"""Do two runtime wheels, of two builders, hold the same program? One is compiled here by the hermetic compiler, the other in a
container: their extensions cannot be the same bytes, all else must be.

Not compared: ``RECORD`` and the bills of materials, which follow from the rest and from who built it, and the builder's name in
``WHEEL``.
"""

from __future__ import annotations

import io
from email.parser import BytesParser
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from build_tools.errors import WheelError

_EXTENSION: Final = ".so"
_BUILDERS_OWN: Final = ("RECORD", "sboms/")
#: What one builder may name and the other not: the hermetic compiler brings its C++ library inside, and from glibc 2.34 on the
#: C library is one file where it was several.
_SYSTEM: Final = frozenset(
    (
        "libstdc++.so.6",
        "libgcc_s.so.1",
        "libc.so.6",
        "libdl.so.2",
        "libm.so.6",
        "libpthread.so.0",
        "librt.so.1",
    )
)


def differences(first: Path, second: Path) -> list[str]:
    """List the differences of two wheels' programs; empty if none.

    Raises:
        WheelError: one of them is no wheel, or its extension no library.
    """
    one, other = _members(first), _members(second)
    found = [f"{name}: only in {path.name}" for path, name in _lonely(first, one, second, other)]
    for name in sorted(one.keys() & other.keys()):
        if name.endswith(_EXTENSION):
            found += _of_library(name, one[name], other[name])
        elif name.endswith(".dist-info/WHEEL"):
            found += _of_tags(name, one[name], other[name])
        elif one[name] != other[name]:
            found.append(f"{name}: other bytes")
    return found


def _members(path: Path) -> dict[str, bytes]:
    try:
        with ZipFile(path) as wheel:
            names = [name for name in wheel.namelist() if not name.endswith("/")]
            return {name: wheel.read(name) for name in names if not _of_builder(name)}
    except (OSError, BadZipFile) as error:
        raise WheelError(f"compare {path}", f"it is no wheel: {error}", "Name two runtime wheels") from error


def _of_builder(name: str) -> bool:
    folder, _, rest = name.partition("/")
    return folder.endswith(".dist-info") and rest.startswith(_BUILDERS_OWN)


def _lonely(
    first: Path, one: dict[str, bytes], second: Path, other: dict[str, bytes]
) -> list[tuple[Path, str]]:
    here, there = sorted(one.keys() - other.keys()), sorted(other.keys() - one.keys())
    return [*((first, name) for name in here), *((second, name) for name in there)]


def _of_tags(name: str, one: bytes, other: bytes) -> list[str]:
    """Compare the fields that say where a wheel may be installed."""
    mine, yours = (BytesParser().parsebytes(data) for data in (one, other))
    found = []
    for field in ("Wheel-Version", "Root-Is-Purelib", "Tag"):
        here, there = sorted(mine.get_all(field, ())), sorted(yours.get_all(field, ()))
        if here != there:
            found.append(f"{name}: {field} is {', '.join(here)} in one and {', '.join(there)} in the other")
    return found


def _of_library(name: str, one: bytes, other: bytes) -> list[str]:
    """Compare the exported and imported symbols of a library."""
    (gives, asks), (given, asked) = _faces(name, one), _faces(name, other)
    found = []
    if gives != given:
        found.append(f"{name}: exports {', '.join(sorted(gives ^ given))} in one of them only")
    if asks - _SYSTEM != asked - _SYSTEM:
        found.append(f"{name}: needs {', '.join(sorted((asks ^ asked) - _SYSTEM))} in one of them only")
    return found


def _faces(name: str, data: bytes) -> tuple[set[str], set[str]]:
    try:
        file = ELFFile(io.BytesIO(data))
        table, dynamic = file.get_section_by_name(".dynsym"), file.get_section_by_name(".dynamic")
        if not isinstance(table, SymbolTableSection) or not isinstance(dynamic, DynamicSection):
            raise WheelError(f"read {name}", "it is no shared library", "Build the wheel again")
        gives = {
            symbol.name
            for symbol in table.iter_symbols()
            if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] == "STB_GLOBAL"
        }
        return gives, {
            str(vars(tag)["needed"]) for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"
        }
    except WheelError:
        raise
    except Exception as error:  # pyelftools meets broken bytes with whatever its parsers raise
        raise WheelError(f"read {name}", f"it is no ELF file: {error}", "Build the wheel again") from error
