"""Every receipt in the repository holds: nobody finds out at ``wheels`` that one went stale."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

from build_tools.judge import receipts
from build_tools.judge.receipts import Provable
from build_tools.prove import recorded
from build_tools.prove.known import known

ROOT = Path(__file__).resolve().parents[2]


def stale(root: Path) -> dict[str, int]:
    """Count the receipts that hold no longer, by ``family.operator target``."""
    holding = known(root)
    return dict(
        sorted(
            Counter(
                f"{each.family}.{each.operator} {each.target}"
                for digest, each in receipts.read(root).items()
                if digest not in holding
            ).items()
        )
    )


def test_every_receipt_on_file_holds() -> None:
    assert not stale(ROOT), (
        "Prove these operators again: python -m build_tools build --ck curated --operator NAME, then "
        "python -m build_tools prove --operator NAME; for sm_90 python ci/gpu_check.py on an NVIDIA card"
    )


def test_notices_a_receipt_of_another_formula(tmp_path: Path) -> None:
    """A changed reference makes its family's receipts stale, and no others."""
    manifests = tmp_path / "manifests"
    for family in ("norm", "softmax"):
        shutil.copytree(ROOT / "manifests" / family, manifests / family)
    shutil.copy(ROOT / "manifests/targets.toml", manifests)
    (tmp_path / "src/aiter_prebuilt").mkdir(parents=True)
    (tmp_path / "src/aiter_prebuilt/ops").symlink_to(ROOT / "src/aiter_prebuilt/ops")
    (tmp_path / "hsa").symlink_to(ROOT / "hsa")
    before = stale(tmp_path)
    with (manifests / "softmax/reference.py").open("a", encoding="utf-8") as formula:
        formula.write("\nprint('changes what every function of the module may see')\n")
    assert {name.partition(".")[0] for name in stale(tmp_path).keys() - before.keys()} == {"softmax"}


def test_a_card_drops_stale_receipts_of_recipes_that_are_built_no_longer() -> None:
    every = receipts.read(ROOT)
    some = next(each for each in every.values() if each.target == "sm_90")
    stale_one = replace(some, digest="f" * 64, reference="of another formula")
    with_stale = {**every, stale_one.digest: stale_one}
    assert recorded._alive(ROOT, with_stale, {}, {"sm_90"}) == every
    assert recorded._alive(ROOT, with_stale, {}, {"gfx942"}) == with_stale
    built = Provable("", "", "", "sm_90", frozenset(), "", "", {})
    assert recorded._alive(ROOT, with_stale, {stale_one.digest: built}, {"sm_90"}) == with_stale
