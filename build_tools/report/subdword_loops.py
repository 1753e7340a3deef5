"""List kernels of matrix instructions that access memory in units below 4 bytes, and why (``manifests/narrow.toml``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from build_tools.objects.subdword_access import MARK
from build_tools.report.reason_table import Table, read_table

FILE: Final = "manifests/narrow.toml"


class Reasons(Table):
    """``operator.kernel``, or a kernel of any operator -> why it may, or what is left to do."""

    kernels: dict[str, str] = Field(default={})


def lines(told: Mapping[str, Any], root: Path) -> Iterator[str]:
    """Of a build's report: a line for each kernel that is narrow and has no reason, the first of its variants named."""
    reasons = read_table(root, FILE, Reasons).kernels
    said: set[str] = set()
    for job in told["jobs"]:
        notes = [note for note in job.get("audit", {}).get("notes", ()) if note.startswith(MARK)]
        if not notes:
            continue
        kernel = ".".join(job["id"].split("-", 2)[2].split("-")[0].split(".")[:2])
        if kernel not in said and not {kernel, kernel.partition(".")[2]} & reasons.keys():
            said.add(kernel)
            yield f"{job['id']}: {'; '.join(notes)} (mend it, or say in {FILE} why it may)"
