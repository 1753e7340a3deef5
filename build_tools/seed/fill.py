"""Fill every tool's cache for the bridge's data wheels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from build_tools.errors import ToolchainError
from build_tools.files.cores import cores
from build_tools.pack.cache_wheel import Seeds
from build_tools.seed import flydsl, triton
from build_tools.seed.triton import Target
from build_tools.tools.toolchain import Toolchain
from build_tools.tools.tree import tree_of


def filled(
    root: Path,
    targets: Sequence[Target],
    toolchain: Toolchain,
    store: Path,
    say: Callable[[str], None],
    tritons: Sequence[Path] = (),
    flydsl_place: Path | None = None,
) -> dict[str, list[Seeds]]:
    """Target -> what each tool's cache is filled with. ``say``: is told what was compiled, and what was left out and why;
    ``tritons``: other builds of Triton than the toolchain's; ``flydsl_place``: the FlyDSL that the checkout ``AITER_DIR`` needs.

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
    caches = {row.seeds.target: [row.seeds] for row in rows}
    if flydsl_place is not None:
        _add_flydsl(root, targets, toolchain, store, say, flydsl_place, caches)
    return caches


def _add_flydsl(
    root: Path,
    targets: Sequence[Target],
    toolchain: Toolchain,
    store: Path,
    say: Callable[[str], None],
    place: Path,
    caches: dict[str, list[Seeds]],
) -> None:
    tree = tree_of("aiter", root)
    if tree.folder is None:
        raise ToolchainError(
            "fill FlyDSL's cache",
            f"{tree.pin.distribution} {tree.version} has no FlyDSL kernels",
            f"Set {tree.pin.override} to a checkout of August 2026 or later",
        )
    compiler = triton.compiler_of(place, toolchain, "flydsl")
    for target in targets:
        work = flydsl.Work(
            root,
            target,
            tree.folder,
            tree.version,
            compiler,
            tuple(map(str, toolchain.clang.lld)),
            toolchain.identity_of("flydsl"),
        )
        made = flydsl.make(work, store)
        said = f"{len(made.seeds.seeds)} kernels of AITER for FlyDSL's cache, {made.compiled} compiled"
        say(f"{target.name}: {said} in {made.seconds:.0f} s")
        for row in made.rows:
            if row["error"]:
                say(f"{target.name}: left out: {row['label']}: {row['error']}")
        for key, why in made.failed.items():
            say(f"{target.name}: left out: {key}: {why}")
        caches[target.name].append(made.seeds)
