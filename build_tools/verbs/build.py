"""Manifests to bundles."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import print_json, print_table

if TYPE_CHECKING:
    from build_tools.compile.recheck import Recheck
    from build_tools.farm.lead import Farm
    from build_tools.pipeline.settings import Settings
    from build_tools.records import CompileResult


@example("build --operator rms_norm --target gfx942")
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
    "--recheck", default="", metavar="PART",
    help="Compile a part (1/10) of what the store had again, chosen by chance, and compare the bytes. For a release.",
)  # fmt: skip
@click.option("--seed", type=int, help="Of --recheck: which jobs those are. It prints the one that it takes.")
@click.option(
    "--farm", default=None, metavar="ADDRESS",
    help="Compile on workers: local:N starts N here; tls://HOST:PORT is where a scheduler listens (docs/farm.md).",
)  # fmt: skip
@click.option(
    "--farm-memory", type=click.IntRange(min=0), default=0,
    help="MiB that every job may take there; 0: what was recorded.",
)  # fmt: skip
@options.tls
@options.shared
@options.trust
@options.sign
@click.option(
    "--keep-ir", "stages", metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path),
    help="Keep each compile's IR and ISA there, in a folder for each code object. It compiles once more.",
)  # fmt: skip
@click.option(
    "--host",
    is_flag=True,
    help="Compile the runtime and the emulator beside the kernels, so that wheels finds them.",
)
def build(
    root: Path, profiles: tuple[str, ...], targets: tuple[str, ...], as_json: bool, toolchain: str, store: Path, bundles: Path,
    ck: str, workers: int, shard: str, operators: tuple[str, ...], stored_only: bool, recheck: str,
    seed: int | None, farm: str | None, farm_memory: int, tls: Path | None, shared: str, trusted: tuple[Path, ...],
    sign: Path | None, stages: Path | None, host: bool,
) -> None:  # fmt: skip
    """Compile, audit and bundle. Writes build/report.json."""
    from build_tools.manifest.tree import load_tree
    from build_tools.pack import notes
    from build_tools.pipeline.build import build as run_build
    from build_tools.pipeline.build import unchanged
    from build_tools.pipeline.report import report
    from build_tools.pipeline.settings import Settings
    from build_tools.release.provenance import commit_of

    own, commit = options.own_tree(root), commit_of(root)
    if bundles == options.BUNDLES and (operators or own):
        bundles = root.resolve() / "build" / "bundles" if own else options.OPERATOR_BUNDLES
    with ExitStack() as stack:
        away = None if farm is None else _farm(farm, tls, shared, farm_memory)
        behind = options.behind(stack, shared, trusted, sign, farm=away is not None and bool(away.place))
        settings = Settings(
            root.resolve(), store, bundles, toolchain, profiles, targets, workers, shard, operators, ck, stored_only,
            away, behind, _again(recheck, seed) if recheck else None, load_tree(root) if own else None,
        )  # fmt: skip
        with _host_ahead() if host else nullcontext():
            # What says that nothing has changed looks at the code of these tools, which lies in no other tree.
            told = known = None if own or stages else unchanged(settings)
            if told is None:
                outcome = run_build(settings)
                told = report(outcome)
                if stages is not None:
                    _keep_stages(outcome.results, settings, stages)
    if told["bundles"]:  # a shard has none
        notes.write_commits(bundles, {row["file"]: row["sha256"] for row in told["bundles"]}, commit)
    if own:
        options.functions_of(root)
    if as_json:
        print_json(told)
        return
    click.echo(
        _done(told)
        if known is None
        else f"{len(told['jobs'])} jobs: nothing has changed since the last build"
    )
    if behind is not None:
        click.echo(behind.describe())
    narrowed = [
        *(["--root", str(root)] if own else []),
        *(word for name in operators for word in ("--operator", name)),
    ]
    _tell(told, bundles, narrowed)


def _keep_stages(results: Sequence[CompileResult], settings: Settings, folder: Path) -> None:
    """Keep what compiles go through, and say what is missing."""
    from build_tools.compile.stages import keep
    from build_tools.tools.toolchain import find

    found = keep(results, find(settings.toolchain, settings.root), settings.root, folder, settings.workers)
    click.echo(f"{found.count} code objects: IR and ISA are in {folder}", err=True)
    if found.bare:
        text = f"{len(found.bare)} of them are not disassembled: the emulator is not built, or does not know their target"
        click.echo(f"{text} ({found.bare[0]})", err=True)


def _done(told: Mapping[str, Any]) -> str:
    """Summarise a build in lines."""
    cached = sum(job["cached"] for job in told["jobs"])
    lines = [f"{len(told['jobs'])} jobs, {cached} from the store, {told['seconds']:.2f} s"]
    if again := told.get("rechecked"):
        how = f"--recheck {again['part']} --seed {again['seed']}"
        lines.append(f"{len(again['jobs'])} results of the store compiled again, the same bytes ({how})")
    return "\n".join(lines)


def _tell(told: Mapping[str, Any], bundles: Path, narrowed: Sequence[str]) -> None:
    """Print a build's bundles and remarks.

    Args:
        told: the report.
        bundles: the folder of the bundles.
        narrowed: the options of this build that `prove` needs, too.
    """
    from build_tools.compile.cost import large
    from build_tools.report import subdword_loops, unpinned

    # A tree of one's own, or a build of one operator, has nothing for most targets and profiles.
    made = [row for row in told["bundles"] if row["entries"]]
    if any(row["profile"] == "ck-full" for row in made) and told["ck"] != "tuned":
        click.echo(f"Composable Kernel: the {told['ck']} set of instances; --ck tuned compiles all")
    rows = (
        (
            Path(row["file"]).stem, row["entries"], row["code_objects"], f"{row['size'] / 1024:.0f}",
            f"{row['compile_seconds']:.0f}", f"{row['peak_bytes'] / 2**20:.0f}" if row["peak_bytes"] else "",
            row["unproved"] or "",
        )
        for row in made
    )  # fmt: skip
    # 77 columns; report.json has more.
    print_table("bundles", ["bundle", "entries", "objects", "KiB", "core s", "peak MiB", "unproved"], rows)
    for line in (*large(told), *subdword_loops.lines(told, options.ROOT)):
        click.echo(line)
    if said := unpinned.summary(told):
        click.echo(said)
        for line in unpinned.lines(told):
            click.echo(f"  {line}", err=True)
        click.echo(f"  {bundles.parent / 'report.json'} names each entry", err=True)
    if unproved := sum(row["unproved"] for row in told["bundles"]):
        command = shlex.join(["python", "-m", "build_tools", "prove", *narrowed])
        click.echo(f"{unproved} entries have no receipt. Execute them: {command}")


def _farm(text: str, tls: Path | None, shared: str, memory: int) -> Farm:
    """Parse the options of ``--farm``.

    Nothing is started before something is missing.

    Raises:
        FarmError: it is no address, or may not be reached so. UsageError: its workers would not find the store.
    """
    from build_tools.errors import UsageError
    from build_tools.farm import address
    from build_tools.farm.lead import Farm

    where = address.parse(text)
    if where.local:
        return Farm(where, tls, least=memory)
    address.security(where.url, tls)
    if not shared:
        raise UsageError(
            f"build on the farm at {text}",
            "its workers cannot see the folder of this build",
            "Name a store that all of them reach: --shared s3://BUCKET/FOLDER or file:///MOUNT/FOLDER",
        )
    return Farm(where, tls, shared, memory)


def _again(part: str, seed: int | None) -> Recheck:
    """Parse ``--recheck``.

    The seed is printed before anything can fail.

    Raises:
        UsageError: it is no part.
    """
    import secrets

    from build_tools.compile.recheck import Recheck, part_of

    chosen = secrets.randbelow(1 << 32) if seed is None else seed
    asked = Recheck(part_of(part), chosen)
    click.echo(f"compiling {asked.part} of what the store has again: --seed {chosen}", err=True)
    return asked


def _host_ahead() -> AbstractContextManager[None]:
    """Not imported by a build that does not ask for it: it would cost a build with nothing to do a tenth of its time."""
    from build_tools.pack.precompile import host_ahead

    return host_ahead(options.ROOT)
