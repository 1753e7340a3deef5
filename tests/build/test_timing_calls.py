"""``tune --by-model``: predicted times of a call's candidates, as tuned rows that explain shows and measured rows go before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import repository
from support.emulator import bundles, library_path

from aiter_prebuilt.contract import tuned_grammar
from build_tools.errors import ExecutorError, UsageError
from build_tools.shapes import models as told
from build_tools.shapes.ask import Filter
from build_tools.timing import calls, document
from build_tools.timing.call_text import calls_of
from build_tools.timing.calls import (
    CallRequest,
    Candidate,
    Place,
    Predicted,
    asked_of,
    predicted,
    tables,
    time_of,
)
from build_tools.timing.model import USUAL

ROOT = Path(__file__).resolve().parents[2]
FITTED = document.read(ROOT / document.NAME)


def launch(
    grid: tuple[int, int, int], cycles: int = 10_000, missed: int = 1 << 18, **more: int
) -> dict[str, Any]:
    """As the embedded device says it; a second class is shorter."""
    classes = [{"cycles": cycles // 2, "missed_bytes": 1}, {"cycles": cycles, "missed_bytes": missed}]
    return {"grid": list(grid), "compute_units": 256, "resident": 1, "classes": classes, **more}


def test_a_call_is_read() -> None:
    asked = asked_of("rms_norm M=64 N=1024 T=bf16", "gfx942", 304)
    assert asked == CallRequest("rms_norm", "gfx942", 304, {"M": "64", "N": "1024", "T": "bf16"})
    assert asked.words == ["M=64", "N=1024", "T=bf16"]
    for wrong in ("", "M=64", "rms_norm M", "rms_norm M="):
        with pytest.raises(UsageError, match="SYMBOL=VALUE"):
            asked_of(wrong, "gfx942", 304)


@pytest.mark.parametrize(
    ("grid", "resident", "every", "panels"),
    [
        ((32, 7, 1), 224, 8, 4 + 7),  # every eighth column, all rows
        ((3, 64, 1), 192, 8, 3 + 24),
        ((2, 2, 2), 8, 1, 4 + 4),  # parts of K share nothing
        ((256, 1, 1), 256, 8, 2 * 32**0.5),
        ((5, 1, 1), 5, 8, 2),
    ],
)
def test_panels_of_an_xcd(grid: tuple[int, int, int], resident: int, every: int, panels: float) -> None:
    assert calls._panels(grid, resident, every) == pytest.approx(panels)


def test_time_of_launches() -> None:
    """More rounds, longer workgroups, more bytes and more launches take longer; a second resident workgroup saves a round."""
    size = 1 << 26
    one = time_of([launch((16, 16, 1))], size, USUAL)
    assert time_of([launch((16, 16, 1))] * 2, size, USUAL) == pytest.approx(2 * one)
    assert time_of([launch((16, 17, 1))], size, USUAL) > one
    assert time_of([launch((16, 17, 1), resident=2)], size, USUAL) < time_of(
        [launch((16, 17, 1))], size, USUAL
    )
    assert time_of([launch((16, 16, 1), cycles=40_000)], size, USUAL) > one
    assert time_of([launch((16, 16, 1), missed=1 << 20)], size, USUAL) > one
    assert one > USUAL.start + USUAL.filling + 10_000 / USUAL.megahertz


def test_tables_are_tuned_tables() -> None:
    """The fastest of a call stands first and decides; the others are there for explain."""
    made = [
        Predicted(
            CallRequest("op", "gfx950", 256, {}), {"M": m, "N": 8}, "bf16", "",
            (Candidate("k", "a", 1.25, False), Candidate("k", "b", 2.0, True)),
        )
        for m in (1, 2)
    ]  # fmt: skip
    ((name, text),) = tables([*made, made[0], Predicted(made[0].asked, {"M": 3}, "bf16", "measured", ())])
    table = tuned_grammar.read(text)
    assert name == "op.csv" and not table.problems
    assert [(row.values, row.variant, row.us) for row in table.rows] == [
        ((1, 8), "a", "1.2"), ((1, 8), "b", "2.0"), ((2, 8), "a", "1.2"), ((2, 8), "b", "2.0"),
    ]  # fmt: skip
    assert [row.source for row in table.rows] == ["modelled", "modelled; the cost rule's"] * 2
    other = Predicted(made[0].asked, {"M": 3}, "bf16", "", made[0].candidates)
    with pytest.raises(UsageError, match="different symbols"):
        list(tables([*made, other]))


@pytest.fixture(scope="module")
def place() -> Place:
    """The build's bundles."""
    return Place(ROOT, (*bundles("gfx942", "ck-free"), *bundles("gfx950", "ck-free")), library_path())


