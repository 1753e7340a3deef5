"""The CI matrix, which is generated from the manifests."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support import repository

from build_tools.generate import matrix

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def rows() -> list[matrix.BundleRow]:
    """The committed rows. ``test_generated.py`` compares the file with the manifests."""
    found: list[matrix.BundleRow] = json.loads((ROOT / matrix.MATRIX).read_text(encoding="utf-8"))["bundles"]
    return found


def test_every_target_of_every_profile_has_one_row(rows: list[matrix.BundleRow]) -> None:
    manifest = repository.manifest()
    wanted = [(target, name) for name, profile in manifest.profiles.items() for target in profile.targets]
    assert [(row["target"], row["profile"]) for row in rows] == wanted


def test_every_action_is_pinned_by_commit_and_none_keeps_the_token() -> None:
    lines = (ROOT / matrix.WORKFLOW).read_text(encoding="utf-8").splitlines()
    uses = [line.split("uses:")[1].strip() for line in lines if "uses:" in line]
    assert len(uses) > 8
    for each in uses:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), each
    checkouts = [place for place, line in enumerate(lines) if "uses: actions/checkout@" in line]
    assert all("persist-credentials: false" in lines[place + 1] for place in checkouts)
    text = "\n".join(lines)
    assert text.count("actions/upload-artifact@") == text.count("if-no-files-found: error")


def test_shards_are_as_many_as_their_seconds_ask_for(rows: list[matrix.BundleRow]) -> None:
    for row in rows:
        seconds, shards = int(row["seconds"]), int(row["shards"])
        assert (
            (shards - 1) * matrix.SECONDS_PER_SHARD <= seconds + 1 <= shards * matrix.SECONDS_PER_SHARD + 1
        ), row


BUNDLES: list[matrix.BundleRow] = [
    {"target": "gfx942", "profile": "ck-free", "extra": "gfx942", "distribution": "d", "shards": 3},
    {"target": "gfx950", "profile": "ck-full", "extra": "gfx950-ck", "distribution": "e", "shards": 1},
]


def test_units_cover_each_bundle_once() -> None:
    made = matrix.units(BUNDLES)
    assert [row["unit"] for row in made] == [1, 2, 3, 4]
    assert [row["shard"] for row in made] == ["1/3", "2/3", "3/3", "1/1"]
    assert [row["target"] for row in made] == ["gfx942"] * 3 + ["gfx950"]
    assert json.loads(matrix.render_matrix(BUNDLES))["units"] == made


def test_a_pipeline_gets_the_number_of_units_and_a_line_for_each_at_the_marker() -> None:
    text = matrix.render_pipeline(BUNDLES[:1], "jobs: @COUNT@\na:\n    @UNITS@\nb: 1/@COUNT@")
    assert text.splitlines() == [
        "jobs: 3",
        "a:",
        '    - { unit: 1, target: "gfx942", profile: "ck-free", shard: "1/3" }',
        '    - { unit: 2, target: "gfx942", profile: "ck-free", shard: "2/3" }',
        '    - { unit: 3, target: "gfx942", profile: "ck-free", shard: "3/3" }',
        "b: 1/3",
    ]
