"""The memo: a hit does what the slow path would have done, whatever changes between two calls."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from aiter_prebuilt import errors
from native.conftest import Blob, Serve, Stub, raw
from native.exchange import ROCM, GpuTensor
from native.synthetic import A, Op, R, S, T

X = 0x7F0000000000


def spec(blob: str) -> Op:
    """Two variants by alignment and divisibility; the arguments say which numbers were used."""
    args = ["ptr x", "ptr y", "i64 M", "i64 N", "i64 row", "i32 V", "i32 k", "f32 eps"]
    step = S("k", args, ["M", "cdiv(N, V)"])
    return Op(
        "m",
        [T("x", "T", ["*M", "N"], ["row", "1"]), T("y", "f32", ["N"], optional=True)],
        [A("k", "int", "0"), A("eps", "float", "0")],
        types={"T": ["bf16", "f32"]},
        recipes=[
            R(
                variant=f"{t}-{v}",
                types=(t,),
                constants={"V": v},
                steps=[step],
                cost=f"{-v}",
                when=[f"aligned(x, {v * 2})", f"N % {v} == 0 and row % {v} == 0"] if v > 1 else [],
                blob=blob,
            )
            for t in ("bf16", "f32")
            for v in (8, 1)
        ],
    )


def expected(x: GpuTensor, y: GpuTensor | None, k: int, eps: float) -> tuple[bytes, list[int]]:
    """What the kernel must get, worked out from the tensors alone."""
    shape, strides = list(x._shape[: x.tensor.ndim]), list(x._strides[: x.tensor.ndim])
    n, m = shape[-1], 1
    for size in shape[:-1]:
        m *= size
    row = next(
        (s for size, s in zip(reversed(shape[:-1]), reversed(strides[:-1]), strict=True) if size > 1), n
    )
    address = x.tensor.data + x.tensor.byte_offset
    v = 8 if address % 16 == 0 and n % 8 == 0 and row % 8 == 0 else 1
    kernargs = struct.pack("<QQqqqiif", address, y.tensor.data if y else 0, m, n, row, v, k, eps)
    return kernargs, [m, -(-n // v), 1]


def random_call(rng: random.Random) -> tuple[GpuTensor, GpuTensor | None, int, float]:
    n = rng.choice([8, 16, 24, 7])
    lead = rng.choice([(), (3,), (4,), (2, 2), (1, 4)])
    row = n + rng.choice([0, 8, 3])
    strides, step = [1], row
    for size in reversed(lead):
        strides.insert(0, step)
        step *= size
    x = GpuTensor(
        X + rng.choice([0, 16, 8, 4096]),
        rng.choice(["bf16", "f32"]),
        (*lead, n),
        tuple(strides),
        offset=rng.choice([0, 0, 4]),
    )
    y = GpuTensor(X + 64 * rng.randrange(1, 9), "f32", (n,)) if rng.random() < 0.5 else None
    return x, y, rng.choice([0, 5, -1]), rng.choice([0.0, 1.5])


@pytest.mark.parametrize("seed", range(3))
def test_random_calls_get_what_they_should(serve: Serve, stub: Stub, blob: Blob, seed: int) -> None:
    op = serve(spec(blob()))
    rng = random.Random(seed)
    for _ in range(1500):
        call = random_call(rng)
        op(*call)
        kernargs, grid = expected(*call)
        assert stub.kernargs() == kernargs and list(stub.launch().grid) == grid
    stats = op.stats()
    assert stats["calls"] == stats["launches"] == stub.launches() == 1500
    assert stats["memo_hits"] > 300 and 300 < stats["memo_size"] <= 1500 - stats["memo_hits"]


def test_addresses_and_floats_are_fresh_at_every_hit(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(spec(blob()))
    for i in range(5):
        x = GpuTensor(X + 4096 * i, "f32", (4, 8))
        op(x, None, 1, i / 2)
        assert stub.kernargs() == expected(x, None, 1, i / 2)[0]
    assert op.stats()["memo_hits"] == 4 and op.stats()["memo_size"] == 1


def test_more_shapes_than_it_holds(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(spec(blob()))
    shapes = [GpuTensor(X, "f32", (n, 8)) for n in range(1, 3000)]
    for _ in range(2):
        for x in shapes:
            op(x, None)
            assert stub.launch().grid[0] == x._shape[0]
    assert op.stats()["memo_size"] == 1024


def test_raw_tuples_and_exchange_tensors_share_entries(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(spec(blob()))
    op(raw(X, "f32", (4, 8)), None)
    op(GpuTensor(X + 256, "f32", (4, 8)), None)
    op(raw(X + 512, "f32", (4, 8)), None, stream=7)
    assert op.stats()["memo_hits"] == 2 and stub.launch().stream == 7


def test_every_part_of_the_key_counts(serve: Serve, stub: Stub, blob: Blob) -> None:
    """One change at a time: none may be served by another's entry."""
    op = serve(spec(blob()))
    base: dict[str, Any] = {
        "address": X,
        "kind": "f32",
        "shape": (4, 8),
        "strides": (8, 1),
        "k": 1,
        "y": None,
    }
    changes: list[dict[str, Any]] = [
        {},
        {"address": X + 4},
        {"kind": "bf16"},
        {"shape": (4, 16), "strides": (16, 1)},
        {"strides": (16, 1)},
        {"shape": (2, 2, 8), "strides": (16, 8, 1)},
        {"k": 2},
        {"y": GpuTensor(X, "f32", (8,))},
    ]
    for change in changes:
        c = {**base, **change}
        op(GpuTensor(c["address"], c["kind"], c["shape"], c["strides"]), c["y"], c["k"])
    assert op.stats()["memo_hits"] == 0 and op.stats()["memo_size"] == len(changes)


