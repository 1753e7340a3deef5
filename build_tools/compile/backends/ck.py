"""Composable Kernel: the instance generator writes one HIP source per job, which is then compiled as any other.

``job.source`` is the generator; the constants ``op`` and ``instance`` choose what it writes, all others are macros.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from build_tools.compile.backends.built import Built, failure
from build_tools.compile.backends.device import compile_device
from build_tools.errors import JobFailedError
from build_tools.files.run import run
from build_tools.records import CompileJob
from build_tools.tools.toolchain import Toolchain

_CHOOSING: Final = ("op", "instance")
_SUFFIXES: Final = (".py", ".toml", ".hpp", ".h", ".inc")


def expand(source: str, symbol: str, root: Path) -> tuple[str, ...]:
    """The generator, its tables and all headers beside it; which of them an instance includes is for the preprocessor to know."""
    del symbol
    folder = (root / source).parent
    if not (root / source).is_file():
        raise JobFailedError(
            f"compile {source}", "there is no such file in the repository", "Correct source in the manifest"
        )
    files = (
        path.relative_to(root) for path in folder.rglob("*") if path.suffix in _SUFFIXES and path.is_file()
    )
    visible = sorted(
        path.as_posix() for path in files if not any(part.startswith((".", "__")) for part in path.parts)
    )
    return (source, *(name for name in visible if name != source))


def compile(job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> Built:
    """Generate the instance of ``job`` into ``workdir`` and compile it.

    Raises:
        JobFailedError: the generator does not know the instance, or the compile failed.
        FetchError: Composable Kernel's headers cannot be had.
    """
    op, instance = (job.constant(name) for name in _CHOOSING)
    if not isinstance(op, str) or not isinstance(instance, str):
        raise JobFailedError(
            f"compile {job.id}",
            "the constants op and instance are not both given",
            "Name them in the manifest",
        )
    generator = root / job.source
    generated = workdir / "generated"
    outcome = run(
        [toolchain.python, generator, "--op", op, "--instance", instance, "--working-path", generated],
        cwd=root,
        timeout=60,
    )
    if not outcome.ok:
        raise failure(job, outcome, "The generator's own words follow")
    sources = sorted(generated.glob("*.hip"))
    if len(sources) != 1:
        raise JobFailedError(
            f"compile {job.id}",
            f"{generator.name} wrote {len(sources)} sources for {instance}",
            "Correct instances.toml",
        )
    includes = [
        # Behind every other folder: where ROCm has a header that stands here too, ROCm's wins.
        "-idirafter", str(generator.parent / "include"),
        "-isystem", str(toolchain.ck_include()),
        f"-ffile-prefix-map={root}=.", f"-ffile-prefix-map={toolchain.ck_include()}=ck",
    ]  # fmt: skip
    first = next(
        line for line in sources[0].read_text(encoding="utf-8").splitlines() if line.startswith("#include")
    )
    macros = replace(job, constants=tuple(pair for pair in job.constants if pair[0] not in _CHOOSING))
    return compile_device(
        macros,
        Path("generated") / sources[0].name,
        workdir,
        workdir / "out.co",
        toolchain,
        headers=True,
        extra=includes,
        prelude=first,
    )
