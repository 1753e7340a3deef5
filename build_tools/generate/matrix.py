"""Generate ``ci/matrix.json`` and ``.github/workflows/wheels.yml`` from the manifests.

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
JSON_VERSION: Final = 1
MATRIX: Final = Path("ci/matrix.json")
WORKFLOW: Final = Path(".github/workflows/wheels.yml")
TEMPLATE: Final = Path("ci/github-workflow.yml.in")
_PLACE: Final = "@BUNDLES@"

Row = dict[str, str | int]


def rows(root: Path) -> list[Row]:
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


def _row(root: Path, manifest: Manifest, target: str, profile: str) -> Row:
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


def shards(bundles: list[Row]) -> list[dict[str, Any]]:
    """One row per CI job: a bundle and ``i/n``."""
    return [
        {"target": row["target"], "profile": row["profile"], "shard": f"{index}/{row['shards']}"}
        for row in bundles
        for index in range(1, int(row["shards"]) + 1)
    ]


def render_matrix(bundles: list[Row]) -> str:
    """Return the text of ``ci/matrix.json``."""
    return (
        json.dumps({"version": JSON_VERSION, "bundles": bundles, "shards": shards(bundles)}, indent=1) + "\n"
    )


def render_workflow(bundles: list[Row], template: str) -> str:
    """Return the text of ``.github/workflows/wheels.yml``.

    The template with one ``include`` row per shard.
    """
    out = []
    for line in template.splitlines():
        if line.strip() != _PLACE:
            out.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        for number, row in enumerate(shards(bundles), start=1):
            pairs = [f"{key}: {json.dumps(value)}" for key, value in row.items()]
            out.append(f"{indent}- {{ number: {number}, {', '.join(pairs)} }}")
    return "\n".join(out) + "\n"


def files(root: Path) -> dict[Path, str]:
    """Return the generated files (path below ``root``) and what they must hold."""
    bundles = rows(root)
    template = (root / TEMPLATE).read_text(encoding="utf-8")
    return {MATRIX: render_matrix(bundles), WORKFLOW: render_workflow(bundles, template)}
