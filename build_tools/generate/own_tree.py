"""A tree of kernels of one's own, which lies anywhere: what of this repository its manifests need, copied into it.

A tree is built and proved as this repository is (``--root``): its manifests, sources, bundles and receipts are its own, the
compilers, the runtime and the emulator those of here. The copied files are facts about targets and pins of tools; a tree
whose copies are of another time is refused, since its bundles would not be what these tools make.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from build_tools.errors import UsageError
from build_tools.files.reproducible import write_atomic
from build_tools.generate import functions
from build_tools.manifest.model import Manifest

#: What every tree has as it is here; the last three are what fills results with zero (``zero = "out"``).
COPIED: Final = (
    "manifests/targets.toml", "manifests/profiles.toml", "manifests/toolchains.toml", "csrc/kernels/hip/zero.hip",
    "csrc/kernels/hip/common.hpp",
)  # fmt: skip
#: AITER's operators are no business of such a tree.
CATALOGUE: Final = "manifests/catalogue.toml"
_EMPTY: Final = "edition = 1\n\n[categories]\n"
#: Where the Python functions of a tree's operators are written: a module a family, and a program that executes their calls.
FUNCTIONS: Final = "build/functions"
#: What the program or its imports use.
_TAKEN: Final = frozenset(sys.stdlib_module_names) | {"aiter_prebuilt", "numpy", "torch"}
_PROGRAM: Final = """\
# Written by `python -m build_tools`. Do not edit.
\"\"\"Executes calls of this tree's operators, as ``python -m aiter_prebuilt.execute`` does those of the package.\"\"\"

import sys

import aiter_prebuilt
{imports}
from aiter_prebuilt.execute.__main__ import main

for module in ({modules}):
    for name in module.OPERATORS:
        setattr(aiter_prebuilt, name, getattr(module, name))
    aiter_prebuilt.__all__ = [*aiter_prebuilt.__all__, *module.OPERATORS]
if __name__ == "__main__":
    sys.exit(main())
"""


def make(folder: Path, house: Path) -> list[str]:
    """Copy into ``folder`` what it lacks, or has of another time, of the repository ``house``; the names of what was written.

    Raises:
        UsageError: it is a repository that has all of this itself.
    """
    if (folder / "build_tools").is_dir() or folder.resolve().is_relative_to(house.resolve()):
        raise UsageError(
            f"make {folder} a tree of manifests",
            "it belongs to this repository, or is one",
            "Name another folder",
        )
    texts = {name: (house / name).read_bytes() for name in COPIED}
    if not (folder / CATALOGUE).exists():
        texts[CATALOGUE] = _EMPTY.encode()
    written = [name for name, text in texts.items() if not _is(folder / name, text)]
    for name in written:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / name, texts[name])
    return written


def check(folder: Path, house: Path) -> None:
    """Raise UsageError unless ``folder`` is ``house`` itself, or a tree whose copies are what is here now."""
    if folder.resolve() == house.resolve():
        return
    asked = f"build the tree {folder}"
    again = f"Run python -m build_tools new-tree {folder}"
    for name in (*COPIED, CATALOGUE):
        if not (folder / name).is_file():
            raise UsageError(asked, f"it has no {name}", again)
        if name in COPIED and not _is(folder / name, (house / name).read_bytes()):
            raise UsageError(asked, f"its {name} is another than the one of these tools", again)


def write_functions(manifest: Manifest, folder: Path) -> Path:
    """Write the Python functions of the operators of a tree; the folder in which they are.

    Raises:
        UsageError: an operator whose function is written by hand, which has no place in a tree, or a family whose module would
            stand before another one of that name.
    """
    texts = {}
    for name, family in manifest.families.items():
        if name in _TAKEN:
            raise UsageError(
                f"write the functions of {folder}",
                f"manifests/{name} would become a module {name!r}, and there is another one of that name",
                "Give the family another name",
            )
        by_hand = [operator.name for operator in family.operators if operator.function is not None]
        if by_hand:
            raise UsageError(
                f"write the functions of {folder}",
                f"manifests/{name} says that {', '.join(by_hand)} is written by hand",
                "Leave out function: a tree of one's own has generated ones alone",
            )
        operators = tuple(operator.name for operator in family.operators)
        texts[f"{name}.py"] = f"{functions.functions(family) or ''}\n\nOPERATORS = {operators!r}\n"
    names = sorted(manifest.families)
    texts["__main__.py"] = _PROGRAM.format(
        imports="\n".join(f"import {name}" for name in names), modules="".join(f"{name}, " for name in names)
    )
    place = folder / FUNCTIONS
    for name, text in texts.items():
        if not _is(place / name, text.encode()):
            place.mkdir(parents=True, exist_ok=True)
            write_atomic(place / name, text.encode())
    return place


def _is(path: Path, text: bytes) -> bool:
    return path.is_file() and path.read_bytes() == text
