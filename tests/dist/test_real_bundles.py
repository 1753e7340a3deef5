"""The data wheels that were built: installed together, every code object verified from another folder without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.installed import Environment, data_wheels_of, make_environment

from build_tools.compile.inputs import inputs_of
from build_tools.manifest.model import SAMPLE
from build_tools.manifest.parse import load
from build_tools.plan.plan import make_plan

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def real(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Everything in the folder of wheels."""
    names = sorted(path.name.split("-")[0] for path in data_wheels_of(dist))
    if not names:
        pytest.skip(
            f"no data wheel in {dist}: run python -m build_tools build and python -m build_tools wheels"
        )
    made = make_environment(tmp_path_factory.mktemp("real"))
    made.install(*names, places=(dist,))
    return made


def test_every_code_object_is_verified(real: Environment, dist: Path) -> None:
    done = real.command("verify", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0, [finding for bundle in report["bundles"] for finding in bundle["findings"]][
        :5
    ]
    assert report["ok"] is True
    assert len(report["bundles"]) == len(data_wheels_of(dist))
    assert all(bundle["code_objects"] > 0 for bundle in report["bundles"])


def test_every_entry_has_a_receipt(real: Environment) -> None:
    """What no device has executed does not ship."""
    bundles = json.loads(real.command("verify", "--json").stdout)["bundles"]
    left = {(row["target"], row["profile"]): row["entries"] - row["executed"] for row in bundles}
    assert left and not any(left.values()), left


def test_list_has_the_operators_of_the_manifests(real: Environment) -> None:
    manifest = load(ROOT / "manifests")
    rows = json.loads(real.command("list", "--json").stdout)["kernels"]
    installed = {(row["target"], row["profile"]) for row in rows}
    # Composable Kernel's instances are the sample here, which may have a family's on one target alone.
    wanted = {
        (each.operator.name, each.operator.kernels[recipe.kernel].name, bundle.target.name)
        for bundle in make_plan(manifest, ROOT, inputs_of(ROOT), prove=False, ck=SAMPLE).bundles
        for each in bundle.operators
        for recipe in each.operator.recipes
        if (bundle.target.name, bundle.profile) in installed
    }
    # A kernel of which nothing is in the sample has no variant.
    found = {(row["operator"], row["kernel"], row["target"]) for row in rows if row["variants"]}
    assert found == wanted


def test_a_verified_bundle_that_is_then_damaged_is_found(real: Environment, tmp_path: Path) -> None:
    source = max((real.site / "aiter_prebuilt_bundles").glob("*.apb"), key=lambda path: path.stat().st_size)
    data = bytearray(source.read_bytes())
    data[len(data) // 2] ^= 0x10
    (tmp_path / source.name).write_bytes(data)
    done = real.command("verify", AITER_PREBUILT_BUNDLES=str(tmp_path))
    assert done.returncode == 1
    assert "SHA-256" in done.stdout or "does not decode" in done.stdout
    assert "mend it: pip install --no-index --find-links dist --force-reinstall" in done.stdout
