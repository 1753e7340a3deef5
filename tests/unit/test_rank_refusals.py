"""What a fused collective cannot take is refused by name on this rank before any rank waits, so that none is left waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import aiter_prebuilt
from aiter_prebuilt import CustomAllreduce
from aiter_prebuilt.errors import (
    ArgumentDTypeError,
    ArgumentKindError,
    ArgumentShapeError,
    ArgumentStrideError,
    UnsupportedError,
)
from aiter_prebuilt.execute.layout import dense
from aiter_prebuilt.ops import quick_all_reduce

torch: Any = pytest.importorskip("torch")
BF16 = torch.bfloat16
ROWS, COLUMNS = 6, 64
PLACE = ("amd", 0)


class Array(tuple[Any, ...]):
    """A tensor without a framework, of memory that nobody may touch."""

    __slots__ = ()

    def __new__(cls, shape: tuple[int, ...], kind: str = "bf16") -> Any:
        Array.next += 1 << 20
        return super().__new__(cls, (Array.next, kind, shape, dense(shape), PLACE))

    next = 1 << 30
    dtype = property(lambda self: self[1])
    shape = property(lambda self: self[2])
    device = property(lambda self: self[4])
    target = "gfx950"

    def new_empty(self, shape: tuple[int, ...], dtype: Any = None) -> Any:
        """Another one."""
        return Array(tuple(shape), self[1] if dtype is None else str(dtype).removeprefix("torch."))


class Blocks:
    """No rank may be waited for."""

    world, rank, region, capacity = 2, 0, 1 << 20, 1 << 20

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} before the refusal")


def tensor(shape: tuple[int, ...], kind: str = "bf16") -> Any:
    """One of torch's."""
    return torch.zeros(shape, dtype={"bf16": BF16, "f16": torch.float16, "f32": torch.float32}[kind])


@pytest.fixture(params=[tensor, Array], ids=["torch", "raw"])
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def ranks() -> CustomAllreduce:
    """One that met nobody."""
    made: Any = CustomAllreduce.__new__(CustomAllreduce)
    made.disabled, made.world_size, made._pool, made._most, made._least = False, 2, Blocks(), 1 << 20, 0
    made.close = lambda: None
    return made  # type: ignore[no-any-return]


WIDE, SAME = (ROWS, 2 * COLUMNS), (ROWS, COLUMNS)
#: What is given beside a matrix of 6 rows of 64 and its weight, each as (shape, type), and the refusal.
FUSED: dict[str, Any] = {
    "padded res_inp of one row": (ArgumentShapeError, {"res_inp": (1, COLUMNS), "out_hidden_dim": 128}),
    "padded res_inp of more columns": (ArgumentShapeError, {"res_inp": (ROWS, 96), "out_hidden_dim": 128}),
    "padded res_inp of a type": (ArgumentDTypeError, {"res_inp": (*SAME, "f16"), "out_hidden_dim": 128}),
    "padded out of one row": (ArgumentShapeError, {"out": (1, 128)}),
    "padded out of more rows": (ArgumentShapeError, {"out": (ROWS + 1, 128)}),
    "padded out of a type": (ArgumentDTypeError, {"out": (*WIDE, "f16")}),
    "padded res_out of one row": (ArgumentShapeError, {"res_out": (1, COLUMNS), "out_hidden_dim": 128}),
    "padded res_out of a type": (ArgumentDTypeError, {"res_out": (*SAME, "f16"), "out": WIDE}),
    "padded res_out as wide as out": (ArgumentShapeError, {"res_out": WIDE, "out": WIDE}),
    "w that is a matrix": (ArgumentShapeError, {"w": (1, COLUMNS), "out_hidden_dim": 128}),
    "w of a type": (ArgumentDTypeError, {"w": (COLUMNS, "f32")}),
    "res_inp of other rows": (ArgumentShapeError, {"res_inp": (ROWS - 1, COLUMNS)}),
    "res_out of other dims": (ArgumentShapeError, {"res_out": (1, ROWS, COLUMNS)}),
    "out that contradicts out_hidden_dim": (ArgumentShapeError, {"out": SAME, "out_hidden_dim": 128}),
    "out_hidden_dim of a text": (ArgumentKindError, {"out_hidden_dim": "128"}),
    "emit_bf16 without codes": (UnsupportedError, {"emit_bf16": True}),
    "scale_out without codes": (UnsupportedError, {"scale_out": (ROWS, 1, "f32")}),
    "eps of a text": (ArgumentKindError, {"eps": "1e-5"}),
    "no residual": (ArgumentKindError, {"res_inp": None}),
} | {
    f"scale_out {shape} with emit_bf16={emit}": (
        ArgumentShapeError, {"scale_out": (*shape, "f32"), "post_per_token_quant": True, "emit_bf16": emit}
    )
    for shape in ((1, 1), (2, 1), (5, 1), (12, 1), (6,))
    for emit in (False, True)
}  # fmt: skip