def explained(place: Place, asked: CallRequest, table: Path | None) -> list[dict[str, Any]]:
    environment = place.environment({"AITER_PREBUILT_TUNED": str(table)} if table else {})
    words = [
        "explain",
        asked.operator,
        *asked.words,
        "--target",
        asked.target,
        "--cus",
        str(asked.cus),
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "aiter_prebuilt", *words], env=os.environ | environment, capture_output=True, text=True, check=True
    )  # fmt: skip
    decisions: list[dict[str, Any]] = json.loads(done.stdout)["decisions"]
    return decisions


def test_a_call_that_nobody_measured(place: Place, tmp_path: Path) -> None:
    asked = asked_of("rms_norm M=96 N=1024 T=bf16", "gfx942", 304)
    constants = document.card(FITTED, "gfx942", 304)
    found = predicted(place, asked, constants)
    before = explained(place, asked, None)
    accepted = {(each["kernel"], each["variant"]) for each in before if each["accepted"]}
    assert {(each.kernel, each.variant) for each in found.candidates} == accepted and len(accepted) > 1
    assert [each.us for each in found.candidates] == sorted(each.us for each in found.candidates)
    assert all(constants.start < each.us < 100 for each in found.candidates)
    (cost,) = (each for each in found.candidates if each.chosen)
    assert [(cost.kernel, cost.variant)] == [
        (each["kernel"], each["variant"]) for each in before if each["chosen"]
    ]
    assert not any(each["us"] or each["source"] for each in before)
    ((name, text),) = tables([found])
    (tmp_path / name).write_text(text)
    after = explained(place, asked, tmp_path)
    (chosen,) = (each for each in after if each["chosen"])
    first = found.candidates[0]
    assert (chosen["kernel"], chosen["variant"], chosen["us"]) == (
        first.kernel,
        first.variant,
        f"{first.us:.1f}",
    )
    shown = {(each["kernel"], each["variant"]): each["source"] for each in after if each["us"]}
    assert shown.keys() == accepted and shown[cost.kernel, cost.variant] == "modelled; the cost rule's"
    longer = predicted(place, asked_of("rms_norm M=9600 N=1024 T=bf16", "gfx942", 304), constants)
    assert longer.candidates[0].us > first.us


def test_a_measured_row_wins(place: Place) -> None:
    """AITER measured this one: nothing is predicted for it, so that no row of ours goes before it."""
    call = "gemm_a4w4 M=1 N=800 KB=2560 SA=32 SK=160 SB=800 C=bf16 bias=none"
    asked = asked_of(call, "gfx950", 256)
    found = predicted(place, asked, USUAL)
    assert found.left == "a tuned row decides it" and not found.candidates and not list(tables([found]))


def test_a_candidate_that_does_not_end_is_left_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def time(
        place: Place, asked: CallRequest, symbols: Any, types: str, decision: Any, constants: Any
    ) -> float:
        if decision["chosen"]:
            raise ExecutorError("run it", "instruction limit", "Correct it")
        return 2.0

    monkeypatch.setattr(calls, "_time", time)
    found = predicted(place, asked_of("rms_norm M=96 N=1024 T=bf16", "gfx942", 304), USUAL)
    assert len(found.failed) == 1 and found.failed[0].endswith("]: instruction limit")
    assert found.candidates and not any(each.chosen for each in found.candidates)


def test_calls_of_models_in_words() -> None:
    """What tensors say of symbols and types; a starred dim, absent tensors and options too."""
    manifest, models = repository.manifest(), told.read(ROOT)
    words = list(calls_of(models, manifest, "gfx950", Filter(models=("Llama-3.1-8B",))))
    assert len(words) == len(set(words)) and "rms_norm M=8 N=4096 T=bf16" in words
    assert "gemm_a16w16 M=8 K=4096 T=bf16 N=6144 ldb=4096 bias=none" in words
    assert any(each.startswith("dynamic_per_tensor_quant M=1 N=4096 Q=e4m3fn T=bf16") for each in words)
    only = Filter(models=("Llama-3.1-8B",), functions=("rms_norm",))
    assert {each.split()[0] for each in calls_of(models, manifest, "gfx950", only)} == {"rms_norm"}


def test_words_of_models_are_what_explain_takes(place: Place) -> None:
    manifest, models = repository.manifest(), told.read(ROOT)
    for function in ("rms_norm", "gemm_a16w16", "silu_and_mul", "gemm_a8w8_bpreshuffle"):
        only = Filter(models=("Llama-3.1-8B",), functions=(function,))
        asked = asked_of(next(iter(calls_of(models, manifest, "gfx950", only))), "gfx950", 256)
        assert any(each["chosen"] for each in explained(place, asked, None)), asked


def test_a_refused_call_is_said(place: Place) -> None:
    with pytest.raises(ExecutorError, match="rms_norm"):
        predicted(place, asked_of("rms_norm M=96", "gfx942", 304), USUAL)
