"""From a call to the driver: kernel arguments, grids, workspaces, several steps, streams, devices."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest

from aiter_prebuilt import errors
from native.conftest import Blob, Serve, Stub, raw
from native.synthetic import A, Op, R, S, T

X, OUT, RES = 0x7F0000000100, 0x7F0000200000, 0x7F0000400000


def norm(blob: str, **changes: Any) -> Op:
    """out, x [*M, N] with row strides, an optional residual, eps, flag, mode."""
    step = S(
        "norm_kernel",
        [
            "ptr out",
            "ptr x",
            "ptr res",
            "i32 N",
            "i64 row",
            "f32 eps",
            "i32 flag",
            "i32 mode",
            "f64 eps",
            "ptr null",
        ],
        ["M", "cdiv(N, BLOCK)"],
    )
    fields: dict[str, Any] = {
        "name": "norm",
        "tensors": [
            T("out", "T", ["*M", "N"], ["out_row", "1"], role="out"),
            T("x", "T", ["*M", "N"], ["row", "1"], align=4),
            T("res", "T", ["*M", "N"], optional=True),
        ],
        "attributes": [
            A("eps", "float"),
            A("flag", "bool", "false"),
            A("mode", "enum", "fast", ("slow", "fast")),
            A("k", "int", "-3"),
        ],
        "types": {"T": ["bf16", "f16"]},
        "recipes": [
            R(variant=t, types=(t,), steps=[step], constants={"BLOCK": 256}, blob=blob)
            for t in ("bf16", "f16")
        ],
    }
    return Op(**{**fields, **changes})


def test_arguments_lie_where_the_c_abi_puts_them(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(norm(blob()))
    assert (
        op(  # type: ignore[func-returns-value]  # that it returns nothing is what is asked
            raw(OUT, "bf16", (2, 3, 300), (900, 300, 1)),
            raw(X, "bf16", (2, 3, 300)),
            None,
            1e-5,
            True,
            "slow",
        )
        is None
    )
    launch = stub.launch()
    assert stub.launches() == 1 and launch.symbol == b"norm_kernel"
    assert list(launch.grid) == [6, 2, 1] and list(launch.block) == [256, 1, 1]
    assert launch.end_mark == 3 and launch.stream is None
    want = struct.pack("<QQQi4xqfiixxxxdQ", OUT, X, 0, 300, 300, 1e-5, 1, 0, 1e-5, 0)
    assert stub.kernargs() == want and launch.kernarg_size == len(want)


def test_defaults_of_attributes_and_given_tensors(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(norm(blob()))
    op(raw(OUT, "f16", (5, 64)), raw(X, "f16", (5, 64)), raw(RES, "f16", (5, 64)), 0.5)
    assert struct.unpack_from("<QQQ", stub.kernargs()) == (OUT, X, RES)
    assert struct.unpack_from("<fii", stub.kernargs(), 40) == (0.5, 0, 1)


def test_stream_keyword_is_what_the_driver_gets(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(norm(blob()))
    op(raw(OUT, "f16", (5, 64)), raw(X, "f16", (5, 64)), None, 0.5, stream=0x1234)
    assert stub.launch().stream == 0x1234
    with pytest.raises(errors.ArgumentCountError, match="keyword"):
        op(raw(OUT, "f16", (5, 64)), raw(X, "f16", (5, 64)), None, eps=0.5)  # type: ignore[call-arg]  # refused
    with pytest.raises(errors.ArgumentKindError, match="stream"):
        op(raw(OUT, "f16", (5, 64)), raw(X, "f16", (5, 64)), None, 0.5, stream="x")  # type: ignore[arg-type]  # refused
    assert stub.launches() == 1


def test_empty_tensors_launch_nothing_and_load_nothing(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(norm(blob()))
    op(raw(0, "f16", (0, 64)), raw(0, "f16", (0, 64)), None, 0.5)
    assert stub.launches() == 0 and stub.load_attempts() == 0


def test_steps_run_in_order_over_one_workspace(serve: Serve, stub: Stub, blob: Blob) -> None:
    first = S("partial", ["ptr x", "ptr workspace", "i32 N"], ["M"], (64, 1, 1), lds="N * 4")
    second = S("reduce", ["ptr workspace + M * 8", "ptr out", "i64 M * N - 1"], ["1", "1", "M"], (128, 2, 1))
    op = serve(
        Op("two", [T("x", "f32", ["M", "N"]), T("out", "f32", ["M"], role="out")],
           recipes=[R(workspace="M * N * 4", steps=[first, second], blob=blob())])
    )  # fmt: skip
    op(raw(X, "f32", (3, 100)), raw(OUT, "f32", (3,)))
    one, two = stub.launch(-2), stub.launch(-1)
    assert (one.symbol, two.symbol) == (b"partial", b"reduce")
    assert one.lds == 400 and list(two.grid) == [1, 1, 3] and list(two.block) == [128, 2, 1]
    base = struct.unpack_from("<Q", stub.kernargs(-2), 8)[0]
    assert base % 256 == 0 and struct.unpack("<QQq", stub.kernargs(-1)) == (base + 24, OUT, 299)
    assert (stub.mallocs(), stub.frees()) == (1, 1)
    assert stub.loads() == 1, "both steps are in one code object"


def test_nvidia_gets_its_end_mark_context_and_shared_memory(serve: Serve, stub: Stub, blob: Blob) -> None:
    step = S("k", ["ptr x"], lds="N")
    op = serve(
        Op("cuda", [T("x", "u8", ["N"])], recipes=[R(steps=[step], blob=blob())]),
        vendor=1,
        target="sm_90",
        lds_bytes=232448,
    )
    op(raw(X, "u8", (40000,), device=("nvidia", 0)))
    assert stub.launch().end_mark == 0 and stub.attributes() == 0
    op(raw(X, "u8", (100000,), device=("nvidia", 0)))
    assert stub.attributes() == 8_100_000 and stub.launch().lds == 100000


def test_driver_refusals_have_the_drivers_own_name(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(norm(blob()))
    stub.fault("launch", 209)
    with pytest.raises(
        errors.LaunchError, match=r"hipModuleLaunchKernel answered hipErrorNoBinaryForGpu \(209\).*5 x 1 x 1"
    ):
        op(raw(OUT, "f16", (5, 64)), raw(X, "f16", (5, 64)), None, 0.5)
    stub.fault("launch", 0)
    op(raw(OUT, "f16", (5, 64)), raw(X, "f16", (5, 64)), None, 0.5)
    assert stub.launches() == 1


def test_workspace_failure_launches_nothing(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(
        Op(
            "scratch",
            [T("x", "f32", ["N"])],
            recipes=[R(workspace="N", steps=[S(args=["ptr workspace"])], blob=blob())],
        )
    )
    stub.fault("malloc", 2)
    with pytest.raises(errors.LaunchError, match="allocate 64 bytes of workspace for scratch"):
        op(raw(X, "f32", (64,)))
    assert stub.launches() == 0 and stub.frees() == 0
    stub.fault("malloc", 0)
    op(raw(X, "f32", (64,)))
    assert stub.launches() == 1


def test_values_that_do_not_fit_are_refused(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(
        Op(
            "wide",
            [T("x", "u8", ["N"], ["s"])],
            [A("k", "int")],
            recipes=[R(steps=[S(args=["i32 k * 2"])], blob=blob())],
        )
    )
    x = raw(X, "u8", (4,), (1,))
    op(x, 2**30 - 1)
    assert struct.unpack("<i", stub.kernargs()) == (2**31 - 2,)
    for k in (2**30, -(2**30) - 1, 2**31, 2**62):  # a kernel reads four bytes as a signed number
        with pytest.raises(errors.NoKernelError, match="integer argument"):
            op(x, k)
    with pytest.raises(errors.ArgumentKindError, match="64 bits"):
        op(x, 2**63)
    assert stub.launches() == 1


def test_eight_bytes_of_an_integer_argument_are_all_passed(serve: Serve, stub: Stub, blob: Blob) -> None:
    """Strides and counts of large tensors are beyond four bytes, and offsets may be negative."""
    op = serve(
        Op(
            "long",
            [T("x", "u8", ["N"], ["s"])],
            [A("k", "int")],
            recipes=[R(steps=[S(args=["i64 k", "i64 k * 3", "i64 s"])], blob=blob())],
        )
    )
    for k, stride in ((2**40 + 5, 2**35 + 1), (-(2**33) - 7, 2**32), (-1, 2**31), (2**61, 1)):
        op(raw(X, "u8", (2,), (stride,)), k)
        assert struct.unpack("<qqq", stub.kernargs()) == (k, (k * 3 + 2**63) % 2**64 - 2**63, stride)


def test_a_byte_is_one_byte_and_has_no_sign(serve: Serve, stub: Stub, blob: Blob) -> None:
    """A byte beside a byte keeps what the other one is; more than a byte holds is no launch."""
    step = S(args=["u8 k", "u8 N == 2", "i32 -1", "u8 k // 2"])
    op = serve(
        Op("byte", [T("x", "u8", ["N"], ["s"])], [A("k", "int")], recipes=[R(steps=[step], blob=blob())])
    )
    for k in (0, 7, 128, 255):
        op(raw(X, "u8", (2,), (1,)), k)
        assert struct.unpack_from("<BBxxiB", stub.kernargs()) == (k, 1, -1, k // 2)
    launches = stub.launches()
    for k in (-1, 256, 2**32):
        with pytest.raises(Exception, match=r"an integer argument"):
            op(raw(X, "u8", (2,), (1,)), k)
    assert stub.launches() == launches


def test_computed_floats_see_dims_and_the_floats_of_each_call(serve: Serve, stub: Stub, blob: Blob) -> None:
    step = S(
        "norm_kernel",
        ["ptr x", "f32 1.5", "f32 1 / sqrt(N) * log2(e)", "f32 eps * N", "f64 eps / N", "f32 eps"],
        ["M"],
    )
    made = norm(blob(), recipes=[R(variant="bf16", types=("bf16",), steps=[step], blob=blob())])
    op = serve(made)
    for eps in (0.5, 0.25):  # the second call is remembered, and has its own number
        op(raw(OUT, "bf16", (2, 64)), raw(X, "bf16", (2, 64)), None, eps, True, "slow")
        found = struct.unpack_from("<Qfff4xdf", stub.kernargs())
        scale = struct.unpack("<f", struct.pack("<f", 1 / math.sqrt(64) * math.log2(math.e)))[0]
        assert found == (X, 1.5, scale, eps * 64, eps / 64, eps)


def test_a_computed_float_of_another_shape_is_computed_again(serve: Serve, stub: Stub, blob: Blob) -> None:
    step = S("norm_kernel", ["f32 N / 2"], ["M"])
    op = serve(norm(blob(), recipes=[R(variant="bf16", types=("bf16",), steps=[step], blob=blob())]))
    for size in (64, 96, 64):
        op(raw(OUT, "bf16", (2, size)), raw(X, "bf16", (2, size)), None, 1.0, True, "slow")
        assert struct.unpack_from("<f", stub.kernargs()) == (size / 2,)
