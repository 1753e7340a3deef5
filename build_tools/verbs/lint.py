"""All problems of the manifests at once."""

from __future__ import annotations

import click

from build_tools.verbs import options


@click.command()
def lint() -> None:
    """Check every manifest: structure, names, signatures, expressions, assumptions."""
    from build_tools.compile.inputs import inputs_of
    from build_tools.manifest.parse import read
    from build_tools.manifest.problems import Problems
    from build_tools.plan.plan import plan_into

    problems = Problems()
    manifest = read(options.ROOT / "manifests", problems)
    plan = None
    if manifest is not None:
        plan = plan_into(manifest, options.ROOT, inputs_of(options.ROOT), problems)
    if problems.lines or plan is None:
        from build_tools.errors import ManifestError

        raise ManifestError(problems.lines)
    operators = {planned.operator.name for bundle in plan.bundles for planned in bundle.operators}
    click.echo(
        f"manifests are right: {len(operators)} operators, {len(plan.jobs)} jobs, {len(plan.bundles)} bundles"
    )
