"""What torch.compile sees of the public functions: each traced to its operator, no graph break, and no cost to eager calls."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from support import call_tensors, torch_kernels  # noqa: E402

import aiter_prebuilt  # noqa: E402
from aiter_prebuilt import errors  # noqa: E402
from aiter_prebuilt.contract.gradients import DIFFERENTIABLE  # noqa: E402
from aiter_prebuilt.ops import _traced  # noqa: E402
from aiter_prebuilt.ops.generated import norm  # noqa: E402

BF16 = torch.bfloat16


@pytest.fixture(scope="module")
def seen() -> list[torch_kernels.NativeCall]:
    """The calls of kernels so far."""
    return []


@pytest.fixture(scope="module")
def library(seen: list[torch_kernels.NativeCall]) -> Iterator[Any]:
    """The registrations, with the references as kernels for CPU tensors."""
    yield from torch_kernels.registered(seen)


@pytest.fixture
def compiled(library: Any, seen: list[torch_kernels.NativeCall]) -> Iterator[Any]:
    """torch.compile with nothing left over from another test."""
    seen.clear()
    torch._dynamo.reset()
    yield torch.compile
    torch._dynamo.reset()


def _block(x: Any, residual: Any, gate_up: Any, down: Any, weight: Any) -> tuple[Any, Any]:
    """A small block as models have it: norm, product, gated activation, product, add and norm."""
    hidden = aiter_prebuilt.rms_norm(x, weight, 1e-6)
    both = aiter_prebuilt.gemm_a16w16(hidden, gate_up)
    gated = both.new_empty((*both.shape[:-1], both.shape[-1] // 2))
    aiter_prebuilt.silu_and_mul(gated, both)
    added = aiter_prebuilt.gemm_a16w16(gated, down)
    out, residual_out = torch.empty_like(x), torch.empty_like(x)
    aiter_prebuilt.rmsnorm2d_fwd_with_add(out, added, residual, residual_out, weight, 1e-6)
    return out, residual_out


def _by_references(x: Any, residual: Any, gate_up: Any, down: Any, weight: Any) -> tuple[Any, Any]:
    run = torch_kernels.KERNELS
    both = run["gemm_a16w16"](run["rms_norm"](x, weight, 1e-6), gate_up)
    gated = both.new_empty((*both.shape[:-1], both.shape[-1] // 2))
    run["silu_and_mul"](gated, both)
    out, residual_out = torch.empty_like(x), torch.empty_like(x)
    run["rmsnorm2d_fwd_with_add"](out, run["gemm_a16w16"](gated, down), residual, residual_out, weight, 1e-6)
    return out, residual_out


def _inputs(rows: int) -> list[Any]:
    shapes = ((rows, 64), (rows, 64), (128, 64), (64, 64), (64,))
    return [torch.randn(*shape).to(BF16) for shape in shapes]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_block_compiles_without_a_graph_break(compiled: Any, backend: str, dynamic: bool) -> None:
    run = compiled(_block, fullgraph=True, backend=backend, dynamic=dynamic)
    for rows in (3, 5):
        inputs = _inputs(rows)
        for found, wanted in zip(run(*inputs), _by_references(*inputs), strict=True):
            assert torch.equal(found, wanted)


def test_the_graph_has_the_operators_and_nothing_of_the_eager_path(compiled: Any) -> None:
    graphs = []

    def keep(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled(_block, fullgraph=True, backend=keep)(*_inputs(3))
    names = [str(node.target) for node in graphs[0].graph.nodes if "aiter_prebuilt" in str(node.target)]
    assert len(graphs) == 1 and names == [
        f"aiter_prebuilt.{name}"
        for name in (
            "rms_norm.out", "gemm_a16w16.out", "silu_and_mul.default", "gemm_a16w16.out",
            "rmsnorm2d_fwd_with_add.default",
        )
    ]  # fmt: skip


def _arguments(name: str) -> dict[str, Any]:
    """Arguments of a public function by name, in its own order: those of its first golden call."""
    call = next(call for call in call_tensors.small(torch_kernels.TARGET) if call.operator == name)
    return call_tensors.arguments(call)


#: Modules of ``ops`` with functions that have an operator.
HOMES = sorted(set(aiter_prebuilt.ops.HOMES.values()))


@pytest.mark.usefixtures("_filled")
@pytest.mark.parametrize("home", HOMES)
def test_a_compiled_function_makes_the_native_calls_of_the_eager_one(
    compiled: Any, seen: list[torch_kernels.NativeCall], home: str
) -> None:
    """Each function of a module, passed to torch.compile itself: the same calls, results and written tensors."""
    for name in [name for name, its in aiter_prebuilt.ops.HOMES.items() if its == home]:
        function = getattr(aiter_prebuilt, name)
        given = _arguments(name)
        wanted = function(**{key: torch_kernels.dispatched(each) for key, each in given.items()})
        eager, again = [*seen], _arguments(name)
        assert name in {operator for operator, _ in eager}
        seen.clear()
        with torch.no_grad():
            found = compiled(function, fullgraph=True, backend="aot_eager")(**again)
        assert seen == eager, name
        seen.clear()
        _same_bytes(name, (wanted, *given.values()), (found, *again.values()))


def _same_bytes(name: str, wanted: Any, found: Any) -> None:
    for one, two in zip(_flat(wanted), _flat(found), strict=True):
        if isinstance(one, torch.Tensor):
            assert torch.equal(_bytes(one), _bytes(two)), name
        else:
            assert one == two, name


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_codes_and_scales_are_written_through_the_bytes_of_a_trace(
    compiled: Any, backend: str, dynamic: bool
) -> None:
    """As fused_moe has them: the result is made, written as bytes, and cut into codes and fp32 scales."""

    def stage(
        input: Any, w1: Any, w2: Any, ids: Any, blocks: Any, valid: Any, scale: Any, scales: Any
    ) -> Any:
        tokens = input.shape[0]
        out = torch.empty(tokens + (tokens * 4 + 127) // 128, 2, 128, dtype=torch_kernels.FP8)
        words = {"quant_type": 4, "a1_scale": scale, "w1_scale": scales}
        aiter_prebuilt.moe_stage1_g1u1(input, w1, w2, ids, blocks, valid, out, 128, "", 32, **words)
        behind = out[tokens:].view(-1)[: tokens * 2 * 128 * 4 // 128].view(torch.float32)
        return out[:tokens].view(torch.uint8), behind.view(tokens, -1)

    run = compiled(stage, fullgraph=True, backend=backend, dynamic=dynamic)
    for tokens in (3, 5):
        shapes = ((tokens, 512), (1, 256, 512), (1, 512, 128))
        given = [torch.zeros(shape, dtype=torch.uint8).view(torch_kernels.FP8) for shape in shapes]
        ids = torch.full((32,), 2 << 24 | tokens, dtype=torch.int32)
        ids[:tokens] = torch.arange(tokens)
        lists = (ids, torch.zeros(1, dtype=torch.int32), torch.tensor([32, tokens], dtype=torch.int32))
        scales = (torch.ones(4, tokens), torch.ones(1, 2, 4))
        plain = torch.full((tokens + 1, 2, 128), 9, dtype=torch.uint8)
        options = (None, 128, 32, 0, 4)
        torch_kernels.KERNELS["moe_stage1_g1u1"](*given, *lists, plain, *scales, *options)
        codes, found = run(*given, *lists, *scales)
        assert codes.shape == (tokens, 2, 128) and found.shape == (tokens, 2)
        assert torch.equal(codes[:, 0], plain[:tokens, 0])
        assert torch.equal(
            found[:, 0], plain[tokens:].view(-1)[: tokens * 8].view(torch.float32).view(tokens, 2)[:, 0]
        )


def _bytes(tensor: Any) -> Any:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


@pytest.fixture
def _filled() -> Iterator[None]:
    """What is allocated and not written is NaN: mla_decode_fwd returns its parts, of which a call may leave some."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def _flat(result: Any) -> list[Any]:
    """What a function gave, also what stands in a tuple of its tuple."""
    parts = result if isinstance(result, tuple | list) else ()
    return [each for part in parts for each in _flat(part)] if isinstance(result, tuple | list) else [result]


