"""``torch.compile(f, fullgraph=True)`` of every public function that the package lists: as the eager call, or with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")

from support import public_calls, torch_kernels  # noqa: E402

import aiter_prebuilt  # noqa: E402
from aiter_prebuilt.devices import device  # noqa: E402
from aiter_prebuilt.launch.graph_break import break_reason, is_traced  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
REASONS = {
    name: reason
    for name in public_calls.FUNCTIONS
    if (reason := break_reason(getattr(aiter_prebuilt, name))) is not None
}
#: Those without an operator of their name; ``test_torch_compile.py`` has the others by module.
COMPOSED = sorted(set(public_calls.FUNCTIONS) - set(aiter_prebuilt.ops.HOMES) - set(REASONS))
FACTS = device.DeviceFacts("amd", 0, "a GPU", "gfx950", "gfx950", frozenset(), 256, 1 << 30, 1)


@pytest.fixture(scope="module")
def seen() -> Iterator[list[torch_kernels.NativeCall]]:
    """The calls of kernels, which run on the processor."""
    calls: list[torch_kernels.NativeCall] = []
    for _ in torch_kernels.registered(calls):
        yield calls


@pytest.fixture
def _gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU of 256 compute units, of which only sizes are read; memory that nothing writes is NaN."""
    from aiter_prebuilt.tracing import functions

    for module in (device, functions.DEVICE):
        monkeypatch.setattr(module, "facts", lambda *_: FACTS)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    torch.use_deterministic_algorithms(True)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    torch.use_deterministic_algorithms(False)


def _parts(result: Any) -> list[Any]:
    """All that stands in nested tuples, lists and records."""
    if is_dataclass(result):
        result = [getattr(result, field.name) for field in fields(result)]
    if isinstance(result, tuple | list):
        return [each for part in result for each in _parts(part)]
    return [result]


def _alike(found: Any, wanted: Any) -> bool:
    """Are the same values in the same places, tensors of one type and shape with the same bytes?"""
    if not isinstance(wanted, torch.Tensor):
        return bool(found == wanted)
    bytes_of = [each.contiguous().reshape(-1).view(torch.uint8) for each in (found, wanted)]
    return (found.dtype, found.shape) == (wanted.dtype, wanted.shape) and torch.equal(*bytes_of)


def _same(found: Any, wanted: Any) -> bool:
    return all(_alike(*each) for each in zip(_parts(found), _parts(wanted), strict=True))


def test_every_public_function_is_traced_or_says_why_not() -> None:
    for name in public_calls.FUNCTIONS:
        function = getattr(aiter_prebuilt, name)
        assert is_traced(function) is (name not in REASONS), name
    assert is_traced(type(aiter_prebuilt.tgemm).mm)


@pytest.mark.usefixtures("_gpu")
@pytest.mark.parametrize("name", COMPOSED)
def test_a_composed_function_compiles_to_the_calls_of_the_eager_one(
    seen: list[torch_kernels.NativeCall], name: str
) -> None:
    function, given, again = getattr(aiter_prebuilt, name), *(public_calls.arguments(name) for _ in range(2))
    seen.clear()
    wanted = function(**{key: torch_kernels.dispatched(each) for key, each in given.items()})
    eager = [*seen]
    seen.clear()
    with torch.no_grad():
        found = torch.compile(function, fullgraph=True, backend="aot_eager")(**again)
    assert seen == eager
    assert _same((found, *again.values()), (wanted, *given.values()))


@pytest.mark.usefixtures("_gpu")
@pytest.mark.parametrize("name", sorted(REASONS))
def test_a_function_that_no_graph_holds_says_why(name: str) -> None:
    function, words = getattr(aiter_prebuilt, name), public_calls.arguments(name)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        torch.compile(lambda: function(**words), fullgraph=True, backend="eager")()
    assert f"(reason: {REASONS[name]})" in str(caught.value)


def test_swap_blocks_runs_between_two_graphs() -> None:
    given = public_calls.arguments("swap_blocks")
    wanted = given["dst"].clone()
    wanted[1], wanted[3] = given["src"][0], given["src"][2]

    def run(src: Any, dst: Any, block_mapping: Any) -> Any:
        aiter_prebuilt.swap_blocks(src, dst, block_mapping)
        return dst + 1

    assert torch.equal(torch.compile(run, backend="eager")(**given), wanted + 1)


def test_the_guide_names_each_of_them_with_its_reason() -> None:
    page = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
    for name, reason in REASONS.items():
        assert f"`{name}`" in page and reason in page, name


@pytest.mark.usefixtures("_gpu")
def test_the_method_of_tgemm_compiles_to_the_calls_of_the_eager_one(
    seen: list[torch_kernels.NativeCall],
) -> None:
    given = {"inp": public_calls.numbers(4, 64), "weights": public_calls.numbers(8, 64)}
    for words in ({}, {"bias": torch.ones(8)}, {"otype": torch.float32}):
        seen.clear()
        whole = given | words
        wanted = aiter_prebuilt.tgemm.mm(
            **{key: torch_kernels.dispatched(each) for key, each in whole.items()}
        )
        eager = [*seen]
        seen.clear()
        run = torch.compile(
            lambda words: aiter_prebuilt.tgemm.mm(**words), fullgraph=True, backend="aot_eager"
        )
        found = run(whole)
        assert seen == eager and eager
        assert _same(found, wanted)
