"""What ``python -m build_tools report shapes`` says of a model's call is what a live call of the public function launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support import repository

import aiter_prebuilt
from aiter_prebuilt.bundles import locate
from aiter_prebuilt.contract.calls import Call
from aiter_prebuilt.errors import AiterPrebuiltError
from aiter_prebuilt.execute import explain, recipes
from aiter_prebuilt.execute.record import instead
from aiter_prebuilt.launch import dispatch
from build_tools.shapes import ask, models
from native.conftest import Stub

ROOT = Path(__file__).resolve().parents[2]
TOLD = models.read(ROOT)
MANIFEST = repository.manifest()
#: Tokens of the calls that are launched here, of those that the models have.
TOKENS = (1, 64, 4096)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Each target's bundles are read anew, and none of these left behind."""
    kept = (dispatch.bundles_of, explain.facts_of, recipes.read)
    for cached in kept:
        cached.cache_clear()
    yield
    for cached in kept:
        cached.cache_clear()


def asked(target: str, name: str) -> list[Call]:
    """A model's calls, some numbers of tokens of each."""
    every = ask.step_calls(TOLD, MANIFEST, target, ask.Filter((name,), (), (8,)))
    return [each.call for each in every if each.call is not None and each.row.tokens in TOKENS]


def arguments(call: Call) -> dict[str, Any]:
    memory: Any = explain._Addresses(("amd", 0), "gfx950")
    return {name: explain._placed(value, memory) for name, value in call.arguments.items()}


def _seeing(made: dict[str, Any], operator: Any) -> Any:
    """The operator of these bundles that sees its tensors as ``operator`` does."""
    return made[operator.name].viewing(operator.views) if operator.views else made[operator.name]


@pytest.mark.parametrize("name", TOLD.models)
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_a_models_calls_launch_what_is_said_of_them(
    native: ModuleType, stub: Stub, monkeypatch: pytest.MonkeyPatch, target: str, name: str
) -> None:
    from support.emulator import bundles

    stub.set_arch(target.encode())
    paths = bundles(target, "ck-full")
    monkeypatch.setenv(locate.VARIABLE, ":".join(map(str, paths)))
    monkeypatch.delenv("AITER_PREBUILT_TUNED", raising=False)
    opened = tuple(native.Bundle(str(path)) for path in paths)
    served = {each for bundle in opened for each in bundle.names}
    facts: Any = explain.facts_of(target)
    made = {each: native.Operator(each, lambda *_: (opened, facts.compute_units)) for each in served}
    launched: Counter[str] = Counter()
    for call in asked(target, name):
        if call.operator not in served or call.operator == "mla_decode_fwd":  # which asks the device itself
            continue
        function = getattr(aiter_prebuilt, call.operator)
        told = explain.explain(call, target)
        before = stub.launches()
        live = lambda operator, tensors, attributes: _seeing(made, operator)(*tensors, *attributes)  # noqa: E731
        if told.problems:
            with pytest.raises(AiterPrebuiltError), instead(function, live):
                function(**arguments(call))
            continue
        with instead(function, live):
            function(**arguments(call))
        assert stub.launches() - before == len(told.launched), call.label
        explainer = explain._Explainer(facts, 0)
        with instead(function, explainer):
            function(**arguments(call))
        steps = [step for row in explainer.chosen_rows() for step in row["steps"] if 0 not in step["grid"]]
        assert [step["sha256"] for step in steps] == list(told.launched)
        for place, step in enumerate(steps):
            record = stub.launch(place - len(steps))
            assert (record.symbol.decode(), list(record.grid), list(record.block), record.lds) == (
                step["symbol"], step["grid"], step["block"], step["lds"]
            ), call.label  # fmt: skip
        launched[call.operator] += len(steps)
    assert {"rms_norm", "rmsnorm2d_fwd_with_add", "greedy_sample"} <= set(launched), launched
    mixing = {
        "unified_attention",
        "flash_attn_varlen_func",
        "mla_decode_stage1_asm_fwd",
        "chunk_gated_delta_rule",
    }
    assert mixing & set(launched), launched


def test_a_described_tensor_has_no_bytes() -> None:
    """Weights of hundreds of gigabytes, none of which is here."""
    memory: Any = explain._Addresses(("amd", 0), "gfx950")
    tensor = explain._Described(memory, "bf16", (1 << 20, 1 << 18), strides=(1 << 18, 1), offset=8)
    assert tensor.target == "gfx950"
    other = tensor.new_empty((3, 4), "f32")
    assert tensor.shape == (1 << 20, 1 << 18) and tensor[0] % 4096 == 16
    assert (other.shape, other.dtype, other[3]) == ((3, 4), "f32", (4, 1))
    assert other[0] - tensor[0] >= 1 << 39 and other[0] % 4096 == 0
