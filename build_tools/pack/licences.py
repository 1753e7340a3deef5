"""Licence of our own work and of what others' work becomes part of a wheel: expression and notices, from ``table.toml``.

python -m build_tools.pack.licences     write THIRD_PARTY.txt of the runtime again, which its wheel and its sdist carry
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER: Final = Path(__file__).resolve().with_name("licence_texts")
OWN: Final = "MIT"
#: The pseudo-backend of what is linked into the native extension.
RUNTIME: Final = "runtime"
#: The pseudo-backend of Triton's kernels for NVIDIA's targets, which have nothing of AMD's in them.
TRITON_NVIDIA: Final = "triton-nvidia"
#: The pseudo-backend of HIP sources for NVIDIA's targets: our own, with no header and no library of anybody else.
HIP_NVIDIA: Final = "hip-nvidia"
#: The pseudo-backend of what is linked into the emulator, or is a fact in its tables.
EMULATOR: Final = "emulator"


@dataclass(frozen=True, slots=True)
class Part:
    """Work of others: what it is, under which SPDX expression, whose, from where, and through which backends it comes in.

    ``carrier`` is the pin that brings it; ``table.toml`` says what the rest means.
    """

    name: str
    title: str
    backends: tuple[str, ...]
    spdx: str
    holder: str
    url: str
    carrier: str
    version: str
    purl: str
    files: tuple[str, ...]
    rocm: bool
    says: str = ""


@cache
def table() -> tuple[Part, ...]:
    """All rows of ``table.toml``, in its order."""
    document = tomllib.loads((FOLDER / "table.toml").read_text(encoding="utf-8"))
    rows = {name: row for name, row in document.items() if name != "edition"}
    return tuple(_part(name, row) for name, row in rows.items())


def _part(name: str, row: dict[str, Any]) -> Part:
    return Part(
        name=name,
        title=row["title"],
        backends=tuple(row["backends"]),
        spdx=row["spdx"],
        holder=row["holder"],
        url=row["url"],
        carrier=row["from"],
        version=row["version"],
        purl=row["purl"],
        files=tuple(row.get("files", ())),
        rocm=row.get("rocm", False),
        says=row.get("says", ""),
    )


def parts(backends: Iterable[str]) -> tuple[Part, ...]:
    """List the parts of others' work that backends bring in."""
    wanted = set(backends)
    return tuple(part for part in table() if wanted & set(part.backends))


def parts_in(text: str) -> tuple[str, ...]:
    """List the parts whose telling text a file has.

    They are pseudo-backends; the file is one of a source tree.
    """
    return tuple(backend for part in table() if part.says and part.says in text for backend in part.backends)


def expression(backends: Iterable[str]) -> str:
    """SPDX licence expression (PEP 639) of a wheel with kernels of ``backends``."""
    others = sorted({part.spdx for part in parts(backends)} - {OWN})
    return " AND ".join([OWN, *(f"({spdx})" if " " in spdx else spdx for spdx in others)])


def notices(backends: Iterable[str], upstream: Mapping[str, str] | None = None) -> str:
    """Return the text of ``THIRD_PARTY.txt``.

    Each part with its holder, then each licence once, in full; then the file of others that each entry is (``upstream``: entry ->
    file, as the tree's package has it).
    """
    found = parts(backends)
    lines = ["Parts of this wheel were made from the work of others:", ""]
    for part in found:
        lines += [part.title, f"  Copyright (c) {part.holder}", f"  {part.spdx}", f"  {part.url}", ""]
    for spdx in sorted({part.spdx for part in found}):
        text = (FOLDER / f"{spdx.replace(' ', '-')}.txt").read_text(encoding="utf-8").rstrip()
        lines += ["=" * 80, spdx, "", text, ""]
    if upstream:
        lines += [
            "-" * 80,
            "Entries and the files that they were made from, as their packages have them:",
            "",
        ]
        lines += [f"{entry}: {file}" for entry, file in sorted(upstream.items())] + [""]
    return "\n".join(lines)


def main() -> int:
    """Write the runtime's notices where pyproject.toml names them."""
    root = Path(__file__).resolve().parents[2]
    (root / "THIRD_PARTY.txt").write_text(notices([RUNTIME]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
