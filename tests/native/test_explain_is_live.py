"""explain and the live call are one code: for random operators, tables and shapes the driver sees what explain chooses."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from support import repository

from aiter_prebuilt import errors
from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.dtype import BY_NUMBER
from aiter_prebuilt.contract.records import DIM_BIND, Operator, Tensor
from build_tools.cases import make
from build_tools.cases import table as cases_table
from build_tools.cases.bind import Bound
from build_tools.manifest.model import Target
from native.conftest import Blob, Stub, raw
from native.synthetic import A, Op, R, S, T
from native.test_user_tables import row, table

if TYPE_CHECKING:
    from aiter_prebuilt._native import RawTensor, TunedTable

CONDITIONS = (
    "N % 2 == 0", "N <= 64", "M < N", "aligned(x, 16)", "k > 3", "row % 4 == 0", "given(b)", "mode == 'fast'", "CUS > 100",
    "N // k > 1",
)  # fmt: skip
COSTS = ("N", "cdiv(M, 16) * 3", "k", "N - M", "0", "CUS", "N // k", "max(M, N)")
GRIDS = ("M", "cdiv(N, 32)", "1", "M * N", "M - 3")


def random_operator(draw: random.Random, blob: Blob) -> Op:
    kernels = [f"k{place}" for place in range(draw.randint(1, 4))]
    recipes = [
        R(
            kernel=draw.choice(kernels), variant=f"v{place}", when=draw.sample(CONDITIONS, draw.randint(0, 3)),
            cost=draw.choice(COSTS), types=(draw.choice(("bf16", "f16")),), workspace=draw.choice(("", "M * 4", "k * 8")),
            steps=[S(f"s{place}_{step}", ["ptr x", "i32 N"], [draw.choice(GRIDS)]) for step in range(draw.randint(1, 2))],
            blob=blob(),
        )
        for place in range(draw.randint(1, 8))
    ]  # fmt: skip
    tuned: list[tuple[Any, ...]] = [
        (304, draw.randrange(len(recipes)), [draw.choice((8, 63, 64)), draw.randint(0, 9)]) for _ in range(4)
    ]
    tuned.append((304, draw.randrange(len(recipes)), [draw.randint(0, 63), 2], [64, 5]))
    tensors = [T("x", "T", ["*M", "N"], ["row", "1"]), T("b", "f32", ["N"], optional=True)]
    attributes = [A("k", "int", "5"), A("mode", "enum", "slow", ("slow", "fast"))]
    return Op(
        "o", tensors, attributes, {"T": ["bf16", "f16"]}, recipes, kernels, tuned_on=["N", "k"], tuned=tuned
    )


def random_table(draw: random.Random, op: Op) -> TunedTable:
    rows = []
    for line in range(2, draw.randint(2, 6)):
        recipe = draw.choice(op.recipes)
        variant = draw.choice((recipe.variant, recipe.variant, "gone"))
        values = (draw.choice((8, 63, 64)), draw.randint(0, 9))
        rows.append(row(line, 304, values, variant, recipe.types[0], recipe.kernel))
    return table(*rows, columns=("N", "k"))


def random_call(draw: random.Random) -> tuple[list[RawTensor | None], list[int | str]]:
    m, n = draw.choice((0, 1, 3, 17)), draw.choice((8, 63, 64))
    stride = n + draw.choice((0, 1, 4))
    x = raw(0x7F0000000000 + draw.choice((0, 2, 16)), draw.choice(("bf16", "f16")), (m, n), (stride, 1))
    b = draw.choice((None, raw(0x7F0000400000, "f32", (n,))))
    return [x, b], [draw.randint(0, 9), draw.choice(("slow", "fast"))]


@pytest.mark.parametrize("seed", range(12))
def test_explain_chooses_what_is_launched(
    native: ModuleType, stub: Stub, blob: Blob, tmp_path: Path, seed: int
) -> None:
    from native import synthetic

    draw = random.Random(seed)
    op = random_operator(draw, blob)
    path = tmp_path / "random.apb"
    path.write_bytes(synthetic.bundle_bytes([op]))
    bundles, tables = (
        (native.Bundle(str(path)),),
        tuple(random_table(draw, op) for _ in range(draw.randint(0, 2))),
    )
    made = native.Operator("o", lambda vendor, ordinal: (bundles, 304, tables))
    launched = refused = 0
    for _ in range(60):
        tensors, attributes = random_call(draw)
        rows = made.explain(bundles, 304, tensors, attributes, tables)
        chosen = [found for found in rows if found["chosen"]]
        before = stub.launches()
        if not chosen:
            refused += 1
            with pytest.raises((errors.NoKernelError, errors.ArgumentDTypeError)):
                made(*tensors, *attributes)
            assert stub.launches() == before
            continue
        made(*tensors, *attributes)
        steps = [step for step in chosen[0]["steps"] if 0 not in step["grid"]]
        assert stub.launches() - before == len(steps)
        for place, step in enumerate(steps):
            record = stub.launch(place - len(steps))
            assert (record.symbol.decode(), list(record.grid), list(record.block), record.lds, record.kernarg_size) == (
                step["symbol"], step["grid"], step["block"], step["lds"], step["kernarg_size"]
            )  # fmt: skip
        launched += len(steps)
    assert launched or refused


#: Attributes that the Python function computes, and no call of the cases states.
COMPUTED: dict[str, Callable[[Bound], dict[str, str]]] = {
    "causal_conv1d_fn": lambda _: {"longest": "30"},
    "fused_qk_norm_mrope_3d_cache_pts_quant_shuffle": lambda bound: {
        f"section_{axis}": str(pairs)
        for axis, pairs in zip("thw", bound.values["mrope_section_"], strict=True)
    },
    "get_mla_metadata_v1": lambda _: {"fold": "1", "tiles": "1"},
}


@cache
def cases() -> tuple[dict[str, cases_table.Cases], dict[str, Target]]:
    manifest = repository.manifest()
    return repository.cases(), manifest.targets


def calls(name: str, target: str) -> list[Bound]:
    """The operator's own calls, the small one first."""
    known, facts = cases()
    return [
        bound
        for golden in (True, False)
        for bound in make.bounds(known[name], target, facts[target], golden=golden)
    ]


