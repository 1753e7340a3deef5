"""Generate ``ci/matrix.json`` and the pipelines of CI services (GitHub, GitLab, Buildkite, Jenkins) from the manifests.

One row per bundle (target and profile). Compiles are sharded by recorded seconds: each shard fills a store, and since results
are addressed by content the job that packs the wheels takes all stores together and compiles nothing. A test compares the files
with the manifests; ``python -m build_tools generate`` writes them again.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

from build_tools.compile.inputs import inputs_of
from build_tools.compile.shards import seconds_of
from build_tools.manifest.model import CURATED, Manifest
from build_tools.manifest.parse import load
from build_tools.plan.plan import make_plan

#: Seconds of a core: with four of them, about as long as a hosted runner needs to install the toolchain.
SECONDS_PER_SHARD: Final = 300
JSON_VERSION: Final = 2
MATRIX: Final = Path("ci/matrix.json")
WORKFLOW: Final = Path(".github/workflows/wheels.yml")
#: Each pipeline and the file that it is made from. All call ci/provider.sh; those below ci are samples.
PIPELINES: Final = {
    WORKFLOW: Path("ci/github-workflow.yml.in"),
    Path("ci/gitlab-ci.yml"): Path("ci/gitlab-ci.yml.in"),
    Path("ci/buildkite.yml"): Path("ci/buildkite.yml.in"),
    Path("ci/Jenkinsfile"): Path("ci/Jenkinsfile.in"),
}
#: Lines of a template: this one becomes a row for each unit, this word the number of units.
_UNITS: Final = "@UNITS@"
_COUNT: Final = "@COUNT@"

BundleRow = dict[str, str | int]


def rows(root: Path) -> list[BundleRow]:
    """One row per target and profile, in the manifests' order: extra, distribution, seconds of a core that its compiles took when
    they were recorded, number of shards.

    Raises:
        ManifestError: the manifests are wrong.
    """
    manifest = load(root / "manifests")
    return [
        _row(root, manifest, target, name)
        for name, profile in manifest.profiles.items()
        for target in profile.targets
    ]


def _row(root: Path, manifest: Manifest, target: str, profile: str) -> BundleRow:
    facts, suffix = manifest.targets[target], manifest.profiles[profile].suffix
    jobs = make_plan(manifest, root, inputs_of(root), (profile,), (target,), prove=False, ck=CURATED).jobs
    seconds = seconds_of(jobs)
    return {
        "target": target,
        "profile": profile,
        "extra": facts.extra + suffix,
        "distribution": facts.distribution + suffix,
        "seconds": round(seconds),
        "shards": max(1, math.ceil(seconds / SECONDS_PER_SHARD)),
    }


def units(bundles: list[BundleRow]) -> list[dict[str, Any]]:
    """One row per unit of work: its number from 1, a bundle and ``i/n``. ``ci/provider.sh compile`` takes its units from here."""
    parts = [(row, index) for row in bundles for index in range(1, int(row["shards"]) + 1)]
    return [
        {
            "unit": number,
            "target": row["target"],
            "profile": row["profile"],
            "shard": f"{index}/{row['shards']}",
        }
        for number, (row, index) in enumerate(parts, start=1)
    ]


def render_matrix(bundles: list[BundleRow]) -> str:
    """Return the text of ``ci/matrix.json``."""
    return json.dumps({"version": JSON_VERSION, "bundles": bundles, "units": units(bundles)}, indent=1) + "\n"


def render_pipeline(bundles: list[BundleRow], template: str) -> str:
    """Return the text of a pipeline: the template with the number of units, and one row per unit where it asks for rows."""
    rows_of = units(bundles)
    out = []
    for line in template.replace(_COUNT, str(len(rows_of))).splitlines():
        if line.strip() != _UNITS:
            out.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        for row in rows_of:
            pairs = [f"{key}: {json.dumps(value)}" for key, value in row.items()]
            out.append(f"{indent}- {{ {', '.join(pairs)} }}")
    return "\n".join(out) + "\n"


def files(root: Path) -> dict[Path, str]:
    """Return the generated files (path below ``root``) and what they must hold."""
    bundles = rows(root)
    made = {
        path: render_pipeline(bundles, (root / template).read_text(encoding="utf-8"))
        for path, template in PIPELINES.items()
    }
    return {MATRIX: render_matrix(bundles), **made}
