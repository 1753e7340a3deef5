"""The files that a FlyDSL kernel's source is made of: itself and what it imports from the folder in which it lies, modules and
packages alike. The key of a job covers exactly these, so the compile is given these and no others (:func:`module_of`).

Names of Python's own library, and FlyDSL's, numpy's and torch's, never mean a file of that folder. What is imported by a name
that is made when the program runs (``importlib.import_module(f"...")``) is not seen here, and so not found there.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from build_tools.errors import JobFailedError

#: Top names that are never looked for beside a source; FlyDSL itself needs numpy.
ELSEWHERE: Final = frozenset(sys.stdlib_module_names) | {"flydsl", "numpy", "torch"}
_PACKAGE: Final = "__init__.py"


def sources_of(source: str, root: Path) -> tuple[str, ...]:
    """``source`` and every file below its folder that it imports, directly or not: the source first, then sorted.

    Raises:
        JobFailedError: there is no such file, or one of them is a link that leads out of ``root``, or an import does.
    """
    folder = PurePosixPath(source).parent
    found = {source: _text(source, source, root)}
    waiting = [(source, "")]
    while waiting:
        name, package = waiting.pop()
        for module in _imported(source, name, found[name], package):
            for part in _prefixes(module):
                path = _file_of(folder, part, root)
                if path is not None and path not in found:
                    found[path] = _text(source, path, root)
                    inside = part if path.endswith(f"/{_PACKAGE}") else part.rpartition(".")[0]
                    waiting.append((path, inside))
    return (source, *sorted(found.keys() - {source}))


def module_of(source: str, name: str) -> str:
    """Name the module of a file relative to ``source``.

    Both are relative to one root: ``kernels/norm/rows.py`` beside it is ``kernels.norm.rows``, ``kernels/__init__.py`` is
    ``kernels``.
    """
    path = PurePosixPath(name).relative_to(PurePosixPath(source).parent).with_suffix("")
    return ".".join(path.parts[:-1] if path.name == PurePosixPath(_PACKAGE).stem else path.parts)


def _prefixes(module: str) -> Iterator[str]:
    """Yield ``a``, ``a.b``, ``a.b.c``.

    Python loads the packages above a module first.
    """
    parts = module.split(".")
    if parts[0] not in ELSEWHERE:
        yield from (".".join(parts[: count + 1]) for count in range(len(parts)))


def _file_of(folder: PurePosixPath, module: str, root: Path) -> str | None:
    """Find the file of ``module``; None where there is none.

    A package comes before a module of the same name, as Python has it.
    """
    place = folder.joinpath(*module.split("."))
    for name in (place / _PACKAGE, place.with_name(f"{place.name}.py")):
        if os.path.lexists(root / name):
            return name.as_posix()
    return None


def _text(source: str, name: str, root: Path) -> str:
    path = root / name
    real = path.resolve()
    if not real.is_relative_to(root.resolve()):
        raise JobFailedError(
            f"compile {source}",
            f"{name} leads out of its tree, to {real}",
            "Put the file itself there: a key covers files of the tree alone",
        )
    if not real.is_file():
        raise JobFailedError(
            f"compile {source}", f"{name} is no file of the repository", "Correct source in the manifest"
        )
    return real.read_text(encoding="utf-8", errors="replace")


def _imported(source: str, name: str, text: str, package: str) -> Iterator[str]:
    """Modules that the file ``name`` of ``package`` imports, and what may be modules in them; none where it is no Python, which
    its compile will say.
    """
    try:
        tree = ast.parse(text, filename=name)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = _above(source, name, node, package)
            base = ".".join(part for part in (above, node.module or "") if part)
            yield from ([base] if base else [])
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)


def _above(source: str, name: str, node: ast.ImportFrom, package: str) -> str:
    """Find the package that a relative import's dots mean.

    "" for an absolute import.

    Raises:
        JobFailedError: it is above the folder of the source.
    """
    if not node.level:
        return ""
    parts = package.split(".") if package else []
    if node.level > len(parts):
        raise JobFailedError(
            f"compile {source}",
            f"{name}:{node.lineno} imports with {node.level} dots, and lies in {len(parts)} packages beside the source",
            "Put the kernel's source beside the packages that it imports",
        )
    return ".".join(parts[: len(parts) - node.level + 1])
