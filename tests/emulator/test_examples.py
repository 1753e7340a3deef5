"""The programs of ``examples``: each layer is as exact as it says on both targets, and the exact ones notice a change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.emulator import bundles

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
MODELS = ("llama3",)


def run(model: str, target: str, *words: str) -> subprocess.CompletedProcess[str]:
    """``examples/decoder_layer.py`` as a user starts it, with the bundles of the session."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AITER_PREBUILT")}
    (path,) = bundles(target, "ck-free")
    environment = kept | {"PYTHONPATH": str(ROOT / "src"), "AITER_PREBUILT_BUNDLES": str(path)}
    command = [sys.executable, str(EXAMPLES / "decoder_layer.py"), model, "--target", target, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("model", MODELS)
def test_a_layer_is_as_exact_as_it_says(model: str, target: str) -> None:
    pytest.importorskip("torch")
    done = run(model, target, "--json")
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    report = json.loads(done.stdout)
    assert {(row["step"], row["part"]) for row in report["layer"]} == {
        (step, part) for step in ("prompts", "next tokens") for part in ("attention", "the rest")
    }
    assert all(0 < row["error"] <= row["bound"] < 0.1 for row in report["layer"])
    assert report["tokens"] == report["exact"]
    assert all(len(tokens) == 4 for tokens in report["tokens"])
    # Not by luck: nowhere are two tokens as close as the logits are to exact ones.
    assert report["closest"] > report["logits_differ"] > 0


class Change(NamedTuple):
    """Another value for a name of ``exact.<model>``. ``part``: which of the two results it moves."""

    model: str
    name: str
    changed: Callable[[Any], Any]
    part: int


def turned_less(angles: Any) -> Any:
    return lambda *given: angles(*given) * 0.98


def others_heads(attention: Any) -> Any:
    return lambda q, k, v, *more: attention(q, k.roll(1, 1), v, *more)


CHANGES = [
    Change("llama3", "THETA", lambda theta: theta / 2, 1), Change("llama3", "angles", turned_less, 1),
    Change("llama3", "attention", others_heads, 1),
    Change("llama3", "silu_mul", lambda gated: lambda both: gated(both.roll(1, -1)), 0),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.model}-{change.name}")
def test_the_bound_is_less_than_a_change(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    model = import_module(change.model).MODEL
    step, exact = import_module("step"), import_module(f"exact.{change.model}")
    random = torch.Generator().manual_seed(model.seed)
    weights = model.exact_weights(model.weights(random, 0))
    hidden = step.drawn(random, max(model.prompts), model.hidden).double()
    before = model.exact(weights, hidden)
    monkeypatch.setattr(exact, change.name, change.changed(getattr(exact, change.name)))
    after = model.exact(weights, hidden)
    added = (before[0], before[1] - hidden)[change.part]
    bound = model.roundings[1 - change.part] * step.ROUNDING
    assert step.distance(after[change.part], before[change.part], added) > 2 * bound


def test_a_model_that_is_none_of_these_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "decoder_layer.py"), "llama2"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "llama3" in done.stderr
