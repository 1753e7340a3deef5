"""Composable Kernel: one HIP source per job, written by an instance generator or around a wrapper.

Where ``job.source`` is a generator (``.py``, for ck_tile), the constants ``op`` and ``instance`` choose what it writes, and all
others are macros. Where it is a wrapper (``.hip``, for CK's gridwise kernels), the constants are the instance: they are defined
between the header that it includes first and itself, because CK's headers name their own template parameters ``V``, too.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from build_tools.compile.backends.built import Built, closure, definitions, failure, quoted_includes
from build_tools.compile.backends.device import compile_device
from build_tools.errors import JobFailedError
from build_tools.files.run import run
from build_tools.records import CompileJob
from build_tools.tools.toolchain import Toolchain

_CHOOSING: Final = ("op", "instance")
_SUFFIXES: Final = (".py", ".toml", ".hpp", ".h", ".inc")


_WRAPPER: Final = ".hip"


def expand(source: str, symbol: str, root: Path) -> tuple[str, ...]:
    """List the files that a compile reads, the source first.

    Of a wrapper: its includes, and the headers that stand in for others. Of a generator: its tables and all headers; the
    preprocessor knows which of them an instance includes.
    """
    del symbol
    path = root / source
    if not path.is_file():
        raise JobFailedError(
            f"compile {source}", "there is no such file in the repository", "Correct source in the manifest"
        )
    if path.suffix == _WRAPPER:
        read = closure(source, root, quoted_includes)
        stand_ins = [*(path.parent / "ck").rglob("*"), *(_headers(path) / "hip").rglob("*")]
        # Headers of the C++ library have no suffix.
        read += tuple(file.relative_to(root).as_posix() for file in sorted(_library(path).glob("*")))
    else:
        read = (source,)
        stand_ins = [*path.parent.glob("*"), *_headers(path).rglob("*")]
    found = {file.relative_to(root).as_posix() for file in stand_ins if file.suffix in _SUFFIXES}
    visible = {name for name in found if not any(part.startswith((".", "__")) for part in Path(name).parts)}
    return (*read, *sorted(visible - set(read)))


def _headers(source: Path) -> Path:
    """Find our headers for ``source``, beside it or its folder."""
    return next(
        (folder / "include" for folder in source.parents if (folder / "include").is_dir()), source.parent
    )


def _library(source: Path) -> Path:
    """Find our stand-in for the C++ library, beside a wrapper."""
    return source.parent / "std"


def compile(job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> Built:
    """Write the source of ``job`` into ``workdir`` and compile it.

    Raises:
        JobFailedError: the generator does not know the instance, or the compile failed.
        FetchError: Composable Kernel's headers cannot be had.
    """
    source = root / job.source
    includes = [
        # Behind every other folder: where ROCm has a header that stands here too, ROCm's wins.
        "-idirafter", str(_headers(source)),
        "-isystem", str(toolchain.ck_include()),
        f"-ffile-prefix-map={root}=.", f"-ffile-prefix-map={toolchain.ck_include()}=ck",
    ]  # fmt: skip
    if source.suffix == _WRAPPER:
        includes += ["-I", str(source.parent)]
        if (
            toolchain.clang.libraries
        ):  # they are made for the library that the toolchain brings; ROCm reads the host's
            includes += ["-I", str(_library(source))]
        written = _wrapped(job, source, workdir / "wrapped.hip")
        bare = replace(job, constants=())
        return compile_device(
            bare, Path(written.name), workdir, workdir / "out.co", toolchain, headers=True, extra=includes
        )
    written = _generated(job, toolchain, root, workdir / "generated")
    macros = replace(job, constants=tuple(pair for pair in job.constants if pair[0] not in _CHOOSING))
    return compile_device(
        macros,
        written.relative_to(workdir),
        workdir,
        workdir / "out.co",
        toolchain,
        headers=True,
        extra=includes,
        prelude=_first_include(written, job),
    )


def _wrapped(job: CompileJob, source: Path, written: Path) -> Path:
    """Write the first header, constants as macros, and the wrapper.

    It is not precompiled: clang 22 then takes CK's member specialisations for other instructions.
    """
    lines = [_first_include(source, job)]
    lines += [f"#define {name} {value}" for name, value in definitions(job.constants)]
    lines.append(f'#include "{source.name}"')
    written.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return written


def _first_include(source: Path, job: CompileJob) -> str:
    found = re.search(r"^#include .*$", source.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise JobFailedError(
            f"compile {job.id}", f"{source.name} includes nothing", "Let it include its header first"
        )
    return found[0]


def _generated(job: CompileJob, toolchain: Toolchain, root: Path, folder: Path) -> Path:
    """Generate the source into ``folder``."""
    op, instance = (job.constant(name) for name in _CHOOSING)
    if not isinstance(op, str) or not isinstance(instance, str):
        raise JobFailedError(
            f"compile {job.id}",
            "the constants op and instance are not both given",
            "Name them in the manifest",
        )
    generator = root / job.source
    outcome = run(
        [toolchain.python, generator, "--op", op, "--instance", instance, "--working-path", folder],
        cwd=root,
        timeout=60,
    )
    if not outcome.ok:
        raise failure(job, outcome, "The generator's own words follow")
    sources = sorted(folder.glob("*.hip"))
    if len(sources) != 1:
        raise JobFailedError(
            f"compile {job.id}",
            f"{generator.name} wrote {len(sources)} sources for {instance}",
            "Correct instances.toml",
        )
    return sources[0]
