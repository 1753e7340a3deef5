"""FlyDSL kernels, compiled ahead of time in a child process each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from build_tools.compile.backends.built import CHILD_PATH, Built, built, closure, failure, sibling_imports
from build_tools.files.run import run
from build_tools.records import CompileJob
from build_tools.tools.toolchain import Toolchain

_CHILD: Final = "build_tools.compile.backends.flydsl_compile"


def expand(source: str, symbol: str, root: Path) -> tuple[str, ...]:
    """``source`` and the Python files beside it that it imports."""
    del symbol
    return closure(source, root, sibling_imports)


def compile(job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> Built:
    """Compile one job.

    Raises:
        JobFailedError: with the command, its exit status and the end of its output.
    """
    output = workdir / "out.co"
    linker = workdir / "ld.lld"
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in toolchain.clang.lld)
    linker.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n', encoding="utf-8")
    linker.chmod(0o755)
    argv: list[str | Path] = [
        toolchain.python, "-m", _CHILD, "--source", job.source, "--symbol", job.symbol, "--target", job.target.name,
        "--constants", json.dumps(dict(job.constants), sort_keys=True), "--output", output, "--linker", linker,
    ]  # fmt: skip
    outcome = run(argv, cwd=root, env=CHILD_PATH)
    if not outcome.ok:
        raise failure(job, outcome)
    threads = job.block[0] * job.block[1] * job.block[2]
    return built(job, output, threads)
