"""HIP sources of ours for an NVIDIA GPU, as they are: clang makes PTX of them and Triton's ptxas a cubin.

So the very kernels that ship for AMD GPUs run on a card that is there. What they ask of an AMD GPU is said by
``csrc/kernels/hip/nvidia.hpp``, which is read in front of the source. Sources of a tree are not for this: they include more than
it says. No device library is linked, so that a kernel that calls one (sincos, erf) is for AMD GPUs alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from build_tools.compile.backends.built import Built, built, definitions, failure
from build_tools.errors import JobFailedError
from build_tools.files.run import run
from build_tools.records import CompileJob, in_tree
from build_tools.tools.hermetic import package_folder
from build_tools.tools.toolchain import Toolchain

PRELUDE: Final = Path(__file__).resolve().parents[3] / "csrc/kernels/hip/nvidia.hpp"

_FLAGS: Final = (
    "-x", "cuda", "--cuda-device-only", "-S", "-O3", "-std=c++20",
    # No CUDA of the machine: neither its headers nor its version, which would choose that of the PTX.
    "--cuda-path=/nonexistent", "-nocudainc", "-nocudalib", "-nostdinc", "-Xclang", "-target-feature", "-Xclang", "+ptx83",
    # As for AMD GPUs: contraction, denormals kept.
    "-g0", "-fno-ident", "-ffp-contract=fast-honor-pragmas", "-fno-gpu-flush-denormals-to-zero",
    "-Wall", "-Wextra", "-fno-color-diagnostics",
)  # fmt: skip


def compile(job: CompileJob, toolchain: Toolchain, root: Path, workdir: Path) -> Built:
    """Compile ``job`` into ``workdir``.

    Raises:
        JobFailedError: with the command, its exit status and the end of its output; a source of a tree.
        ToolchainError: Triton is not installed.
    """
    if in_tree(job.source):
        raise JobFailedError(
            f"compile {job.id}",
            f"{job.target.name} takes HIP sources of this repository alone",
            "Take the target out of the kernel's targets",
        )
    ptxas = package_folder(toolchain.pins.tools["triton"]) / "backends/nvidia/bin/ptxas"
    clang = toolchain.clang
    ptx, cubin = workdir / "out.ptx", workdir / "out.co"
    compiled = run(
        [
            *clang.driver,
            *_FLAGS,
            f"--cuda-gpu-arch={job.target.name}",
            f"-ffile-prefix-map={root}=.",
            *("-include", str(PRELUDE)),
            f"-DAPB_TARGET={job.target.name}",
            *(f"-D{name}={value}" for name, value in definitions(job.constants)),
            job.source,
            "-o",
            str(ptx),
        ],
        cwd=root,
        env=clang.env,
    )
    if not compiled.ok:
        raise failure(job, compiled)
    assembled = run([str(ptxas), f"-arch={job.target.name}", str(ptx), "-o", str(cubin)], cwd=workdir)
    if not assembled.ok:
        raise failure(job, assembled)
    return built(job, cubin)
