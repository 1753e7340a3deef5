"""The result of a backend's compile, and a source's closure of files.

A leaf: no backend is imported here.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiter_prebuilt.contract
from build_tools.errors import CodeObjectError, JobFailedError
from build_tools.files.run import Outcome
from build_tools.objects import codeobject
from build_tools.records import CompileJob

_INCLUDE: Final = re.compile(r'^[ \t]*(?:#[ \t]*include|\.include)[ \t]+"([^"]+)"', re.MULTILINE)

#: Where a child finds these modules: neither package need be installed, and the folder it runs in must not come first.
CHILD_PATH: Final = {
    "PYTHONPATH": os.pathsep.join(
        str(path)
        for path in (
            Path(__file__).resolve().parents[3],
            Path(aiter_prebuilt.contract.__file__).resolve().parents[2],
        )
    ),
    "PYTHONSAFEPATH": "1",
}


@dataclass(frozen=True, slots=True)
class Built:
    """One code object. ``symbol``: as it is in the object; ``threads``: per workgroup, 0 when the compiler did not fix them.

    ``extra``: what else the launch must know, by name; ``lds`` is dynamic LDS in bytes that the kernel expects.
    """

    path: Path
    symbol: str
    threads: int = 0
    extra: Mapping[str, str] = field(default_factory=dict)


def failure(
    job: CompileJob, outcome: Outcome, fix: str = "The compiler's own words follow"
) -> JobFailedError:
    """Build the error of a failed compile."""
    return JobFailedError(
        f"compile {job.id}",
        outcome.describe(),
        fix,
        command=outcome.command,
        status=outcome.exit_code,
        log=outcome.output,
    )


def built(job: CompileJob, path: Path, threads: int = 0, extra: Mapping[str, str] | None = None) -> Built:
    """Look into what the compiler wrote and name the kernel that ``job`` asked for.

    Raises:
        JobFailedError: the file is no code object, or has no such kernel.
    """
    try:
        kernels = [kernel.symbol for kernel in codeobject.read(path.read_bytes()).kernels]
    except (OSError, CodeObjectError) as error:
        raise JobFailedError(
            f"compile {job.id}",
            f"no usable code object came out ({error})",
            "Look at the compiler's settings",
        ) from error
    return Built(path, actual_symbol(job, kernels), threads, extra or {})


def actual_symbol(job: CompileJob, kernels: Iterable[str]) -> str:
    """Find the kernel that ``job.symbol`` means.

    It is the symbol itself, else the only one that is its C++-mangled name.

    Raises:
        JobFailedError: none or several.
    """
    names = list(kernels)
    if job.symbol in names:
        return job.symbol
    # Itanium ABI: a name is spelled with its length in front, at the end of any namespaces.
    spelled = re.compile(rf"_Z(N.*?)?(L)?{len(job.symbol)}{re.escape(job.symbol)}")
    matching = [name for name in names if spelled.match(name)]
    if len(matching) != 1:
        raise JobFailedError(
            f"find kernel {job.symbol!r} of {job.source}",
            f"the code object has {', '.join(names) or 'no kernel at all'}",
            'Name the symbol as in the source, and declare the kernel extern "C"',
        )
    return matching[0]


def definitions(constants: Iterable[tuple[str, object]]) -> list[tuple[str, str]]:
    """Constants as the preprocessor sees them: booleans as 0 and 1, numbers in decimal, strings verbatim."""
    return [(name, str(int(value)) if isinstance(value, bool) else str(value)) for name, value in constants]


def closure(source: str, root: Path, mentions: Callable[[Path, str], Iterable[Path]]) -> tuple[str, ...]:
    """``source`` and every file of the repository that it mentions, directly or not: the source first, then sorted.

    Raises:
        JobFailedError: the source is not a file of the repository.
    """
    start = root / source
    if not start.is_file():
        raise JobFailedError(
            f"compile {source}", "there is no such file in the repository", "Correct source in the manifest"
        )
    seen = {start.resolve()}
    waiting = [start.resolve()]
    while waiting:
        path = waiting.pop()
        for named in mentions(path, path.read_text(encoding="utf-8", errors="replace")):
            mentioned = named.resolve()
            if mentioned not in seen and mentioned.is_relative_to(root.resolve()):
                seen.add(mentioned)
                waiting.append(mentioned)
    others = sorted(path.relative_to(root.resolve()).as_posix() for path in seen - {start.resolve()})
    return (source, *others)


def quoted_includes(path: Path, text: str) -> list[Path]:
    """Files named by ``#include "..."`` and ``.include "..."``, beside the file that names them."""
    found = (path.parent / name for name in _INCLUDE.findall(text))
    return [candidate for candidate in found if candidate.is_file()]


def sibling_imports(path: Path, text: str) -> list[Path]:
    """Python files beside ``path`` that it imports; none when it is no Python, which its compile will say."""
    names: set[str] = set()
    try:
        tree = ast.parse(text, filename=str(path))
    except (SyntaxError, ValueError):
        return []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    candidates = (path.parent / f"{name}.py" for name in sorted(names))
    return [candidate for candidate in candidates if candidate.is_file()]
