"""Starts a new operator."""

from __future__ import annotations

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example


@example("new-operator my_op --like gelu_and_mul")
@click.command("new-operator")
@click.argument("name")
@click.option("--like", required=True, metavar="OPERATOR", help="The operator whose parts are copied.")
def new_operator(name: str, like: str) -> None:
    """Add operator NAME to the family of another: definition, reference and calls, complete and ready to be changed."""
    from build_tools.generate import outputs, scaffold
    from build_tools.manifest.parse import load

    manifest = load(options.ROOT / "manifests")
    for path in scaffold.new_operator(name, like, manifest, options.ROOT):
        click.echo(f"{path.relative_to(options.ROOT).as_posix()}: change what differs from {like}")
    for path in outputs.write(load(options.ROOT / "manifests"), options.ROOT):
        click.echo(f"{path.as_posix()}: generated")
    operator = next(
        each for family in manifest.families.values() for each in family.operators if each.name == like
    )
    sources = sorted({kernel.source for kernel in operator.kernels if kernel.source})
    click.echo(f"its kernels are those of {like} ({', '.join(sources)}): write your own below csrc/kernels")
    click.echo(
        f'If AITER has no {name}, say why it is here: {name} = "reason" under [beyond] in manifests/modules.toml'
    )
    verbs = (f"python -m build_tools {verb} --operator {name}" for verb in ("lint", "build", "prove"))
    click.echo(f"next: {' && '.join(verbs)}")
