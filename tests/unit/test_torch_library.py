"""The operators in torch.library: schemas from the manifests, fake functions, opcheck, and the registered kernels."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from support import repository, torch_kernels  # noqa: E402

from aiter_prebuilt import errors  # noqa: E402
from aiter_prebuilt.contract import bytecode  # noqa: E402
from aiter_prebuilt.launch import dispatch  # noqa: E402
from aiter_prebuilt.tracing import signatures  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BF16 = torch.bfloat16


def _samples() -> list[Any]:
    torch.manual_seed(11)
    return [pytest.param(name, args, id=f"{name}-{label}") for name, label, args in torch_kernels.samples()]


def test_the_file_is_what_the_manifests_say() -> None:
    from build_tools.generate import signatures as generator

    assert (ROOT / generator.FILE).read_text() == generator.text(repository.manifest())


def test_every_function_with_a_kernel_is_registered() -> None:
    assert sorted(signatures.load()) == torch_kernels.FUNCTIONS == sorted(torch_kernels.KERNELS)


def test_a_file_that_cannot_be_read_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(signatures, "_FILE", tmp_path / "signatures.json")
    for content in (
        None,
        "{",
        json.dumps({"edition": 99}),
        json.dumps({"edition": 1, "operators": {"o": {}}}),
    ):
        signatures.load.cache_clear()
        if content is not None:
            (tmp_path / "signatures.json").write_text(content)
        with pytest.raises(errors.NativeError, match="force-reinstall"):
            signatures.load()
    signatures.load.cache_clear()


def test_schemas_mark_what_is_written() -> None:
    schemas = {name: signature.schema() for name, signature in signatures.load().items()}
    assert schemas["rms_norm"] == (
        "rms_norm(Tensor input, Tensor weight, float epsilon, int use_model_sensitive_rmsnorm=0) -> Tensor"
    )
    assert schemas["rmsnorm2d_fwd_with_add"] == (
        "rmsnorm2d_fwd_with_add(Tensor(a0!) out, Tensor input, Tensor residual_in, Tensor(a3!) residual_out, Tensor weight, "
        "float epsilon, bool gemma_norm=False, int use_model_sensitive_rmsnorm=0) -> ()"
    )
    assert schemas["reshape_and_cache"] == (
        "reshape_and_cache(Tensor key, Tensor value, Tensor(a2!) key_cache, Tensor(a3!) value_cache, Tensor slot_mapping, "
        "Tensor? k_scale, Tensor? v_scale, str kv_cache_dtype, bool asm_layout=False) -> ()"
    )
    assert schemas["gemm_a16w16"] == "gemm_a16w16(Tensor A, Tensor B, Tensor? bias=None) -> Tensor"
    assert schemas["gemm_a8w8_bpreshuffle"].endswith("Tensor w_scale, ScalarType? out_dtype=None) -> Tensor")


def test_a_compiler_may_not_change_strides(library: Any) -> None:
    """Kernels serve strided rows, so a graph must hand on the strides of the eager call and not only their order."""
    for name in torch_kernels.FUNCTIONS:
        tags = getattr(torch.ops.aiter_prebuilt, name).default.tags
        assert torch.Tag.needs_exact_strides in tags and torch.Tag.pt2_compliant_tag in tags, name


@pytest.mark.parametrize(("name", "args"), _samples())
def test_opcheck(library: Any, name: str, args: tuple[Any, ...]) -> None:
    """Schema (what is written, what aliases), fake against real, autograd registration, AOT with symbolic sizes."""
    operator = getattr(torch.ops.aiter_prebuilt, name).default
    torch.library.opcheck(operator, args, test_utils=torch_kernels.checks(args))
    torch_kernels.check_written(operator, args)


def test_writing_what_the_schema_does_not_mark_is_seen(library: Any) -> None:
    scratch = torch.library.Library("aiter_prebuilt_scratch", "FRAGMENT")
    scratch.define("sly(Tensor x, Tensor(a!) y) -> ()")
    scratch.impl("sly", lambda x, y: ((x if x.sum() > 2 else y).zero_(), None)[1], "CPU")
    sly = torch.ops.aiter_prebuilt_scratch.sly.default
    fp8 = torch_kernels.FP8
    torch_kernels.check_written(sly, (torch.ones(2), torch.ones(2).to(fp8)))
    with pytest.raises(AssertionError, match="x is written"):
        torch_kernels.check_written(sly, (torch.ones(4), torch.ones(4).to(fp8)))
    scratch._destroy()


def test_opcheck_would_see_a_wrong_fake(library: Any) -> None:
    """The check above can fail: an operator whose fake has another shape, and one that writes what its schema reads only."""
    scratch = torch.library.Library("aiter_prebuilt_scratch", "FRAGMENT")
    scratch.define("wide(Tensor x) -> Tensor")
    scratch.impl("wide", lambda x: x.clone(), "CPU")
    torch.library.register_fake(
        "aiter_prebuilt_scratch::wide", lambda x: x.new_empty(*x.shape, 1), lib=scratch
    )
    scratch.define("sly(Tensor x) -> ()")
    scratch.impl("sly", lambda x: (x.zero_(), None)[1], "CPU")
    torch.library.register_fake("aiter_prebuilt_scratch::sly", lambda x: None, lib=scratch)
    for name in ("wide", "sly"):
        with pytest.raises(Exception, match="opcheck"):
            torch.library.opcheck(getattr(torch.ops.aiter_prebuilt_scratch, name).default, (torch.ones(3),))
    scratch._destroy()


def test_a_fake_checks_what_a_trace_can_know(library: Any) -> None:
    ops = torch.ops.aiter_prebuilt
    x, weight = torch.ones(3, 64, dtype=BF16), torch.ones(64, dtype=BF16)
    wrong: dict[str, tuple[type[errors.ArgumentError], Callable[[], object]]] = {
        "must be N = 64, got 60": (errors.ArgumentShapeError, lambda: ops.rms_norm(x, weight[:60], 1e-6)),
        "dims": (errors.ArgumentShapeError, lambda: ops.softmax(x[0])),
        "2 . d": (errors.ArgumentShapeError, lambda: ops.silu_and_mul(x, x)),
        "Convert": (errors.ArgumentDTypeError, lambda: ops.rms_norm(x, weight.float(), 1e-6)),
        "bfloat16 or": (errors.ArgumentDTypeError, lambda: ops.rms_norm(x.int(), weight, 1e-6)),
        "one device": (errors.ArgumentDeviceError, lambda: ops.rms_norm(x, weight.to("meta"), 1e-6)),
    }
    with torch._subclasses.fake_tensor.FakeTensorMode(allow_non_fake_inputs=True):
        for text, (kind, call) in wrong.items():
            with pytest.raises(kind, match=text):
                call()
        made = ops.gemm_a8w8_bpreshuffle(
            torch.ones(5, 64).to(torch.float8_e4m3fnuz),
            torch.ones(32, 96).to(torch.float8_e4m3fnuz),
            torch.ones(5),
            torch.ones(1, 32),
            torch.float16,
        )
    assert made.shape == (5, 32) and made.dtype is torch.float16


#: Operators without a tensor that can ask for a gradient.
OF_INTEGERS = (
    "copy_blocks",
    "cp_gather_indexer_k_quant_cache",
    "gemm_a4w4",
    "get_mla_metadata_v1",
    "get_ps_metadata_v1",
    "moe_align_block_size",
    "mxfp4_moe_sort_hip",
    "peer_all_gather",
    "upcast_from_mxfp",
)


def _asking(args: tuple[Any, ...]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The arguments once for each tensor that can ask for a gradient, with that one asking."""
    for place, each in enumerate(args):
        if isinstance(each, torch.Tensor) and each.dtype.is_floating_point:
            yield place, (*args[:place], each.detach().clone().requires_grad_(), *args[place + 1 :])


