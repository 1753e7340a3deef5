"""Writes the generated files."""

from __future__ import annotations

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example


@example("generate --check")
@click.command()
@click.option("--check", "only_check", is_flag=True, help="Write nothing; fail when a file is stale.")
def generate(only_check: bool) -> None:
    """Write what the manifests and parsers say elsewhere: functions, exports, signatures, documentation, CI files."""
    from build_tools.generate import outputs
    from build_tools.manifest.parse import load

    manifest = load(options.ROOT / "manifests")
    if only_check:
        outputs.check(manifest, options.ROOT)
        click.echo("all generated files are what the manifests say")
        return
    for path in outputs.write(manifest, options.ROOT):
        click.echo(path.as_posix())
