"""The list of jobs."""

from __future__ import annotations

import click

from build_tools.verbs import options
from build_tools.verbs.output import print_json


@click.command()
@options.profiles
@options.targets
@options.json
@options.ck
@click.option("--shard", metavar="I/N", help="Only every N-th job, starting with the I-th.")
def plan(
    profiles: tuple[str, ...], targets: tuple[str, ...], as_json: bool, ck: str, shard: str | None
) -> None:
    """Print the exact list of jobs."""
    from build_tools.compile.inputs import inputs_of
    from build_tools.manifest.parse import load
    from build_tools.plan.plan import make_plan, shard_of

    made = make_plan(
        load(options.ROOT / "manifests"), options.ROOT, inputs_of(options.ROOT), profiles, targets, ck=ck
    )
    if shard is not None:
        made = shard_of(made, shard)
    if as_json:
        jobs = [
            {"id": job.id, "target": job.target.name, "backend": job.backend, "source": job.source, "symbol": job.symbol,
             "constants": dict(job.constants), "demangled": job.demangled}
            for job in made.jobs
        ]  # fmt: skip
        bundles = [
            {
                "target": bundle.target.name,
                "profile": bundle.profile,
                "jobs": sorted({j for op in bundle.operators for j in op.jobs}),
            }
            for bundle in made.bundles
        ]
        print_json({"ck": ck, "jobs": jobs, "bundles": bundles, "missing": list(made.missing)})
    else:
        for job in made.jobs:
            click.echo(job.id)
    for line in made.missing:
        click.echo(f"left out: {line}", err=True)
