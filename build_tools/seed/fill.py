"""What the bridge's data wheels hold for each target: every tool's cache, filled ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from build_tools.files.cores import cores
from build_tools.pack.cache_wheel import Seeds
from build_tools.seed import triton
from build_tools.seed.triton import Target
from build_tools.tools.toolchain import Toolchain


def filled(
    root: Path,
    targets: Sequence[Target],
    toolchain: Toolchain,
    store: Path,
    say: Callable[[str], None],
    tritons: Sequence[Path] = (),
) -> dict[str, list[Seeds]]:
    """Target -> what each tool's cache is filled with. ``say``: is told what was compiled, and what was left out and why;
    ``tritons``: other builds of Triton than the toolchain's.

    Raises:
        ToolchainError, ManifestError, FetchError: see :func:`build_tools.seed.triton.seeds`.
    """
    absent = triton.missing()
    if absent:
        say(
            f"no data wheels of the bridge: AITER's functions are called with {' and '.join(absent)}, which is not installed"
        )
        return {}
    others = [triton.compiler_of(place, toolchain) for place in tritons]
    with ThreadPoolExecutor(max(1, cores())) as pool:
        rows = list(pool.map(lambda target: triton.seeds(root, target, toolchain, store, others), targets))
    for row in rows:
        said = f"{len(row.seeds.seeds)} kernels of AITER for Triton's cache, {row.compiled} compiled"
        say(f"{row.seeds.target}: {said} in {row.seconds:.0f} s")
        for problem in row.problems:
            say(f"{row.seeds.target}: left out: {problem}")
    return {row.seeds.target: [row.seeds] for row in rows}