@pytest.mark.parametrize(("name", "args"), _samples())
def test_a_fake_refuses_gradients_in_the_words_of_a_call(
    library: Any, name: str, args: tuple[Any, ...]
) -> None:
    operator = getattr(torch.ops.aiter_prebuilt, name).default
    mode = torch._subclasses.fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)
    found = list(_asking(args))
    if signatures.load()[name].detached:
        for _, asking in found:
            with mode:
                operator(*asking)
        return
    assert found or name in OF_INTEGERS, "all its tensors are of integers"
    for place, asking in found:
        with mode:
            with pytest.raises(errors.UnsupportedError, match="no backward") as fake:
                operator(*asking)
            with torch.no_grad():
                operator(*asking)
        with pytest.raises(errors.UnsupportedError) as real:
            dispatch.operator(name)(*[None] * place, asking[place])
        spec = signatures.load()[name].arguments[place]
        assert str(fake.value) == str(real.value)
        assert f"{spec.name} requires a gradient" in str(real.value)


def test_writing_counts_as_a_new_version(library: Any) -> None:
    """The registered kernel (not the references) says what it has written; here a native call that does nothing."""
    signature = signatures.load()["silu_and_mul"]
    original, library.operator = library.operator, lambda name: lambda *args: None
    try:
        kernel = library._kernel(signature)
    finally:
        library.operator = original
    out, x = torch.ones(2, 4), torch.ones(2, 8)
    kernel(out, x)
    assert out._version == 1 and x._version == 0
    with torch.inference_mode():
        kernel(torch.ones(2, 4), torch.ones(2, 8))


