"""Derive the class of a module from its sources and generators.

None is listed by hand.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from build_tools.modules.config import Configured

HIP, CK, CK_TILE, ASM, BLAS, TUNING, PYBIND = "hip", "ck", "ck_tile", "asm", "blas", "tuning", "pybind"
#: A module of several kinds is called by the first of them here.
CLASSES: Final = (TUNING, BLAS, CK, CK_TILE, ASM, HIP, PYBIND)
_TUNING: Final = re.compile(r"--tune(\s|$)")
_KERNEL: Final = re.compile(r"__global__|<<<")
#: Sources that load an assembled object with the driver's help.
_LOADS: Final = re.compile(r"\b(AiterAsmKernel|load_asm_kernel|hipModuleLoad\w*)\b")
_INCLUDE: Final = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
#: AITER's folders of sources that call Composable Kernel; elsewhere a ck_tile header lends types alone.
_OF_CK: Final = re.compile(r"csrc/(py_itfs_ck|ck_|cktile_|ck_tile_)")
_EXAMPLES: Final = "ck/example/ck_tile"
_BINDS: Final = "csrc/pybind/"
_SHARED: Final = "csrc/include"

#: The text of a file of the tree, without comments; None where there is none.
Text = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Classified:
    """``first``: what the module is called; ``kinds``: all that it is made of, in the order of :data:`CLASSES`."""

    first: str
    kinds: tuple[str, ...]


def classify(module: Configured, files: tuple[str, ...], text: Text) -> Classified:
    """``files``: the module's sources, files below folders among them one by one."""
    kinds = {kind for file in files if (kind := _of_source(file, module, text)) is not None}
    if any(_TUNING.search(command) for command in module.generators):
        kinds.add(TUNING)
    if any(command.startswith(_EXAMPLES) for command in module.generators):
        kinds.add(CK_TILE)
    if any(command.startswith("hsa/") for command in module.generators):
        kinds.add(ASM)
    called = kinds or {PYBIND}
    if module.generators and called == {PYBIND}:
        called = {HIP}
    # the generator says it in the text that it writes
    tiles = any("ck_tile::" in (text(command.split()[0]) or "") for command in module.generators)
    beside = {CK_TILE} if tiles else set()
    return Classified(_first(called), tuple(kind for kind in CLASSES if kind in called | beside))


def _first(kinds: set[str]) -> str:
    return next(kind for kind in CLASSES if kind in kinds)


def _of_source(file: str, module: Configured, text: Text) -> str | None:
    """Classify a source; None when it only binds or helps the host."""
    if file.startswith(_BINDS):
        return None
    root = file.partition("/")[0]
    if root == "gradlib":
        return BLAS
    if root == "ck":
        return CK_TILE
    said = text(file) or ""
    if _OF_CK.match(file):
        return _of_ck(file, module, text)
    if _LOADS.search(said):
        return ASM
    return HIP if any(_KERNEL.search(each) for each in _with_headers(file, module, text)) else None


def _of_ck(file: str, module: Configured, text: Text) -> str:
    """Tell Composable Kernel's old part from its tiles.

    By the source's includes and AITER's headers of it.
    """
    if any(folder.startswith(_EXAMPLES) for folder in module.includes):
        return CK_TILE
    named = {name for said in _with_headers(file, module, text) for name in _INCLUDE.findall(said)}
    return CK if any(name.startswith("ck/") for name in named) else CK_TILE


def _with_headers(file: str, module: Configured, text: Text) -> Iterator[str]:
    """Yield the texts of a source and of its headers.

    They are the tree's own, however far away.
    """
    todo, seen = [file], {file}
    while todo:
        here = todo.pop()
        said = text(here)
        if said is None:
            continue
        yield said
        for name in _INCLUDE.findall(said):
            for place in (posixpath.dirname(here), *module.includes, _SHARED):
                path = posixpath.normpath(f"{place}/{name}")
                if text(path) is not None:
                    if path not in seen:
                        seen.add(path)
                        todo.append(path)
                    break