def two_by_alignment(multiple: int, kind: str, blob: str) -> Op:
    """Kernel ``a`` for addresses that are a multiple, ``b`` for the others."""
    recipes = [
        R(variant="a", when=[f"aligned(x, {multiple})"], steps=[S("a")], blob=blob),
        R(variant="b", steps=[S("b")], blob=blob),
    ]
    return Op("by_alignment", [T("x", kind, ["N"])], recipes=recipes)


def test_a_condition_on_more_than_16_bytes_is_part_of_the_key(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(two_by_alignment(256, "f32", blob()))
    for _ in range(2):
        for offset, symbol in ((0, b"a"), (16, b"b"), (128, b"b"), (256, b"a"), (512, b"a"), (240, b"b")):
            op(GpuTensor(X + offset, "f32", (4,)))
            assert stub.launch().symbol == symbol, offset


def test_a_condition_on_an_odd_divisor_is_part_of_the_key(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(two_by_alignment(48, "u8", blob()))
    for _ in range(2):
        for address in (48 * 1000, 48 * 1001, 48 * 1000 + 16, 48 * 1000 + 32):
            op(GpuTensor(address, "u8", (4,)))
            assert stub.launch().symbol == (b"a" if address % 48 == 0 else b"b")


def test_devices_do_not_share(serve: Serve, stub: Stub, blob: Blob) -> None:
    op = serve(spec(blob()))
    stub.set_devices(1)
    op(GpuTensor(X, "f32", (4, 8)), None)
    with pytest.raises(errors.NoDeviceError):
        op(GpuTensor(X, "f32", (4, 8), device=(ROCM, 3)), None)
    op(GpuTensor(X, "f32", (4, 8)), None)
    assert stub.launches() == 2 and op.stats()["memo_hits"] == 1


def test_too_large_for_a_key_still_works(serve: Serve, stub: Stub, blob: Blob) -> None:
    names = [f"t{i}" for i in range(40)]
    tensors = [T(name, "f32", ["*A", "B"], ["_", "_"]) for name in names]
    op = serve(
        Op("many", tensors, recipes=[R(steps=[S(args=[f"ptr {name}" for name in names])], blob=blob())])
    )
    args = [GpuTensor(X + 64 * i, "f32", (1,) * 14 + (3, 4)) for i in range(40)]
    for _ in range(2):
        op(*args)
        assert stub.kernargs() == struct.pack("<40Q", *[X + 64 * i for i in range(40)])
    assert op.stats() == {**op.stats(), "memo_hits": 0, "memo_size": 0, "launches": 2}


def test_a_stream_of_new_shapes_costs_the_slow_path_once_each_and_nothing_more(
    serve: Serve, stub: Stub, blob: Blob
) -> None:
    """Counts, not times: each call is judged once, launched once, and the memo stays where it is."""
    op = serve(spec(blob()))
    count = 8000
    for n in range(1, count + 1):
        op(GpuTensor(X, "f32", (n, 8)), None)
        assert op.stats()["memo_size"] <= 1024
    stats = op.stats()
    assert stats["memo_hits"] == 0 and stats["memo_size"] == 1024
    assert stats["selections"] == stats["calls"] == stats["launches"] == stub.launches() == count
    assert stub.loads() == 1


def test_a_hot_call_stays_in_a_stream_of_others(serve: Serve, stub: Stub, blob: Blob) -> None:
    """A full set forgets what was used longest ago: a call between each of 8,000 new ones is judged once."""
    op = serve(spec(blob()))
    hot = GpuTensor(X, "f32", (9000, 8))
    for n in range(1, 8001):
        op(hot, None)
        op(GpuTensor(X, "f32", (n, 8)), None)
    stats = op.stats()
    assert stats["selections"] == 8001 and stats["memo_hits"] == 7999
    assert stats["memo_size"] == 1024 and stub.loads() == 1


def memo_set(words: list[int]) -> int:
    """The set that memo.cpp puts a key into."""

    def fold(a: int, b: int) -> int:
        return (a * b & (1 << 64) - 1) ^ (a * b >> 64)

    value = 0x9E3779B97F4A7C15 ^ len(words)
    for i in range(0, len(words) - 1, 2):
        value = fold(words[i] ^ 0xBF58476D1CE4E5B9, words[i + 1] ^ value)
    if len(words) % 2:
        value = fold(words[-1] ^ 0x94D049BB133111EB, value ^ 0xD6E8FEB86659FD93)
    return fold(value ^ 0xA0761D6478BD642F, 0xE7037ED1A0B428DB) % 128


def test_shapes_chosen_to_share_one_set_evict_each_other_only(serve: Serve, stub: Stub, blob: Blob) -> None:
    """Whoever knows the hash can fill one set of eight; no chain grows behind it, and other calls keep their entries."""
    op = serve(Op("one", [T("x", "u8", ["N"])], recipes=[R(steps=[S("k", ["i64 N"])], blob=blob())]))
    head = 1 | 8 << 8 | 1 << 16 | 1 << 32 | 4 << 40 | ROCM << 48  # type, rank, alignment of 16 bytes, device
    sets = {n: memo_set([head, n, 1]) for n in range(1, 30_000)}
    crowd = [n for n, found in sets.items() if found == 5][:120]
    others = [next(n for n, found in sets.items() if found == wanted) for wanted in range(6, 100)]
    for n in others + crowd:
        op(GpuTensor(X, "u8", (n,)))
    assert op.stats()["memo_size"] == len(others) + 8 and op.stats()["memo_hits"] == 0
    for n in others + crowd[-8:]:
        op(GpuTensor(X, "u8", (n,)))
        assert stub.kernargs() == struct.pack("<q", n)
    assert op.stats()["memo_hits"] == len(others) + 8 and op.stats()["selections"] == len(others) + len(crowd)


def test_a_predicted_call_that_was_evicted_or_does_not_come(serve: Serve, stub: Stub, blob: Blob) -> None:
    """The memo guesses the next call from the last one's; a wrong guess must show in nothing."""
    op = serve(spec(blob()))
    a, b, c = (GpuTensor(X, "f32", (rows, 8)) for rows in (3, 4, 5))
    for x in (a, b, c, a, b, c, a, c, b, a, a, c, c, b, b):
        op(x, None)
        assert stub.launch().grid[0] == x._shape[0]
    assert op.stats()["selections"] == 3
    for rows in range(100, 5000):  # what followed `a` is gone from its slot
        op(GpuTensor(X, "f32", (rows, 8)), None)
    for x in (a, b, a, c, a, b):
        op(x, None)
        assert stub.launch().grid[0] == x._shape[0]


def test_a_launch_that_fails_on_a_hit_says_so_and_the_next_one_works(
    serve: Serve, stub: Stub, blob: Blob
) -> None:
    op = serve(spec(blob()))
    x = GpuTensor(X, "f32", (3, 8))
    op(x, None)
    stub.fault("launch", 719)
    with pytest.raises(errors.LaunchError) as caught:
        op(x, None)
    assert "719" in caught.value.found and "a grid of 3 x 1 x 1" in caught.value.found
    stub.fault("launch", 0)
    op(x, None)
    assert op.stats()["memo_hits"] == 2 and op.stats()["launches"] == stub.launches() == 2