@pytest.mark.parametrize("name", sorted(n for n, s in signatures.load().items() if s.returns))
def test_the_registered_kernel_allocates_what_the_fake_promises(library: Any, name: str) -> None:
    signature, calls = signatures.load()[name], []
    original, library.operator = library.operator, lambda name: lambda *args: calls.append(args)
    try:
        kernel = library._kernel(signature)
    finally:
        library.operator = original
    for _, _, args in torch_kernels.samples(names=[name]):
        found, promised = kernel(*args), library._fake(signature)(*args)
        several = len(signature.returns) > 1
        made, wanted = (found, promised) if several else ((found,), (promised,))
        for one, other in zip(made, wanted, strict=True):
            assert one.shape == other.shape and one.dtype == other.dtype and one.is_contiguous()
        passed = calls.pop()
        tensors = len(signature.arguments)
        assert all(one is other for one, other in zip(passed[tensors:], made, strict=False))
        assert len(passed) == tensors + len(made) + len(signature.attributes)
        given = args[:tensors]
        assert all(
            one is two for one, two in zip(passed, (*given, *[None] * (tensors - len(given))), strict=False)
        )


def test_a_dim_that_is_computed() -> None:
    """No operator of the manifests returns one yet; the rules and the allocation know them."""
    from aiter_prebuilt.tracing import library, shapes

    tensor = signatures.Tensor
    signature = signatures.Signature(
        "packed",
        {"T": ("bf16",)},
        (
            tensor("x", "in", "T", True, ("M", "N"), False),
            tensor("out", "return", "f32", True, ("M", "cdiv(N, 32) + max(2, N % 3)"), False),
        ),
        (),
        ("x",),
        {},
        {},
    )
    x = torch.ones(2, 3, 65, dtype=BF16)
    made = library._allocator(signature, signature.returns[0])((x,))
    assert made.shape == (2, 3, 5) and made.dtype is torch.float32
    for text in ("N ** 2", "f(N)", "K + 1", "1.5"):
        with pytest.raises(ValueError, match="cannot be computed"):
            shapes.rule(text, shapes.symbols_of(signature))


def test_a_dim_is_read_off_an_argument_in_which_it_is_one_size() -> None:
    """A star stands for several sizes: a plain dim of that name is not read off it, nor a star off a plain dim."""
    from aiter_prebuilt.tracing import library

    tensor = signatures.Tensor
    arguments = (
        tensor("x", "in", "bf16", True, ("M", "N"), False),
        tensor("w", "in", "bf16", False, ("K", "M"), False),
    )
    x, w = torch.ones(2, 3, 5, dtype=BF16), torch.ones(4, 6, dtype=BF16)
    for star, dims, shape in (
        (False, ("M", "K"), (6, 4)),
        (True, ("M", "K"), (2, 3, 4)),
        (False, ("N", "M"), (5, 6)),
    ):
        out = tensor("out", "return", "bf16", star, dims, False)
        signature = signatures.Signature("made", {}, (*arguments, out), (), ("x", "w"), {}, {})
        assert library._allocator(signature, out)((x, w)).shape == shape


