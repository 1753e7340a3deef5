"""Judges files that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import print_json


@example("audit build/bundles/*.apb")
@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.json
def audit(files: tuple[Path, ...], as_json: bool) -> None:
    """Read and judge code objects: .co, .hsaco, .cubin, or the bundles of a build (.apb)."""
    from build_tools.errors import AuditError
    from build_tools.judge.audit import audit_files

    reports = audit_files(files)
    if as_json:
        from dataclasses import asdict

        print_json({"reports": [asdict(report) for report in reports]})
    else:
        for report in reports:
            click.echo(f"{report.subject}: {'right' if report.ok else 'refused'}")
            if report.facts is not None:
                for kernel in report.facts.kernels:
                    click.echo(f"  {_named(kernel.symbol)}: {_registers(kernel)}")
            for line in (*report.problems, *report.notes):
                click.echo(f"  {line}")
    broken = [report for report in reports if not report.ok]
    if broken:
        raise AuditError(broken)


def _named(symbol: str) -> str:
    """Return the readable name of a mangled symbol."""
    from build_tools.objects.demangle import kernel_name

    name = kernel_name(symbol)
    return symbol if name == symbol else f"{name} ({symbol})"


def _registers(kernel: Any) -> str:
    return (
        f"kernarg {kernel.kernarg_size} B, {len(kernel.args)} arguments, VGPR {kernel.vgprs}, AGPR {kernel.agprs}, "
        f"SGPR {kernel.sgprs}, spills {kernel.sgpr_spills + kernel.vgpr_spills}, scratch {kernel.scratch} B, "
        f"LDS {kernel.lds_static} B, at most {kernel.max_threads} threads, wave {kernel.wave}"
    )
