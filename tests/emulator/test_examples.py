"""The programs of ``examples``: each layer is as exact as it says on both targets, and the exact ones notice a change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.emulator import bundles

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
MODELS = ("llama3", "qwen3moe", "gptoss", "deepseek_v3")


def run(model: str, target: str, *words: str) -> subprocess.CompletedProcess[str]:
    """``examples/decoder_layer.py`` as a user starts it, with the bundles of the session."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AITER_PREBUILT")}
    (path,) = bundles(target, "ck-free")
    environment = kept | {
        "PYTHONPATH": str(ROOT / "src"), "AITER_PREBUILT_BUNDLES": str(path),
        "OMP_NUM_THREADS": "1",  # other tests run beside it
    }  # fmt: skip
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
    kinds = (0, 1) if model == "gptoss" else (0,)
    assert [(row["layer"], row["step"], row["part"]) for row in report["layer"]] == [
        (kind, step, part)
        for kind in kinds
        for step in ("prompts", "next tokens")
        for part in ("attention", "the rest")
    ]
    assert all(0 < row["error"] <= row["bound"] < 0.14 for row in report["layer"])
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


def others(experts: Any) -> Any:
    return lambda w, x: experts({**w, "gate_up": w["gate_up"].roll(1, 0)}, x)


def rolled(gated: Any) -> Any:
    return lambda both: gated(both.roll(1, -1))


def without_sinks(attention: Any) -> Any:
    return lambda *given: attention(*given[:5])


CHANGES = [
    Change("llama3", "THETA", lambda theta: theta / 2, 1), Change("llama3", "angles", turned_less, 1),
    Change("llama3", "attention", others_heads, 1), Change("llama3", "silu_mul", rolled, 0),
    Change("qwen3moe", "THETA", lambda theta: theta / 2, 1), Change("qwen3moe", "attention", others_heads, 1),
    Change("qwen3moe", "experts", others, 0), Change("qwen3moe", "CHOSEN", lambda chosen: chosen - 1, 0),
    Change("gptoss", "STRETCHED", lambda stretched: stretched / 4, 1), Change("gptoss", "attention", without_sinks, 1),
    Change("gptoss", "LIMIT", lambda limit: limit / 2, 0), Change("gptoss", "SLOPE", lambda slope: 1.0, 0),
    Change("gptoss", "attention", lambda attention: lambda *given: attention(*given[:4], given[4] + 1, given[5]), 1),
    Change("deepseek_v3", "THETA", lambda theta: theta / 8, 1), Change("deepseek_v3", "SCALE", lambda scale: scale / 1.5, 1),
    Change("deepseek_v3", "experts", others, 0), Change("deepseek_v3", "SHARE", lambda share: 1.0, 0),
    Change("deepseek_v3", "BEST_GROUPS", lambda groups: groups - 1, 0),
]  # fmt: skip


@cache
def whole(name: str) -> Any:
    """(weights, hidden states, what the layer makes of them), all in float64."""
    torch, model = import_module("torch"), import_module(name).MODEL
    random = torch.Generator().manual_seed(0)
    weights = model.exact_weights(model.weights(random, 0))
    hidden = model.states(random, max(model.prompts)).double()
    return weights, hidden, model.exact(weights, hidden)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.model}-{change.name}")
def test_the_bound_is_less_than_a_change(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    model, step = import_module(change.model).MODEL, import_module("step")
    weights, hidden, before = whole(change.model)
    exact = import_module(f"exact.{change.model}")
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
