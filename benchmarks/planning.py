"""What planning costs with every code object of AITER's tree listed: ``PYTHONPATH=src python benchmarks/planning.py``.

A made-up operator with one kernel whose table names all of them, with a condition, a cost, a grid and 18 arguments each; then the
real manifests. Seconds of one process, reading the manifests included; and of the keys of all the jobs.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from build_tools.compile.fingerprint import job_key
from build_tools.compile.inputs import inputs_of
from build_tools.manifest.parse import load
from build_tools.plan.plan import make_plan
from build_tools.records import Plan
from build_tools.tools import pins, toolchain
from build_tools.tools.tree import tree_of

MANIFEST = """
edition = 2

[kernels.all]
backend = "asm"
targets = ["gfx942", "gfx950"]
source = "aiter:hsa/{target}/{FILE}"
symbol = "kernel"
when = ["N % tile == 0", "M * K < 1073741824"]
cost = "cdiv(cdiv(M, tile) * (N // tile), CUS) * K * tile"
grid = ["N // tile", "cdiv(M, tile)"]
block = [256]
slot = 16
args = ["ptr out", "ptr A", "ptr null", "f32 1.0", "f32 1 / sqrt(K) * log2(e)", ARGS]
variants_from = { table = "all-{target}.csv", name = "{place}" }

[operators.gemm]
python = "(A: Tensor, out: Tensor) -> None"
module = "module_gemm"
summary = "made up"
source = "nobody"
arguments.A = "bf16[M, K]"
arguments.out = "out f32[M, N]"
kernels = ["all"]
"""


def made_up(folder: Path) -> int:
    """A repository whose one manifest lists every code object; how many."""
    (folder / "manifests/gemm").mkdir(parents=True)
    for name in ("targets", "profiles", "catalogue", "toolchains"):
        shutil.copy(ROOT / "manifests" / f"{name}.toml", folder / "manifests")
    arguments = ", ".join(['"i32 M"', '"i32 N * 4"', '"i32 K * 2"', '"i32 tile"'] * 4)
    (folder / "manifests/gemm/operators.toml").write_text(MANIFEST.replace("ARGS", arguments))
    count = 0
    for target in ("gfx942", "gfx950"):
        names = tree_of("aiter", ROOT).names(f"aiter:hsa/{target}/", ".co")
        rows = [f"{name},{place},{32 * (1 + place % 8)}" for place, name in enumerate(names)]
        (folder / f"all-{target}.csv").write_text("\n".join(["co_name,place,tile", *rows]) + "\n")
        count += len(names)
    return count


def timed(root: Path) -> tuple[float, Plan]:
    """Seconds to read and plan, and the plan."""
    started = time.perf_counter()
    made = make_plan(load(root / "manifests"), root, inputs_of(root), prove=False)
    return time.perf_counter() - started, made


def main() -> None:
    """Print the table."""
    pins.load(ROOT)
    tools = toolchain.find("hermetic", ROOT)
    with tempfile.TemporaryDirectory() as folder:
        count = made_up(Path(folder))
        for title, root in ((f"{count} code objects", Path(folder)), ("the real manifests", ROOT)):
            seconds, made = timed(root)
            started = time.perf_counter()
            keys = len({job_key(job, tools, root) for job in made.jobs})
            hashing = time.perf_counter() - started
            print(
                f"{title}: {len(made.jobs)} jobs planned in {seconds:.2f} s, {keys} keys in {hashing:.2f} s"
            )


if __name__ == "__main__":
    main()