def test_dynamo_traces_the_code_of_the_eager_function() -> None:
    from aiter_prebuilt.tracing import functions

    for name in set(torch_kernels.FUNCTIONS) - set(DIFFERENTIABLE):
        traced, eager = (
            inspect.unwrap(each) for each in (functions.TRACED[name], getattr(aiter_prebuilt, name))
        )
        assert traced.__code__ is eager.__code__, name


def test_every_replaced_function_exists() -> None:
    from aiter_prebuilt.tracing.functions import REPLACED

    for module, name in REPLACED:
        assert callable(getattr(import_module(module), name))


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("rms_norm", {"use_model_sensitive_rmsnorm": 2}),
    ("rmsnorm2d_fwd", {"use_model_sensitive_rmsnorm": 2}),
    ("rmsnorm2d_fwd_with_add", {"use_model_sensitive_rmsnorm": 2}),
    ("gemm_a16w16", {"scale_a": 1}),
    ("gemm_a16w16", {"scale_b": 1}),
    ("gemm_a16w16", {"scale_c": 1}),
    ("gemm_a16w16", {"otype": torch.float64}),
    ("gemm_a8w8_bpreshuffle", {"bias": 1}),
    ("gemm_a8w8_bpreshuffle", {"check": True}),
    ("topk_gating", {"score_func": "tanh"}),
    *(
        ("flash_attn_func", {option: value})
        for option, value in {
            "bias": 1,
            "alibi_slopes": 1,
            "cu_seqlens_q": 1,
            "cu_seqlens_kv": 1,
            "num_splits": 2,
        }.items()
    ),
]


