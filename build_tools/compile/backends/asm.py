"""Assembly: our own ``.s`` sources, and code objects of others (``.co``) that are adopted unchanged after a check.

``.s``  integer constants become assembler symbols (``-defsym``); ``.S`` is preprocessed first, with every constant a macro.
``.co`` must stand in ``hsa/adopted.toml`` with its sha256, target, symbol and kernarg size, and must be what it says there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from build_tools.compile.backends.built import Built, built, closure, definitions, failure, quoted_includes
from build_tools.errors import CodeObjectError, JobFailedError
from build_tools.files.filehash import sha256_file
from build_tools.files.run import run
from build_tools.objects import codeobject
from build_tools.records import CompileJob
from build_tools.tools.clang import ASSEMBLY_FLAGS, LINK_FLAGS
from build_tools.tools.toolchain import Toolchain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ADOPTED: Final = "hsa/adopted.toml"
_ROW: Final = {"file", "sha256", "target", "symbol", "kernarg_size", "origin"}


def expand(source: str, symbol: str, root: Path) -> tuple[str, ...]:
    """Files of the repository that a compile of ``source`` reads, the source first."""
    del symbol
    if source.endswith(".co"):
        return (source, ADOPTED)
    return closure(source, root, quoted_includes)


def compile(job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> Built:
    """Assemble and link ``job`` into ``workdir``, or adopt its code object.

    Raises:
        JobFailedError: with the command, its exit status and the end of its output; or why the object is not adopted.
    """
    if job.source.endswith(".co"):
        return _adopt(job, root, workdir)
    clang = toolchain.clang
    source = Path(job.source)
    if source.suffix == ".S":
        language = ["-x", "assembler-with-cpp", f"-DAPB_TARGET={job.target.name}"]
        language += [f"-D{name}={value}" for name, value in definitions(job.constants)]
    else:
        numbers = [(name, int(value)) for name, value in job.constants if isinstance(value, int)]
        language = ["-x", "assembler", *(f"-Wa,-defsym,{name}={value}" for name, value in numbers)]
    relocatable = workdir / "out.o"
    assemble = [*clang.driver, *ASSEMBLY_FLAGS, f"-mcpu={job.target.name}", *language]
    assemble += ["-I", str(source.parent), "-c", str(source), "-o", str(relocatable)]
    link = [*clang.lld, *LINK_FLAGS, str(relocatable), "-o", str(workdir / "out.co")]
    for argv in (assemble, link):
        outcome = run(argv, cwd=root, env=clang.env)
        if not outcome.ok:
            raise failure(job, outcome)
    return built(job, workdir / "out.co")


def _adopt(job: CompileJob, root: Path, workdir: Path) -> Built:
    row = _row(job, root)
    source = root / job.source
    problems = []
    digest = sha256_file(source) if source.is_file() else "nothing"
    if digest != row["sha256"]:
        problems.append(f"the file has sha256 {digest} and not {row['sha256']}")
    if row["target"] != job.target.name:
        problems.append(f"it is for {row['target']} and not {job.target.name}")
    if row["symbol"] != job.symbol:
        problems.append(f"its kernel is {row['symbol']} and not {job.symbol}")
    if not problems:
        problems += _disagreements(source, row)
    if problems:
        raise JobFailedError(
            f"adopt {job.source} for {job.id}",
            "; ".join(problems),
            f"Correct {ADOPTED} or the manifest, or get the right file",
        )
    path = workdir / "out.co"
    path.write_bytes(source.read_bytes())
    return Built(path, job.symbol)


def _row(job: CompileJob, root: Path) -> dict[str, Any]:
    asked = f"adopt {job.source} for {job.id}"
    try:
        table = tomllib.loads((root / ADOPTED).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise JobFailedError(asked, f"{ADOPTED}: {error}", "List each adopted code object there") from error
    rows = [row for row in table.get("adopted", []) if row.get("file") == job.source]
    if len(rows) != 1:
        raise JobFailedError(asked, f"{ADOPTED} names it {len(rows)} times", "List it there exactly once")
    if set(rows[0]) != _ROW:
        odd = sorted(set(rows[0]) ^ _ROW)
        raise JobFailedError(
            asked,
            f"{ADOPTED}: missing or unknown keys {', '.join(odd)}",
            f"The keys are {', '.join(sorted(_ROW))}",
        )
    return dict(rows[0])


def _disagreements(source: Path, row: dict[str, Any]) -> list[str]:
    """What the code object itself says against its row."""
    try:
        facts = codeobject.read(source.read_bytes())
    except CodeObjectError as error:
        return [str(error)]
    kernel = next((kernel for kernel in facts.kernels if kernel.symbol == row["symbol"]), None)
    if kernel is None:
        return [f"it has no kernel {row['symbol']}"]
    problems = [f"its ELF is for {facts.target}"] if facts.target != row["target"] else []
    if kernel.kernarg_size != row["kernarg_size"]:
        problems.append(
            f"its kernel takes {kernel.kernarg_size} bytes of arguments and not {row['kernarg_size']}"
        )
    return problems