def names(block: Operator, tensors: Iterable[Tensor], *, strides: bool = True) -> set[str]:
    """The symbols that tensors bind."""
    return {
        block.slots[dim.slot]
        for tensor in tensors
        for dim in (*tensor.dims, *(tensor.strides if strides else ()))
        if dim.kind == DIM_BIND
    }


def settings_of(bound: Bound, block: Operator) -> dict[str, str]:
    """A call of ``cases.toml`` in the words of the command line."""
    named = names(block, (tensor for tensor in block.tensors if bound.tensors.get(tensor.name) is not None))
    variables = {variable.name for variable in block.type_variables}
    given = {
        attribute.name: bound.values[attribute.name]
        for attribute in block.attributes
        if isinstance(bound.values.get(attribute.name), (bool, int, float, str))
    }
    return {
        **{name: str(size) for name, size in bound.sizes.items() if name in named},
        **{
            name: dtype.resolve(kind, bound.fp8).name
            for name, kind in bound.types.items()
            if name in variables
        },
        **{
            tensor.name: "none"
            for tensor in block.tensors
            if tensor.optional and bound.tensors.get(tensor.name) is None
        },
        **{
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in given.items()
        },
        **(COMPUTED[block.name](bound) if block.name in COMPUTED else {}),
    }


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_the_shipped_bundles_launch_what_explain_says(
    native: ModuleType, stub: Stub, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """Random shapes of every real operator, described as on the command line: its choice is the stub driver's record."""
    from support.emulator import bundles

    from aiter_prebuilt.bundles import locate
    from aiter_prebuilt.inspection import decisions

    stub.set_arch(target.encode())
    paths = bundles(target, "ck-full")
    monkeypatch.setenv(locate.VARIABLE, ":".join(map(str, paths)))
    monkeypatch.delenv("AITER_PREBUILT_TUNED", raising=False)
    serving = locate.installed()
    opened = tuple(native.Bundle(str(path)) for path in paths)
    launched = dict.fromkeys(sorted({name for bundle in opened for name in bundle.names}), 0)
    find = decisions.find_operator
    for name in launched:
        draw = random.Random(f"{target} {name}")  # of its own: another operator's draws move none of them
        # Read once: to read an operator's records for each of its explanations is most of the time.
        read = find(name, serving)
        monkeypatch.setattr(decisions, "find_operator", lambda *_, read=read: read)
        block = read[0]
        made = native.Operator(name, lambda vendor, ordinal: (opened, 256))
        known = calls(name, target)
        symbols = names(block, block.tensors, strides=False)
        everywhere = names(block, block.tensors)
        for attempt in range(200):
            if attempt >= 30 and launched[name]:
                break
            settings = {
                symbol: str(draw.choice((1, 2, 3, 8, 16, 40, 64, 128, 1000, 4096)))
                for symbol in sorted(symbols)
            }
            for variable in block.type_variables:
                settings[variable.name] = BY_NUMBER[draw.choice(variable.allowed)].name
            settings |= {
                tensor.name: "none" for tensor in block.tensors if tensor.optional and draw.random() < 0.5
            }
            if attempt == 0 or draw.random() < 0.8:  # sizes drawn one by one seldom fit each other
                one = settings_of(draw.choice(known) if attempt else known[0], block)
                changed = draw.sample(sorted(settings), draw.randint(0, 1)) if attempt else []
                settings = (
                    {name: settings.get(name, "1") for name in sorted(symbols)}
                    | one
                    | {name: settings[name] for name in changed}
                )
            absent = {tensor.name for tensor in block.tensors if settings.get(tensor.name) == "none"}
            kept = names(block, (tensor for tensor in block.tensors if tensor.name not in absent))
            settings = {key: value for key, value in settings.items() if key not in everywhere - kept}
            tensors, attributes, _ = decisions.describe(block, settings)
            try:
                found = decisions.explain(name, settings, target, 256)
            except errors.ArgumentError as error:
                with pytest.raises(type(error)):
                    made(*tensors, *attributes)
                continue
            chosen = [row for row in found.decisions if row["chosen"]]
            before = stub.launches()
            if not chosen:
                with pytest.raises((errors.NoKernelError, errors.ArgumentDTypeError)):
                    made(*tensors, *attributes)
                continue
            made(*tensors, *attributes)
            steps = [step for step in chosen[0]["steps"] if 0 not in step["grid"]]
            assert stub.launches() - before == len(steps)
            launched[name] += len(steps)
            for place, step in enumerate(steps):
                record = stub.launch(place - len(steps))
                assert (record.symbol.decode(), list(record.grid), list(record.block), record.lds) == (
                    step["symbol"], step["grid"], step["block"], step["lds"]
                ), (name, settings)  # fmt: skip
    assert [name for name, count in launched.items() if not count] == []
