"""Manifests to bundles."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import click

from build_tools.verbs import options
from build_tools.verbs.output import print_json, print_table


@click.command()
@options.root
@options.profiles
@options.targets
@options.json
@options.toolchain
@options.store
@options.bundles
@options.ck
@click.option(
    "--workers", type=click.IntRange(min=0), default=0, help="Parallel compiles; 0 is one per core."
)
@click.option(
    "--shard",
    metavar="I/N",
    default="",
    help="Compile only the I-th of N parts, of about the same seconds each; bundle nothing.",
)
@click.option(
    "--operator",
    "operators",
    multiple=True,
    help="Only this one, into build/operators/bundles unless --bundles says where.",
)
@click.option(
    "--stored-only",
    is_flag=True,
    help="Compile nothing: what the store lacks is an error that names it. For the job that packs what shards compiled.",
)
@click.option(
    "--host",
    is_flag=True,
    help="Compile the runtime and the emulator beside the kernels, so that wheels finds them.",
)
def build(
    root: Path, profiles: tuple[str, ...], targets: tuple[str, ...], as_json: bool, toolchain: str, store: Path, bundles: Path,
    ck: str, workers: int, shard: str, operators: tuple[str, ...], stored_only: bool, host: bool,
) -> None:  # fmt: skip
    """Compile, audit and bundle. Writes build/report.json."""
    from build_tools.compile.cost import large
    from build_tools.pipeline import Settings, report, unchanged
    from build_tools.pipeline import build as run_build
    from build_tools.report import narrow_loops, unpinned

    own = options.own_tree(root)
    if bundles == options.BUNDLES and (operators or own):
        bundles = root.resolve() / "build" / "bundles" if own else options.OPERATOR_BUNDLES
    settings = Settings(
        root.resolve(), store, bundles, toolchain, profiles, targets, workers, shard, operators, ck, stored_only
    )  # fmt: skip
    with _host_ahead() if host else nullcontext():
        # What says that nothing has changed looks at the code of these tools, which lies in no other tree.
        told = known = None if own else unchanged(settings)
        if told is None:
            told = report(run_build(settings))
    if own:
        options.functions_of(root)
    if known is None:
        cached = sum(job["cached"] for job in told["jobs"])
        done = f"{len(told['jobs'])} jobs, {cached} from the store, {told['seconds']:.2f} s"
    else:
        done = f"{len(told['jobs'])} jobs: nothing has changed since the last build"
    if as_json:
        print_json(told)
        return
    click.echo(done)
    if any(row["profile"] == "ck-full" for row in told["bundles"]) and told["ck"] != "tuned":
        click.echo(f"Composable Kernel: the {told['ck']} set of instances; --ck tuned compiles all")
    rows = (
        (
            row["file"], row["entries"], row["code_objects"], f"{row['raw_bytes'] / 1024:.0f}", f"{row['size'] / 1024:.0f}",
            f"{row['ratio']:.1f}x", f"{row['compile_seconds']:.0f}",
            f"{row['peak_bytes'] / 2**20:.0f}" if row["peak_bytes"] else "", row["unproved"] or "",
        )
        for row in told["bundles"]
    )  # fmt: skip
    names = [
        "file",
        "entries",
        "code objects",
        "raw KiB",
        "KiB",
        "ratio",
        "core seconds",
        "with MiB",
        "not proved",
    ]
    print_table("bundles", names, rows)
    for line in (*large(told), *narrow_loops.lines(told, options.ROOT)):
        click.echo(line)
    if said := unpinned.summary(told):
        click.echo(said)
        for line in unpinned.lines(told):
            click.echo(f"  {line}", err=True)
        click.echo(f"  {bundles.parent / 'report.json'} names each entry", err=True)
    if unproved := sum(row["unproved"] for row in told["bundles"]):
        click.echo(
            f"{unproved} entries have no receipt: python -m build_tools prove executes them, status names them"
        )


def _host_ahead() -> AbstractContextManager[None]:
    """Not imported by a build that does not ask for it: it would cost a build with nothing to do a tenth of its time."""
    from build_tools.pack.ahead import host_ahead

    return host_ahead(options.ROOT)