@pytest.mark.parametrize(("name", "option"), REFUSED)
def test_a_compiled_call_refuses_an_option_in_the_words_of_the_eager_one(
    compiled: Any, name: str, option: dict[str, Any]
) -> None:
    function = getattr(aiter_prebuilt, name)
    parameters = inspect.signature(function).parameters.values()
    keywords = {each.name: torch.ones(2, 2) for each in parameters if each.default is each.empty} | option
    with pytest.raises(errors.UnsupportedError) as eager:
        function(**keywords)
    with pytest.raises(errors.UnsupportedError) as traced:
        compiled(function, backend="eager")(**keywords)
    assert str(eager.value) == str(traced.value)


def test_attention_refuses_gradients_of_fake_tensors_too() -> None:
    q = torch.ones(1, 1, 1, 64, dtype=BF16, requires_grad=True)
    options = (0.0, 1.0, False, -1, -1, True, False)
    with pytest.raises(errors.UnsupportedError, match="no backward"):
        aiter_prebuilt.mha_fwd(q, q, q, *options)
    with torch._subclasses.fake_tensor.FakeTensorMode():
        fake = torch.ones(1, 1, 1, 64, dtype=BF16, requires_grad=True)
    with pytest.raises(errors.UnsupportedError, match=r"q requires a gradient.* no backward"):
        aiter_prebuilt.mha_fwd(fake, fake, fake, *options)


