"""The blind test: families that no fit has seen, from measured rows in the tree, and what is written down of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import repository

from build_tools.errors import NotReadyError
from build_tools.timing import blind, costs, document, measured, tiles
from build_tools.timing.measured import Candidate, Family, Shape
from build_tools.timing.tiles import Figures, Product
from build_tools.tools.tree import Tree, tree_of

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = measured.read(ROOT / measured.NAME)
SAID: dict[str, Any] = json.loads((ROOT / blind.NAME).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("model", "case"),
    [
        (blind.ByCycles(document.read(ROOT / document.NAME)), "i8gemm gfx942 80"),
        (blind.ByTiles(), "a8w8 gfx942 80"),
    ],
)
def test_the_recorded_figures_are_those_of_the_measured_rows(model: blind.Model, case: str) -> None:
    cost = costs.costs_of(repository.manifest(), {case: FAMILIES[case]})[case]
    found, times = blind.tested(model, FAMILIES[case], FAMILIES, cost)
    said = SAID["families"][case]
    assert times is not None and case not in found["fitted_to"]
    assert {part: found[part] for part in ("fitted_to", "rows", "contested", "loss_today")} == {
        part: said[part] for part in ("fitted_to", "rows", "contested", "loss_today")
    }
    assert found["blind"] == pytest.approx(said["blind"], abs=0.3)
    assert found["loss"] == pytest.approx(said["loss"], abs=0.02)


def test_every_family_is_tested_by_others_of_its_card_alone() -> None:
    assert set(SAID["families"]) == set(FAMILIES)
    for case, each in SAID["families"].items():
        assert case not in each["fitted_to"] and all(
            other.split()[1:] == case.split()[1:] for other in each["fitted_to"]
        )
        assert (each["blind"] is None) is (not each["fitted_to"]), case


def test_predictions_may_choose_where_the_bounds_hold() -> None:
    assert SAID["bounds"] == {"median": 10.0, "p90": 25.0}
    assert blind.trusted(SAID) == {
        "bf16gemm gfx950 256", "fp8gemm_blockscale gfx950 256", "fp8gemm_blockscale gfx942 80", "i8gemm gfx942 80",
    }  # fmt: skip
    poor = {"median": 10.1, "p90": 12.0, "bias": 0.0}
    tail, good = {**poor, "median": 1.0, "p90": 25.1}, {**poor, "median": 10.0, "p90": 25.0}
    cases = {"a": poor, "b": tail, "c": good, "d": None}
    assert blind.trusted({"families": {case: {"blind": each} for case, each in cases.items()}}) == {"c"}


def test_a_choice_loses_its_time_over_the_fastest() -> None:
    shapes = [
        Shape(1, 1, 1, 2, (Candidate("a", 1, 10.0), Candidate("b", 1, 20.0))),
        Shape(2, 1, 1, 2, (Candidate("b", 1, 10.0), Candidate("a", 1, 15.0))),
    ]

    def named(shape: Shape) -> list[float]:
        return [float(each.kernel != "a") for each in shape.candidates]

    assert blind._loss(shapes, named) == {"mean": 1.25, "p90": 1.45, "right": 50.0}
    even = blind._loss(shapes, lambda shape: [0.0] * len(shape.candidates))
    assert even == {"mean": 1.375, "p90": 1.475, "right": 0.0}, "a tie takes the mean"


def test_figures_of_tiles_are_found_again() -> None:
    true = Figures(6000.0, 250.0, 9.0, 0.4, 120.0, 2e4, 5e6)
    random, made = np.random.default_rng(2), []
    for rows, columns, depth in ((16, 64, 256), (64, 128, 128), (128, 128, 64), (256, 128, 128)):
        for m, n, k in random.integers(1, 40, (30, 3)) * 128:
            made.append(Product(256, int(m), int(n), int(k), rows, columns, depth, 1.0))
    rows_of = [each._replace(ns=float(ns)) for each, ns in zip(made, tiles.predict(true, made), strict=True)]
    off = np.abs(
        tiles.predict(tiles.fit([rows_of[::2]]), rows_of[1::2]) / tiles.predict(true, rows_of[1::2]) - 1
    )
    assert np.median(off) < 0.05
    name = "a8w8_blockscale_1x128x128_256x16x64x128_16x16_16x16_1x1_16x16x1_1x16x1x16_4_1x1_intrawave_v1"
    assert tiles.tile_of(name) == (256, 16, 64, 128, 1)
    assert tiles.tile_of("_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E") is None


def test_rows_have_every_variant_with_its_last_time(tmp_path: Path) -> None:
    head = "cu_num,M,N,K,kernelId,splitK,us,kernelName\n"
    one, two = (f"a8w8_rowwise_256x{rows}x64x512_16x16_1x1_intrawave_v3" for rows in (16, 32))
    tables = {
        "1": f"80,1,64,512,0,0,9.0,{one}\n",
        "2": f"80,1,64,512,0,0,8.0,{one}\n80,1,64,512,0,1,2.0,{one}\n80,7,64,512,0,0,0,{one}\n",
        "3": f"80,1,64,512,1,0,7.5,{two}\n",
    }
    for name, rows in tables.items():
        configs = tmp_path / name / "aiter/configs"
        configs.mkdir(parents=True)
        (configs / "a8w8_tuned_gemm.csv").write_text(head + rows)
    older = [tmp_path / "1", tmp_path / "2"]
    made = measured.document(_tree(tmp_path / "3"), older)
    path = tmp_path / "measured.json"
    document.write(path, made)
    shape = Shape(1, 64, 512, 2, (Candidate(two, 1, 7.5), Candidate(one, 1, 8.0)))
    assert measured.read(path) == {"a8w8 gfx942 80": Family("a8w8", "gfx942", 80, (shape,), ())}
    document.write(path, {**made, "edition": 99})
    with pytest.raises(NotReadyError, match="edition 99"):
        measured.read(path)


def _tree(folder: Path) -> Tree:
    return tree_of("aiter", ROOT, instead=str(folder))
