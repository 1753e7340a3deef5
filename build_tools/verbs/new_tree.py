"""Starts a tree of kernels of one's own."""

from __future__ import annotations

from pathlib import Path

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example


@example("new-tree FOLDER")
@click.command("new-tree")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--extend", "extended", multiple=True, metavar="OPERATOR",
    help="Copy the signature, reference and calls of this operator of the product, so that the tree can add kernels to it.",
)  # fmt: skip
def new_tree(folder: Path, extended: tuple[str, ...]) -> None:
    """Make FOLDER a tree that `build --root FOLDER` and `prove --root FOLDER` take: kernels that are not of this repository."""
    from build_tools.generate import own_tree

    for name in own_tree.make(folder, options.ROOT):
        click.echo(f"{name}: copied")
    if extended:
        from build_tools.generate import extension
        from build_tools.manifest.parse import load

        manifest = load(options.ROOT / "manifests")
        for operator in extended:
            for name in extension.extend(folder, options.ROOT, manifest, operator):
                click.echo(f"{name}: written")
    click.echo(
        f"next: {folder}/manifests/FAMILY/operators.toml, cases.toml and reference.py, as manifests/README.md has it, then "
        f"python -m build_tools build --root {folder} && python -m build_tools prove --root {folder}"
    )
