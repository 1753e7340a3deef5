"""The content key of a job: equal keys mean equal bytes, whichever folder, machine or Python the compile runs in.

It covers the job, the contents of every file the compile reads, the code of the backend, and the identity of its tools.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from build_tools.errors import FetchError, JobFailedError
from build_tools.files.filehash import sha256_file
from build_tools.records import CompileJob, in_tree
from build_tools.tools.toolchain import HIP_NVIDIA, Toolchain
from build_tools.tools.tree import digest

#: Raise it when the same key would have to mean other bytes for a reason that nothing below covers.
FORMAT: Final = 2
_BACKENDS: Final = Path(__file__).resolve().parent / "backends"
_SHARED: Final = ("built.py", "device.py", "prelude.py")
#: Of one backend alone.
_MORE: Final = {"flydsl": ("flydsl_guard.py", "flydsl_sources.py", "flydsl_torch.py")}


def job_key(job: CompileJob, toolchain: Toolchain, root: Path) -> str:
    """Hex sha256 for ``job``, whose files lie below ``root``.

    Raises:
        JobFailedError: one of its inputs cannot be read.
    """
    try:
        inputs = [(name, digest(name, root)) for name in job.inputs]
    except (OSError, FetchError) as error:
        raise JobFailedError(f"compile {job.id}", str(error), "Correct source in the manifest") from error
    facts = {
        "format": FORMAT,
        "backend": job.backend,
        "target": [job.target.name, job.target.vendor, job.target.wave, job.target.isa_version],
        "source": job.source,
        "symbol": job.symbol,
        "constants": [[name, type(value).__name__, value] for name, value in job.constants],
        "args": [[arg.kind, arg.name, arg.offset, arg.size, arg.dtype, arg.divisible] for arg in job.args],
        "kernarg_size": job.kernarg_size,
        "block": job.block,
        "inputs": inputs,
        "code": code_of(job),
        "tools": toolchain.identity_of(compiler_of(job)),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def code_of(job: CompileJob) -> str:
    """Digest of the code that turns ``job`` into a command."""
    return _backend_code(compiler_of(job), in_tree(job.source))


def compiler_of(job: CompileJob) -> str:
    """Return the job's backend, or its target's replacement for it."""
    return HIP_NVIDIA if (job.backend, job.target.vendor) == ("hip", "nvidia") else job.backend


def file_of(job: CompileJob) -> CompileJob | None:
    """Build the job of a whole file; None if it has none.

    ``job`` names one kernel of the file.
    """
    if job.backend != "hip" or not in_tree(job.source):
        return None
    name = f"{job.target.name}-{job.backend}-{job.source}"
    return replace(job, id=name, symbol="", args=(), kernarg_size=0, block=(0, 0, 0), demangled="")


@lru_cache(maxsize=16)
def _backend_code(backend: str, of_tree: bool) -> str:
    """Digest of the files that turn a job into a command, byte by byte: a parsed form would depend on the Python that parses."""
    names = [*_SHARED, f"{backend}.py", f"{backend}_compile.py", f"{backend}_heap.c"]
    names += _MORE.get(backend, ())
    if backend == HIP_NVIDIA:
        names = ["built.py", "hip_nvidia.py", "../../../csrc/kernels/hip/nvidia.hpp"]
    elif of_tree and backend == "hip":
        names += ["hip_tree.py", "../../objects/demangle.py"]
    digests = [(name, sha256_file(_BACKENDS / name)) for name in names if (_BACKENDS / name).is_file()]
    return hashlib.sha256(repr(digests).encode()).hexdigest()
