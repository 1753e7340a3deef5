"""A tree of kernels of one's own, which lies anywhere: what of this repository its manifests need, copied into it.

A tree is built and proved as this repository is (``--root``): its manifests, sources, bundles and receipts are its own, the
compilers, the runtime and the emulator those of here. The copied files are facts about targets and pins of tools; a tree
whose copies are of another time is refused, since its bundles would not be what these tools make.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from build_tools.errors import UsageError
from build_tools.files.reproducible import write_atomic
from build_tools.generate import functions
from build_tools.manifest.model import Manifest
from build_tools.manifest.tree import FILE, Tree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: What every tree has as it is here; the last three are what fills results with zero (``zero = "out"``).
COPIED: Final = (
    "manifests/targets.toml", "manifests/profiles.toml", "manifests/toolchains.toml", "csrc/kernels/hip/zero.hip",
    "csrc/kernels/hip/common.hpp",
)  # fmt: skip
#: AITER's operators are no business of such a tree.
CATALOGUE: Final = "manifests/catalogue.toml"
_EMPTY: Final = "edition = 1\n\n[categories]\n"
_TREE: Final = """\
# How this tree is called and released: docs/own-kernels-wheel.md.
name = "{name}"
version = "0.1.0"
licence = "LicenseRef-Proprietary"
summary = "Kernels beside aiter-prebuilt"
# Where its kernels of an operator that the product has, too, stand among those of the product: before or after.
order = "before"
"""
_HOUSE: Final = Path(__file__).resolve().parents[2]
_OPERATORS: Final = "*/operators.toml"
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
    if not (folder / FILE).exists():
        texts[FILE] = _TREE.format(name=_name_of(folder)).encode()
    written = [name for name, text in texts.items() if not _is(folder / name, text)]
    for name in written:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / name, texts[name])
    return written


def _name_of(folder: Path) -> str:
    """Make a name of a wheel of a folder's name."""
    name = re.sub("[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    return name if name[:1].isalpha() and not name.startswith("aiter") else f"own-{name}".strip("-")


def check(folder: Path, house: Path) -> None:
    """Raise UsageError unless ``folder`` is ``house`` itself, or a tree whose copies are what is here now."""
    if folder.resolve() == house.resolve():
        return
    asked = f"build the tree {folder}"
    again = f"Run python -m build_tools new-tree {folder}"
    for name in (*COPIED, CATALOGUE, FILE):
        if not (folder / name).is_file():
            raise UsageError(asked, f"it has no {name}", again)
        if name in COPIED and not _is(folder / name, (house / name).read_bytes()):
            raise UsageError(asked, f"its {name} is another than the one of these tools", again)


def check_signatures(folder: Path, house: Path) -> None:
    """Raise UsageError when an operator of a tree has the name of one of the product and another signature."""
    mine = {name for path in (folder / "manifests").glob(_OPERATORS) for name in _operators_in(path)}
    added = {name for names in added_operators(folder).values() for name in names}
    if mine == added:
        return
    from build_tools.generate.extension import refuse_other_signatures
    from build_tools.manifest.parse import load, read
    from build_tools.manifest.problems import Problems

    tree = read(folder / "manifests", Problems())
    if tree is not None:  # what is wrong in it, the verb says
        refuse_other_signatures(tree, load(house / "manifests"))


def added_operators(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the operators of a tree that the product has not, by family."""
    house = {name for path in (_HOUSE / "manifests").glob(_OPERATORS) for name in _operators_in(path)}
    return {
        path.parent.name: tuple(name for name in _operators_in(path) if name not in house)
        for path in sorted((folder / "manifests").glob(_OPERATORS))
    }


def _operators_in(path: Path) -> list[str]:
    try:
        return [*tomllib.loads(path.read_text(encoding="utf-8")).get("operators", {})]
    except (OSError, ValueError, AttributeError):  # the manifest's reader says what is wrong
        return []


def package_files(folder: Path, tree: Tree) -> dict[str, bytes]:
    """Return the files of the Python package in a tree's wheel, by their names there."""
    place = folder / FUNCTIONS
    names = sorted(path.stem for path in place.glob("*.py") if path.stem != "__main__")
    files = {f"{tree.package}/{name}.py": (place / f"{name}.py").read_bytes() for name in names}
    text = package_text(tree, names, added_operators(folder))
    return files | {f"{tree.package}/__init__.py": text.encode()}


def package_text(tree: Tree, families: Sequence[str], added: Mapping[str, Sequence[str]]) -> str:
    """Write the ``__init__.py`` of the package in a tree's wheel.

    Args:
        tree: the tree.
        families: the modules beside it.
        added: operators that the product has not, by family; the functions of the others are the product's.
    """
    names = sorted(name for names in added.values() for name in names)
    lines = [
        "# Written by `python -m build_tools wheels --root`. Do not edit.",
        f'"""{tree.summary}."""',
        "",
        *(f"from {tree.package} import {name} as _{name}" for name in families),
        *(
            f"from {tree.package}.{family} import {name}"
            for family, own in sorted(added.items())
            for name in sorted(own)
        ),
        "",
        f"__all__ = {names!r}",
        f"__version__ = {tree.version!r}",
        "#: Every operator that the bundles have, by name: what executes their golden calls.",
        "FUNCTIONS = {",
        *(f"    **{{name: getattr(_{name_}, name) for name in _{name_}.OPERATORS}}," for name_ in families),
        "}",
    ]
    return "\n".join(lines) + "\n"


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
