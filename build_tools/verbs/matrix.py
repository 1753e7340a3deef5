"""Print or write the matrix of a CI service."""

from __future__ import annotations

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import print_json, print_table


@example("matrix")
@click.command()
@options.json
@click.option(
    "--record",
    is_flag=True,
    help="First write down what the compiles of the last build took: shards are balanced by it, farms know their memory.",
)
def matrix(as_json: bool, record: bool) -> None:
    """Print the matrix that a CI service runs: targets x profiles, with shards."""
    from build_tools.generate.matrix import rows

    if record:
        _record()
    made = rows(options.ROOT)
    if as_json:
        print_json({"matrix": made})
    else:
        print_table("matrix", list(made[0]), (row.values() for row in made))


def _record() -> None:
    """Write the records of seconds and of memory anew, from ``build/report.json``.

    Raises:
        NotReadyError: there is no report of a build.
    """
    import json

    from build_tools.compile import memory, shards
    from build_tools.compile.inputs import inputs_of
    from build_tools.errors import NotReadyError
    from build_tools.files.reproducible import write_atomic
    from build_tools.manifest.parse import load
    from build_tools.plan.plan import make_plan

    report = options.BUNDLES.parent / "report.json"
    try:
        told = json.loads(report.read_text(encoding="utf-8"))
        seconds = {job["id"]: float(job["seconds"]) for job in told["jobs"]}
        peaks = {job["id"]: int(job["peak_bytes"]) for job in told["jobs"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotReadyError(
            "read what the last build's compiles took",
            f"{report} cannot be read: {error}",
            "Run python -m build_tools build",
        ) from error
    manifest = load(options.ROOT / "manifests")
    jobs = make_plan(manifest, options.ROOT, inputs_of(options.ROOT), prove=False, ck=told["ck"]).jobs
    for path, record in (
        (shards.RECORD, shards.record_of(jobs, seconds)),
        (memory.RECORD, memory.record_of(jobs, peaks)),
    ):
        write_atomic(path, (json.dumps(record, indent=1) + "\n").encode())
    shards.recorded.cache_clear()
    memory.recorded.cache_clear()
