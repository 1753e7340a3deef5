"""The report of a build: JSON with a version, a row for each job and each bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from build_tools.compile.cost import cost_of
from build_tools.files.reproducible import table_text, write_atomic
from build_tools.pipeline.bundling import NOTED, place_of
from build_tools.pipeline.settings import Outcome
from build_tools.records import (
    AuditReport,
)
from build_tools.report import unpinned

REPORT_VERSION: Final = 4


def write_report(outcome: Outcome, path: Path) -> None:
    """Write the build report.

    Versioned JSON, one row per job and per bundle.
    """
    write_atomic(path, table_text(report(outcome)).encode())


def report(outcome: Outcome) -> dict[str, Any]:
    """Return the report as plain data."""
    planned = {place_of(bundle): bundle for bundle in outcome.plan.bundles}
    return {
        "version": REPORT_VERSION,
        "ck": outcome.ck,
        "seconds": round(outcome.seconds, 3),
        "jobs": [
            {
                "id": result.job.id,
                "key": result.key,
                "cached": result.cached,
                "seconds": round(result.seconds, 3),
                "peak_bytes": result.peak,
                "bytes": result.path.stat().st_size if result.path else 0,
                **_registers(outcome.audits.get(result.job.id), result.symbol),
            }
            for result in outcome.results
        ],
        "bundles": [
            {
                "file": bundle.path.name,
                **{name: getattr(bundle, name) for name in NOTED},
                "ratio": round(bundle.raw_bytes / max(1, bundle.size), 2),
                **cost_of(planned[bundle.target, bundle.profile], outcome.results),
            }
            for bundle in outcome.bundles
        ],
        **unpinned.as_json(outcome.plan),
        **({"rechecked": outcome.rechecked} if outcome.rechecked else {}),
    }


def _registers(audited: AuditReport | None, symbol: str) -> dict[str, Any]:
    if audited is None or audited.facts is None:
        return {}
    facts = next(kernel for kernel in audited.facts.kernels if kernel.symbol == symbol)
    names = ("vgprs", "agprs", "sgprs", "sgpr_spills", "vgpr_spills", "scratch", "lds_static")
    return {"audit": {**{name: getattr(facts, name) for name in names}, "notes": list(audited.notes)}}