VECTORS = json.loads((ROOT / "tests" / "data" / "expressions.json").read_text())["vectors"]
#: What a dim can be: arithmetic on sizes; torch makes no symbol of a size 0.
ARITHMETIC = {"M", "N", "cdiv", "min", "max", "if", "else", "and"}
OVER_SIZES = [
    each
    for each in VECTORS
    if "value" in each
    and set(re.findall(r"[A-Za-z]\w*", each.get("text", "no text"))) <= ARITHMETIC
    and all(1 <= size < 2**32 for size in each["slots"][:2])
]


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_the_shared_vectors_with_torch_operations(vector: dict[str, Any]) -> None:
    from aiter_prebuilt.tracing.shapes import OPERATIONS

    code = bytes.fromhex(vector["code"])
    if "value" in vector:
        assert bytecode.evaluate(code, vector["slots"], OPERATIONS) == vector["value"]
    else:
        with pytest.raises(bytecode.ExpressionError, match=re.escape(vector["error"])):
            bytecode.evaluate(code, vector["slots"], OPERATIONS)


@pytest.mark.parametrize("vector", OVER_SIZES, ids=[vector["name"] for vector in OVER_SIZES])
def test_the_shared_vectors_over_symbolic_sizes(vector: dict[str, Any]) -> None:
    """The same text over sizes that torch traces with: what comes out is the vector's value for the vector's sizes."""
    from torch._dynamo.source import ConstantSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

    from aiter_prebuilt.tracing.shapes import rule

    shapes = ShapeEnv(specialize_zero_one=False)
    sizes: dict[str, Any] = {}
    for name, hint in zip(("M", "N"), vector["slots"], strict=False):
        source = ConstantSource(name)
        symbol = shapes.create_symbol(hint, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        sizes[name] = shapes.create_symintnode(symbol, hint=hint, source=source)
    found = rule(vector["text"], ("M", "N"))(sizes)
    assert int(found) == vector["value"]
    if vector["text"] in ("M + N", "cdiv(M, N)", "min(M, N, 2, 9)"):
        assert isinstance(found, torch.SymInt), "a size became a constant"


def test_enough_of_the_vectors_are_over_sizes() -> None:
    assert {"M * N", "M // N", "M % N", "cdiv(M, N)", "min(M, N, 2, 9)", "M if N else 7"} <= {
        vector["text"] for vector in OVER_SIZES
    }


def test_import_registers_nothing_and_loads_no_torch() -> None:
    code = (
        "import sys, aiter_prebuilt\n"
        "for name in aiter_prebuilt.__all__: getattr(aiter_prebuilt, name)\n"
        "assert 'torch' not in sys.modules and 'aiter_prebuilt.tracing.library' not in sys.modules\n"
        "import torch\n"
        "assert not hasattr(torch.ops.aiter_prebuilt, 'rms_norm')\n"
        "import aiter_prebuilt.tracing.library\n"
        "print(torch.ops.aiter_prebuilt.rms_norm.default._schema)\n"
    )
    assert torch_kernels.python(code).startswith("aiter_prebuilt::rms_norm(Tensor input")


def test_the_dispatcher_resolves_what_an_eager_call_cannot_see(library: Any) -> None:
    """DLPack has no bit for a negated view; torch's dispatcher materialises one before the kernel."""
    x, weight = torch.randn(3, 64).to(BF16), torch.ones(64, dtype=BF16)
    rms_norm = torch.ops.aiter_prebuilt.rms_norm
    negated = torch._neg_view(x)
    assert negated.is_neg() and negated.data_ptr() == x.data_ptr()
    assert torch.equal(rms_norm(negated, weight, 1e-6), rms_norm(-x, weight, 1e-6))
