"""Assembly: our own ``.s`` sources, and code objects of others (``.co``) that are adopted unchanged after a check.

``.s``  integer constants become assembler symbols (``-defsym``); ``.S`` is preprocessed first, with every constant a macro.
``.co`` of a source tree (``aiter:hsa/...``) is what the tree's pin says; one of the repository has a file ``NAME.co.toml`` beside
        it with its sha256, target, symbol and kernarg size, and must be what it says there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from build_tools.compile.backends.built import Built, built, closure, definitions, failure, quoted_includes
from build_tools.errors import CodeObjectError, FetchError, JobFailedError
from build_tools.files.filehash import sha256_file
from build_tools.files.run import run
from build_tools.objects import codeobject
from build_tools.records import CompileJob, in_tree
from build_tools.tools import tree
from build_tools.tools.clang import ASSEMBLY_FLAGS, LINK_FLAGS
from build_tools.tools.toolchain import Toolchain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: What stands behind the name of a code object of the repository to name the file that vouches for it.
VOUCHER: Final = ".toml"
_ROW: Final = {"sha256", "target", "symbol", "kernarg_size", "origin"}


def expand(source: str, symbol: str, root: Path) -> tuple[str, ...]:
    """Files of the repository that a compile of ``source`` reads, the source first."""
    del symbol
    if in_tree(source):
        return (source,)
    if source.endswith(".co"):
        return (source, source + VOUCHER)
    return closure(source, root, quoted_includes)


def compile(job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> Built:
    """Assemble and link ``job`` into ``workdir``, or adopt its code object.

    Raises:
        JobFailedError: with the command, its exit status and the end of its output; or why the object is not adopted.
    """
    if job.source.endswith(".co"):
        return _from_tree(job, root, workdir) if in_tree(job.source) else _adopt(job, root, workdir)
    if in_tree(job.source):
        raise JobFailedError(
            f"assemble {job.source} for {job.id}",
            "it is a file of a source tree and no code object",
            "Name a .co file",
        )
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


def _from_tree(job: CompileJob, root: Path, workdir: Path) -> Built:
    """Take a code object from a source tree, unchanged.

    Its hash was checked when it was unpacked; the audit judges the rest.
    """
    try:
        data = tree.located(job.source, root).read_bytes()
    except (OSError, FetchError) as error:
        raise JobFailedError(
            f"adopt {job.source} for {job.id}", str(error), "Correct source in the manifest"
        ) from error
    path = workdir / "out.co"
    path.write_bytes(data)
    return built(job, path)


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
            f"Correct {job.source}{VOUCHER} or the manifest, or get the right file",
        )
    path = workdir / "out.co"
    path.write_bytes(source.read_bytes())
    return Built(path, job.symbol)


def _row(job: CompileJob, root: Path) -> dict[str, Any]:
    asked, voucher = f"adopt {job.source} for {job.id}", job.source + VOUCHER
    try:
        row = tomllib.loads((root / voucher).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise JobFailedError(asked, f"{voucher}: {error}", "hsa/README.md says what stands there") from error
    if set(row) != _ROW:
        odd = ", ".join(sorted(set(row) ^ _ROW))
        raise JobFailedError(
            asked, f"{voucher}: missing or unknown keys {odd}", f"The keys are {', '.join(sorted(_ROW))}"
        )
    return row


def _disagreements(source: Path, row: dict[str, Any]) -> list[str]:
    """List where a code object disagrees with its row."""
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
