"""What lint asks of the reasons why operators are missing (``[[missing]]`` of ``manifests/catalogue.toml``)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from build_tools.manifest.model import Manifest
from build_tools.report.coverage import compute

_FILE: Final = "manifests/catalogue.toml"
#: Reasons are about the profile that everybody installs.
_PROFILE: Final = "ck-free"


def problems(manifest: Manifest) -> list[str]:
    """A row that some target lacks without a reason; a reason for what is there, for what is no row, or the second one."""
    targets = tuple(target for target in manifest.profiles[_PROFILE].targets if target in manifest.amd)
    rows = {row.operator: row for row in compute(manifest, _PROFILE, targets, None).rows}
    told = Counter(
        (operator, target)
        for each in manifest.catalogue.missing
        for operator in each.operators
        for target in each.targets
    )
    lines = [
        f"{_FILE}: missing: {operator}: {_wrong(rows[operator].has(target, False), count, target)}"
        if operator in rows and target in targets
        else f"{_FILE}: missing: {operator} on {target} is no row of the table: a reason is about an operator of a category "
        f"and one of {', '.join(targets)}"
        for (operator, target), count in told.items()
        if operator not in rows or target not in targets or rows[operator].has(target, False) or count > 1
    ]
    lines += (
        f"{_FILE}: {operator} has no kernel for {target} in {_PROFILE}, and no reason says why: add it to [[missing]]"
        for operator, row in rows.items()
        for target in targets
        if not row.has(target, False) and (operator, target) not in told
    )
    return lines


def _wrong(there: bool, count: int, target: str) -> str:
    if there:
        return f"{_PROFILE} has a kernel for {target}: take it out of the reason"
    return f"{count} reasons say why it is not on {target}"
