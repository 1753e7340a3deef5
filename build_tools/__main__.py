"""``python -m build_tools VERB``: the only place that prints, and the only one that turns errors into exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from build_tools.errors import BuildToolsError

ROOT: Final = Path(__file__).resolve().parent.parent
JSON_VERSION: Final = 1
#: Exit code when the machine, not the input, is in the way: a missing package, a path that cannot be written.
UNUSABLE: Final = 13

_profiles = click.option(
    "--profile", "profiles", multiple=True, help="ck-free or ck-full; all when left out."
)
_targets = click.option(
    "--target", "targets", multiple=True, help="gfx942, gfx950, sm_90; all when left out."
)
_json = click.option("--json", "as_json", is_flag=True, help="Machine output with a version.")
_toolchain = click.option(
    "--toolchain", type=click.Choice(["hermetic", "rocm"]), default="hermetic", show_default=True,
    help="From PyPI packages, or an installed ROCm.",
)  # fmt: skip
_store = click.option(
    "--store", type=click.Path(path_type=Path), default=ROOT / "build" / "store", show_default="build/store"
)
_bundles = click.option(
    "--bundles",
    type=click.Path(path_type=Path),
    default=ROOT / "build" / "bundles",
    show_default="build/bundles",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def cli() -> None:
    """From manifests to wheels: plan, compile, audit, bundle, pack."""


@cli.command()
@_json
@_toolchain
def toolchain(as_json: bool, toolchain: str) -> None:
    """Print what was found, from where, which version."""
    from build_tools.toolchain import find

    rows = find(toolchain, ROOT).describe()
    if as_json:
        _print_json({"toolchain": toolchain, "tools": rows})
    else:
        _print_table(
            f"toolchain: {toolchain}", ["tool", "version", "from", "sha256"], (row.values() for row in rows)
        )


@cli.command()
def lint() -> None:
    """Check every manifest: structure, names, signatures, expressions, assumptions."""
    from build_tools.inputs import inputs_of
    from build_tools.manifest.parse import read
    from build_tools.manifest.problems import Problems
    from build_tools.plan import plan_into

    problems = Problems()
    manifest = read(ROOT / "manifests", problems)
    plan = None
    if manifest is not None:
        plan = plan_into(manifest, ROOT, inputs_of(ROOT), problems)
    if problems.lines or plan is None:
        from build_tools.errors import ManifestError

        raise ManifestError(problems.lines)
    operators = {planned.operator.name for bundle in plan.bundles for planned in bundle.operators}
    click.echo(
        f"manifests are right: {len(operators)} operators, {len(plan.jobs)} jobs, {len(plan.bundles)} bundles"
    )


@cli.command()
def schema() -> None:
    """Write the generated files: manifest schema, C++ layout header, CI matrix and workflow."""
    from build_tools import layout, matrix, signatures
    from build_tools.manifest import schema as manifest_schema

    for path in (
        manifest_schema.write(ROOT),
        layout.write(ROOT),
        signatures.write(ROOT),
        *matrix.write(ROOT),
    ):
        click.echo(path.relative_to(ROOT).as_posix())


@cli.command()
@_profiles
@_targets
@_json
@click.option("--shard", metavar="I/N", help="Only every N-th job, starting with the I-th.")
def plan(profiles: tuple[str, ...], targets: tuple[str, ...], as_json: bool, shard: str | None) -> None:
    """Print the exact list of jobs."""
    from build_tools.inputs import inputs_of
    from build_tools.manifest.parse import load
    from build_tools.plan import make_plan, shard_of

    made = make_plan(load(ROOT / "manifests"), ROOT, inputs_of(ROOT), profiles, targets)
    if shard is not None:
        made = shard_of(made, shard)
    if as_json:
        jobs = [
            {"id": job.id, "target": job.target.name, "backend": job.backend, "source": job.source, "symbol": job.symbol,
             "constants": dict(job.constants)}
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
        _print_json({"jobs": jobs, "bundles": bundles})
    else:
        for job in made.jobs:
            click.echo(job.id)


@cli.command()
@_profiles
@_targets
@_json
@_toolchain
@_store
@_bundles
@click.option(
    "--workers", type=click.IntRange(min=0), default=0, help="Parallel compiles; 0 is one per core."
)
@click.option(
    "--shard",
    metavar="I/N",
    default="",
    help="Compile only every N-th job, starting with the I-th; bundle nothing.",
)
def build(
    profiles: tuple[str, ...], targets: tuple[str, ...], as_json: bool, toolchain: str, store: Path, bundles: Path,
    workers: int, shard: str,
) -> None:  # fmt: skip
    """Compile, audit and bundle. Writes build/report.json."""
    from build_tools.pipeline import Settings, report
    from build_tools.pipeline import build as run_build

    outcome = run_build(Settings(ROOT, store, bundles, toolchain, profiles, targets, workers, shard))
    if as_json:
        _print_json(report(outcome))
        return
    cached = sum(result.cached for result in outcome.results)
    click.echo(f"{len(outcome.results)} jobs, {cached} from the store, {outcome.seconds:.2f} s")
    rows = (
        (
            b.path.name,
            b.entries,
            b.code_objects,
            f"{b.raw_bytes / 1024:.0f}",
            f"{b.size / 1024:.0f}",
            f"{b.raw_bytes / b.size:.1f}x",
        )
        for b in outcome.bundles
    )
    _print_table("bundles", ["file", "entries", "code objects", "raw KiB", "KiB", "ratio"], rows)


@cli.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@_json
def audit(files: tuple[Path, ...], as_json: bool) -> None:
    """Read and judge code objects: .co, .hsaco, .cubin, or the bundles of a build (.apb)."""
    from build_tools.audit import audit_files
    from build_tools.errors import AuditError

    reports = audit_files(files)
    if as_json:
        from dataclasses import asdict

        _print_json({"reports": [asdict(report) for report in reports]})
    else:
        for report in reports:
            click.echo(f"{report.subject}: {'right' if report.ok else 'refused'}")
            if report.facts is not None:
                for kernel in report.facts.kernels:
                    click.echo(f"  {kernel.symbol}: {_registers(kernel)}")
            for line in (*report.problems, *report.notes):
                click.echo(f"  {line}")
    broken = [report for report in reports if not report.ok]
    if broken:
        raise AuditError(broken)


def _registers(kernel: Any) -> str:
    return (
        f"kernarg {kernel.kernarg_size} B, {len(kernel.args)} arguments, VGPR {kernel.vgprs}, AGPR {kernel.agprs}, "
        f"SGPR {kernel.sgprs}, spills {kernel.sgpr_spills + kernel.vgpr_spills}, scratch {kernel.scratch} B, "
        f"LDS {kernel.lds_static} B, at most {kernel.max_threads} threads, wave {kernel.wave}"
    )


@cli.command()
@click.option("--profile", default="ck-free", show_default=True)
@_targets
@_json
@_bundles
def coverage(profile: str, targets: tuple[str, ...], as_json: bool, bundles: Path) -> None:
    """The operator x backend x target table, from manifests and built bundles, with the gaps named."""
    from build_tools.coverage import compute
    from build_tools.coverage_view import render
    from build_tools.manifest.parse import load

    manifest = load(ROOT / "manifests")
    table = compute(manifest, profile, targets or ("gfx942", "gfx950"), bundles if bundles.is_dir() else None)
    if as_json:
        _print_json(table.as_json())
    else:
        render(table, _console())


@cli.command()
@_bundles
@click.option("--output", type=click.Path(path_type=Path), default=ROOT / "dist", show_default="dist")
@click.option(
    "--runtime/--no-runtime", default=True, help="Also build the runtime's and the emulator's wheels."
)
def wheels(bundles: Path, output: Path, runtime: bool) -> None:
    """Pack the bundles of the last build, the runtime and the emulator into wheels."""
    from build_tools.wheel import write_wheels

    for path in write_wheels(ROOT, bundles, output, runtime=runtime):
        click.echo(f"{path.name}  {path.stat().st_size / 1024:.0f} KiB")


@cli.command()
def emulator() -> None:
    """Compile the embedded device and put it beside its package in src."""
    from build_tools.emulator_wheel import compile_emulator

    click.echo(compile_emulator(ROOT).relative_to(ROOT).as_posix())


@cli.command()
@click.argument("lines", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--checks", required=True, help="What the device checked while it executed, in words.")
def receipts(lines: tuple[Path, ...], checks: str) -> None:
    """Write manifests/receipts.json from the lines of the operator tests (nox -s prove)."""
    from build_tools.receipts import load, write

    path = write(ROOT, lines, checks)
    click.echo(
        f"{path.relative_to(ROOT).as_posix()}: {len(load(ROOT))} code objects were executed and found right"
    )


@cli.command("tune-request")
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path))
@_json
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=ROOT / "build" / "tuning",
    show_default="build/tuning",
)
def tune_request(logs: tuple[Path, ...], as_json: bool, output: Path) -> None:
    """Turn miss logs of the runtime (AITER_PREBUILT_MISS_LOG) into tables for a person to complete."""
    from build_tools.tune_request import requests, write

    made = requests(logs)
    paths = write(output, made)
    rows = [
        {"file": path.as_posix(), "rows": request.rows} for path, request in zip(paths, made, strict=True)
    ]
    if as_json:
        _print_json({"tables": rows})
        return
    for row in rows:
        click.echo(f"{row['file']}: {row['rows']} shapes")
    click.echo(
        "write kernel and variant of each row, then name the folder in AITER_PREBUILT_TUNED or put the file into manifests/tuned/"
    )


@cli.command()
@click.argument("names", nargs=-1, required=True)
def fetch(names: tuple[str, ...]) -> None:
    """Fetch pinned sources (zstd, ck) into the cache and print where they lie."""
    from build_tools.fetch import fetch as fetch_one

    for name in names:
        click.echo(str(fetch_one(name, ROOT)))


@cli.command()
@_json
def matrix(as_json: bool) -> None:
    """Print the matrix that a CI service runs: targets x profiles, with shards."""
    from build_tools.matrix import rows

    made = rows(ROOT)
    if as_json:
        _print_json({"matrix": made})
    else:
        _print_table("matrix", list(made[0]), (row.values() for row in made))


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160)


def _print_table(title: str, columns: list[str], rows: Iterable[Iterable[object]]) -> None:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    _console().print(table)


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps({"version": JSON_VERSION, **value}, indent=1, default=str))


def main() -> None:
    """Run a verb; an error of ours is printed as text and becomes its exit code."""
    try:
        # Not click's standalone mode, which turns Ctrl-C into "Aborted!" and exit code 1.
        code = cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BuildToolsError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith(("build_tools", "aiter_prebuilt")):
            raise
        fix = "run: pip install --require-hashes --no-deps -r build_tools/requirements.txt and pip install --group build"
        click.echo(
            f"error: the build needs the Python package {error.name!r}, which is not installed. {fix}",
            err=True,
        )
        sys.exit(UNUSABLE)
    except OSError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(UNUSABLE)
    except (click.Abort, KeyboardInterrupt):
        click.echo(
            "interrupted: what was finished is in the store, the next build goes on from there", err=True
        )
        sys.exit(130)
    if isinstance(code, int):  # --help and the like ask for an exit themselves
        sys.exit(code)


if __name__ == "__main__":
    main()
