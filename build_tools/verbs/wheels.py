"""Bundles to wheels."""

from __future__ import annotations

from pathlib import Path

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example


@example("wheels --output dist")
@click.command()
@options.root
@options.bundles
@click.option("--output", type=click.Path(path_type=Path), default=options.ROOT / "dist", show_default="dist")
@click.option(
    "--runtime/--no-runtime",
    default=True,
    help="Also build the wheels of the runtime, the emulator and the bridge, with the bridge's data.",
)
@click.option(
    "--unproved",
    multiple=True,
    metavar="TARGET",
    help="Let entries for this target in that no device has executed (all: for every one). Their wheel says so.",
)
@click.option(
    "--triton",
    "tritons",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PLACE",
    help="Fill Triton's cache for this build, too: a Python that has it, or a folder of packages. Needs torch.",
)
@click.option(
    "--flydsl",
    "flydsl_place",
    type=click.Path(path_type=Path, exists=True),
    metavar="PLACE",
    help="Fill FlyDSL's cache for the checkout that AITER_DIR names, with this FlyDSL (as for --triton), which fits it.",
)
@options.toolchain
@options.store
def wheels(
    root: Path, bundles: Path, output: Path, runtime: bool, unproved: tuple[str, ...], tritons: tuple[Path, ...],
    flydsl_place: Path | None, toolchain: str, store: Path,
) -> None:  # fmt: skip
    """Pack the bundles of the last build, the runtime, the emulator and the bridge. Only what was executed goes in. Of a tree of
    one's own: one wheel with its bundles and functions, into the tree's dist.
    """
    from aiter_prebuilt.contract.bundle import SUFFIX
    from build_tools.manifest.parse import load
    from build_tools.pack.cache_wheel import Seeds
    from build_tools.pack.unproved import ALL
    from build_tools.pack.wheel import write_wheels
    from build_tools.plan.plan import check_filters
    from build_tools.release import built
    from build_tools.release.provenance import commit_of
    from build_tools.seed.fill import filled
    from build_tools.seed.triton import Target
    from build_tools.tools.toolchain import find

    if options.own_tree(root):
        written_own = _own_wheel(root.resolve(), bundles, output, unproved)
        click.echo(f"{written_own.name}  {written_own.stat().st_size / 1024:.0f} KiB")
        return
    manifest = load(options.ROOT / "manifests")
    check_filters(manifest, (), (name for name in unproved if name != ALL))
    caches: dict[str, list[Seeds]] = {}
    if runtime:
        bundled = {path.name.partition("-")[0] for path in bundles.glob(f"*{SUFFIX}")}
        targets = [Target(name, row.fp8, row.cus[0]) for name, row in manifest.amd.items() if name in bundled]
        caches = filled(
            options.ROOT, targets, find(toolchain, options.ROOT), store, click.echo, tritons, flydsl_place
        )
    commit = commit_of(options.ROOT)
    written = write_wheels(options.ROOT, bundles, output, runtime=runtime, unproved=unproved, caches=caches)
    built.write(output, written, commit, bundles)
    for path in written:
        click.echo(f"{path.name}  {path.stat().st_size / 1024:.0f} KiB")


def _own_wheel(root: Path, bundles: Path, output: Path, unproved: tuple[str, ...]) -> Path:
    """Write the wheel of a tree."""
    from build_tools.generate import own_tree
    from build_tools.manifest.tree import load_tree
    from build_tools.pack.own_wheel import write_own_wheel

    tree = load_tree(root)
    assert tree is not None  # own_tree() has looked
    options.functions_of(root)
    return write_own_wheel(
        root,
        tree,
        root / "build" / "bundles" if bundles == options.BUNDLES else bundles,
        root / "dist" if output == options.ROOT / "dist" else output,
        own_tree.package_files(root, tree),
        unproved=unproved,
    )