def filled(make: Callable[..., Any], value: Any) -> Any:
    """A tensor of a tuple of sizes, the last of which may be a type; any other value as it is."""
    if not isinstance(value, tuple):
        return value
    return make(value[:-1], value[-1]) if isinstance(value[-1], str) else make(value)


@pytest.mark.parametrize("what", FUSED)
def test_fused_norms_refuse_what_does_not_fit(
    ranks: CustomAllreduce, make: Callable[..., Any], what: str
) -> None:
    error, given = FUSED[what]
    words = {"res_inp": SAME, "w": (COLUMNS,), "eps": 1e-5} | given
    with pytest.raises(error):
        ranks.fused_ar_rms(make(SAME), **{name: filled(make, value) for name, value in words.items()})


def test_what_is_written_shares_memory_with_nothing(ranks: CustomAllreduce, make: Callable[..., Any]) -> None:
    x, residual, weight, out = make(SAME), make(SAME), make((COLUMNS,)), make(SAME)
    for words in ({"res_out": residual}, {"out": residual}, {"out": out, "res_out": out}):
        with pytest.raises(ArgumentStrideError, match="share memory"):
            ranks.fused_ar_rms(x, residual, w=weight, eps=1e-5, **words)


def test_strided_rows_that_are_written(ranks: CustomAllreduce) -> None:
    x, weight = tensor(SAME), tensor((COLUMNS,))
    for words in ({"out": tensor((ROWS, 256))[:, :128]}, {"res_out": tensor(WIDE)[:, :COLUMNS]}):
        with pytest.raises(ArgumentStrideError, match="out must be contiguous"):
            ranks.fused_ar_rms(x, tensor(SAME), w=weight, eps=1e-5, **words)


def test_norms_with_codes_refuse_a_residual(ranks: CustomAllreduce, make: Callable[..., Any]) -> None:
    x, weight = make(SAME), make((COLUMNS,))
    for method in (ranks.custom_fused_ar_rms_per_group_quant, ranks.custom_fused_ar_rms_mxfp4_quant):
        for residual, w in ((make((1, COLUMNS)), weight), (make(SAME), make((COLUMNS // 2,)))):
            extra = {"group_size": 64} if "group" in method.__name__ else {}
            with pytest.raises(ArgumentShapeError):
                method(x, residual, w, 1e-5, **extra)  # type: ignore[arg-type]


def test_mxfp4_wants_a_matrix_of_torchs(ranks: CustomAllreduce) -> None:
    raw: Any = Array
    with pytest.raises(ArgumentKindError, match="must be a torch tensor"):
        ranks.custom_fused_ar_rms_mxfp4_quant(raw(SAME), raw(SAME), raw((COLUMNS,)), 1e-5)
    cube = tensor((2, 3, COLUMNS))
    with pytest.raises(ArgumentShapeError, match="inp must be"):
        ranks.custom_fused_ar_rms_mxfp4_quant(cube, cube, tensor((COLUMNS,)), 1e-5)


@pytest.fixture
def communicator(monkeypatch: pytest.MonkeyPatch) -> int:
    made: Any = quick_all_reduce._Made(Blocks(), 1 << 20)  # type: ignore[arg-type]
    monkeypatch.setitem(quick_all_reduce._COMMUNICATORS, 77, made)
    return 77


def test_quick_norms_refuse_before_they_sum(communicator: int, make: Callable[..., Any]) -> None:
    names = ("inp", "residual_inp", "residual_out", "out")
    for changed, error in (
        ({"residual_out": "residual_inp"}, ArgumentStrideError),
        ({"out": "residual_inp"}, ArgumentStrideError),
        ({"out": "residual_out"}, ArgumentStrideError),
        ({"weight": make((COLUMNS // 2,))}, ArgumentShapeError),
        ({"weight": make((COLUMNS,), "f32")}, ArgumentDTypeError),
        ({"weight": None}, ArgumentKindError),
        ({"eps": "1"}, ArgumentKindError),
        ({"hidden_dim": 64.0}, ArgumentShapeError),
        ({"quant_level": 1.0}, UnsupportedError),
        ({"quant_level": "FP8"}, UnsupportedError),
    ):
        given: dict[str, Any] = {name: make(SAME) for name in names}
        given |= {"weight": make((COLUMNS,)), "eps": 1e-5, "hidden_dim": COLUMNS, "quant_level": 1}
        words: dict[str, Any] = dict(changed)
        given |= {
            name: given.get(value, value) if isinstance(value, str) else value
            for name, value in words.items()
        }
        with pytest.raises(error):
            aiter_prebuilt.qr_all_reduce_rmsnorm(communicator, **given)


@pytest.mark.parametrize("bound", [-5, 1.5, "a"])
def test_a_bound_that_is_no_number_of_bytes(bound: Any) -> None:
    with pytest.raises(ArgumentKindError, match="qr_max_size"):
        aiter_prebuilt.init_custom_qr(0, 2, qr_max_size=bound, device=PLACE)
    with pytest.raises(ArgumentKindError, match="rank"):
        aiter_prebuilt.init_custom_qr("a", 2, device=PLACE)  # type: ignore[arg-type]
