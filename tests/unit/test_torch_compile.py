"""What torch.compile sees of the public functions: each traced to its operator, no graph break, and no cost to eager calls."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from support import call_tensors, torch_kernels  # noqa: E402

import aiter_prebuilt  # noqa: E402
from aiter_prebuilt import errors  # noqa: E402
from aiter_prebuilt.ops import _traced  # noqa: E402
from aiter_prebuilt.ops.generated import norm  # noqa: E402

BF16 = torch.bfloat16


@pytest.fixture(scope="module")
def library() -> Iterator[Any]:
    """The registrations, with the references as kernels for CPU tensors."""
    yield from torch_kernels.registered()


@pytest.fixture
def compiled(library: Any) -> Iterator[Any]:
    """torch.compile with nothing left over from another test."""
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
        f"aiter_prebuilt.{name}.default"
        for name in ("rms_norm", "gemm_a16w16", "silu_and_mul", "gemm_a16w16", "rmsnorm2d_fwd_with_add")
    ]


def _arguments(name: str) -> dict[str, Any]:
    """Arguments of a public function by name, in its own order: those of its first golden call."""
    call = next(call for call in call_tensors.small(torch_kernels.TARGET) if call.operator == name)
    return call_tensors.arguments(call)


@pytest.mark.usefixtures("_filled")
@pytest.mark.parametrize("name", torch_kernels.FUNCTIONS)
def test_every_function_is_traced_to_its_operator(compiled: Any, name: str) -> None:
    """By position, by keyword, and passed to torch.compile itself; and with the operator's own result."""
    graphs: list[Any] = []

    def keep(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    keywords = _arguments(name)
    parameters = list(inspect.signature(getattr(aiter_prebuilt, name)).parameters.values())
    last = max(place for place, parameter in enumerate(parameters) if parameter.name in keywords)
    args = [keywords.get(parameter.name, parameter.default) for parameter in parameters[: last + 1]]

    def by_position(*values: Any) -> Any:
        return getattr(aiter_prebuilt, name)(*values)

    def by_keyword(given: dict[str, Any]) -> Any:
        return getattr(aiter_prebuilt, name)(**given)

    with torch.no_grad():
        first = compiled(by_position, fullgraph=True, backend=keep)(*args)
        # afresh: some change a state in place and return what they read of it
        second = compiled(by_keyword, fullgraph=True, backend=keep)(_arguments(name))
        torch._dynamo.reset()
        third = compiled(getattr(aiter_prebuilt, name), fullgraph=True, backend=keep)(**_arguments(name))
    for graph in graphs:
        assert f"aiter_prebuilt.{name}.default" in {str(node.target) for node in graph.graph.nodes}
    assert len(graphs) == 3
    for results in zip(_flat(first), _flat(second), _flat(third), strict=True):
        for one, two in pairwise(results):
            # fmha_v3_fwd gives None for what it has not
            assert one is two is None or torch.equal(_bytes(one), _bytes(two))


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
    return [each for part in result for each in _flat(part)] if isinstance(result, tuple) else [result]


def test_traced_functions_have_the_eager_parameters() -> None:
    from aiter_prebuilt.tracing import generated

    for name in torch_kernels.FUNCTIONS:
        eager, traced = getattr(aiter_prebuilt, name), generated.TRACED[name]
        if hasattr(traced, "_schema"):
            found = [(each.name, each.default_value) for each in traced._schema.arguments]
        else:
            found = [(each.name, _default(each)) for each in inspect.signature(traced).parameters.values()]
        assert found == [(e.name, _default(e)) for e in inspect.signature(eager).parameters.values()], name


def _default(parameter: inspect.Parameter) -> Any:
    return None if parameter.default is parameter.empty else parameter.default


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
            "dropout_p": 0.5,
            "bias": 1,
            "alibi_slopes": 1,
            "cu_seqlens_q": 1,
            "cu_seqlens_kv": 1,
            "num_splits": 2,
        }.items()
    ),
]


@pytest.mark.parametrize(("name", "option"), REFUSED)
def test_options_are_refused_with_the_same_words(name: str, option: dict[str, Any]) -> None:
    from aiter_prebuilt.tracing import generated

    texts = []
    for function in (getattr(aiter_prebuilt, name), generated.TRACED[name]):
        parameters = inspect.signature(function).parameters.values()
        keywords = {each.name: torch.ones(2, 2) for each in parameters if each.default is each.empty}
        with pytest.raises(errors.UnsupportedError) as raised:
            function(**{**keywords, **option})
        texts.append(str(raised.value))
    assert texts[0] == texts[1]


def test_attention_refuses_gradients_in_a_trace_too() -> None:
    from aiter_prebuilt.tracing import generated

    q = torch.ones(1, 1, 1, 64, dtype=BF16, requires_grad=True)
    options = (0.0, 1.0, False, -1, -1, True, False)
    with pytest.raises(errors.UnsupportedError, match="no backward"):
        aiter_prebuilt.mha_fwd(q, q, q, *options)
    traced = torch._subclasses.fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)
    with traced, pytest.raises(errors.UnsupportedError, match=r"q requires a gradient.* no backward"):
        generated.TRACED["mha_fwd"](q, q, q, *options)


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
