"""The list of jobs."""

from __future__ import annotations

import json
from typing import Any

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import print_json


@example("plan --profile ck-free --target gfx942")
@click.command()
@options.profiles
@options.targets
@options.json
@options.ck
@click.option("--shard", metavar="I/N", help="Only the jobs of the I-th of N parts.")
def plan(
    profiles: tuple[str, ...], targets: tuple[str, ...], as_json: bool, ck: str, shard: str | None
) -> None:
    """Print the exact list of jobs."""
    from build_tools.pipeline import stamp
    from build_tools.tools import pins

    asked = stamp.asked_of(ck, profiles, targets, shard=shard or "")
    folder = options.ROOT / "build" / "plans"
    # As it is before anything is read: what changes meanwhile is another state.
    state = stamp.state_of_plan(options.ROOT, asked, pins.load(options.ROOT))
    text = stamp.kept(folder, asked, state)
    if text is None:
        text = json.dumps(_made(profiles, targets, ck, shard))
        stamp.keep(folder, asked, state, text)
    told = json.loads(text)
    if as_json:
        print_json(told)
    else:
        click.echo("".join(f"{job['id']}\n" for job in told["jobs"]), nl=False)
    for line in told["missing"]:
        click.echo(f"left out: {line}", err=True)


def _made(profiles: tuple[str, ...], targets: tuple[str, ...], ck: str, shard: str | None) -> dict[str, Any]:
    """Plan anew, and return the document to print."""
    from build_tools.compile.shards import shard_of
    from build_tools.manifest.parse import load
    from build_tools.pipeline.planning import plan_of
    from build_tools.pipeline.settings import Settings

    settings = Settings(
        options.ROOT, options.ROOT / "build" / "store", options.BUNDLES, profiles=profiles, targets=targets, ck=ck
    )  # fmt: skip
    made = plan_of(load(options.ROOT / "manifests"), settings)
    if shard is not None:
        made = shard_of(made, shard)
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
    return {"ck": ck, "jobs": jobs, "bundles": bundles, "missing": list(made.missing)}