@pytest.mark.parametrize("tracing_mode", ["fake", "symbolic"])
def test_make_fx_records_public_functions(library: Any, tracing_mode: Any) -> None:
    """Without Dynamo: the graph has the operators, and gives what they give for other sizes."""
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(_block, tracing_mode=tracing_mode)(*_inputs(3))
    names = [str(node.target) for node in graph.graph.nodes if "aiter_prebuilt" in str(node.target)]
    assert names == [
        f"aiter_prebuilt.{name}"
        for name in (
            "rms_norm.out", "gemm_a16w16.out", "silu_and_mul.default", "gemm_a16w16.out",
            "rmsnorm2d_fwd_with_add.default",
        )
    ]  # fmt: skip
    inputs = _inputs(5 if tracing_mode == "symbolic" else 3)
    for found, wanted in zip(graph(*inputs), _by_references(*inputs), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")  # mla_decode_stage1_asm_fwd
@pytest.mark.parametrize("home", HOMES)
def test_public_functions_take_fake_tensors(
    compiled: Any, seen: list[torch_kernels.NativeCall], home: str
) -> None:
    """On no device, with the shapes, types and strides of the eager results."""
    for name in [name for name, its in aiter_prebuilt.ops.HOMES.items() if its == home]:
        function, given = getattr(aiter_prebuilt, name), _arguments(name)
        mode = torch._subclasses.fake_tensor.FakeTensorMode()
        fake = {
            key: mode.from_tensor(each) if isinstance(each, torch.Tensor) else each
            for key, each in given.items()
        }
        with mode, torch.no_grad():
            found = function(**fake)
        assert not seen
        wanted = function(**{key: torch_kernels.dispatched(each) for key, each in given.items()})
        seen.clear()
        for one, two in zip(_flat(wanted), _flat(found), strict=True):
            if isinstance(one, torch.Tensor):
                assert (one.shape, one.dtype, one.stride()) == (two.shape, two.dtype, two.stride()), name
            else:
                assert one == two, name


def test_gradients_are_refused_however_a_call_comes() -> None:
    """Eager, by torch.ops, and compiled with or without a graph break; under no_grad the next check has its say (CPU tensors)."""
    code = (
        "import aiter_prebuilt, torch\n"
        "from aiter_prebuilt import errors\n"
        "w = torch.ones(64, dtype=torch.bfloat16)\n"
        "x = torch.ones(2, 64, dtype=torch.bfloat16, requires_grad=True)\n"
        "eager = lambda: aiter_prebuilt.rms_norm(x, w, 1e-6)\n"
        "broken = torch.compile(eager, backend='eager')\n"
        "whole = torch.compile(eager, backend='eager', fullgraph=True)\n"
        "import aiter_prebuilt.tracing.library\n"
        "by_ops = lambda: torch.ops.aiter_prebuilt.rms_norm(x, w, 1e-6)\n"
        "for call in (eager, by_ops, broken, whole):\n"
        "    for guard in (torch.enable_grad(), torch.no_grad(), torch.inference_mode()):\n"
        "        try:\n"
        "            with guard: call()\n"
        "        except errors.AiterPrebuiltError as error: print(type(error).__name__, end=' ')\n"
        "        except torch._dynamo.exc.Unsupported as error: print(type(error.__cause__).__name__, end=' ')\n"
        "    print()\n"
    )
    each = "UnsupportedError ArgumentDeviceError ArgumentDeviceError"
    assert [line.strip() for line in torch_kernels.python(code).splitlines()] == [each] * 4


def test_without_kernels_for_the_device_the_error_is_ours() -> None:
    """A traced call on CPU tensors ends in the error of the eager call, not in the dispatcher's list of backends."""
    code = (
        "import aiter_prebuilt, torch\n"
        "from aiter_prebuilt import errors\n"
        "x = torch.ones(2, 64, dtype=torch.bfloat16)\n"
        "f = torch.compile(lambda: aiter_prebuilt.rms_norm(x, x[0], 1e-6), backend='eager', fullgraph=True)\n"
        "for call in (f, lambda: torch.ops.aiter_prebuilt.rms_norm(x, x[0], 1e-6)):\n"
        "    try: call()\n"
        "    except errors.ArgumentDeviceError as error: print(error)\n"
    )
    lines = torch_kernels.python(code).splitlines()
    assert len(lines) == 2 and all("Move the tensors to the GPU" in line for line in lines)


def test_sizes_that_only_the_run_knows(compiled: Any) -> None:
    """A data-dependent number of rows: the fake asks torch to check, and asks for no hint."""

    def run(x: Any, weight: Any, keep: Any) -> Any:
        return aiter_prebuilt.rms_norm(x[keep.nonzero()[:, 0]], weight, 1e-6)

    x, weight = torch.randn(6, 64).to(BF16), torch.ones(64, dtype=BF16)
    keep = torch.tensor([1, 0, 1, 1, 0, 0])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        found = compiled(run, fullgraph=True, backend="aot_eager")(x, weight, keep)
    assert found.shape == (3, 64)


def test_eager_calls_go_around_the_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function that runs is the one of ops/: same code object, no wrapper, no question whether something is tracing."""
    function = norm.rms_norm
    assert inspect.isfunction(function) and not hasattr(function, "__wrapped__")
    names = {*function.__code__.co_names, *function.__code__.co_freevars}
    assert not names & {"is_compiling", "torch", "generated"} and "_rms_norm" in names
    seen = []
    monkeypatch.setattr(norm, "_rms_norm", lambda *args: seen.append(args))
    x = torch.ones(2, 8)
    out = function(x, x[0], 1e-6)
    assert len(seen) == 1 and seen[0][0] is x and seen[0][2] is out and seen[0][3] == 1e-6


def test_marking_a_function_changes_nothing_else() -> None:
    def plain(x: int) -> int:
        return x

    assert _traced.traced(plain) is plain and plain(3) == 3
