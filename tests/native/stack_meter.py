"""How deep a function goes on the C stack: a thread whose stack is ours, painted before and looked at after.

``python -m native.stack_meter PART WAY EXTENSION STUB`` runs one part alone: what overflows a stack kills its process.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from support.small_stack import SMALLEST, in_thread

from native import exchange, synthetic
from native.conftest import load_extension
from native.synthetic import A, Op, R, S, T

PAINT = 0xA5
_LIBC = ctypes.CDLL(None)
_START = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
X, OUT = 0x7F0000000100, 0x7F0000200000


def depth(function: Callable[[], object], size: int = 1 << 20) -> int:
    """The bytes of C stack that ``function`` takes on a fresh thread, that thread's own part included."""
    stack = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    stack.write(bytes([PAINT]) * size)
    view = (ctypes.c_char * size).from_buffer(stack)
    failed: list[BaseException] = []

    def run(_: Any) -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001  # raised again by the caller
            failed.append(error)

    start, attributes, thread = _START(run), ctypes.create_string_buffer(64), ctypes.c_ulong()
    for status in (
        _LIBC.pthread_attr_init(attributes),
        _LIBC.pthread_attr_setstack(attributes, view, ctypes.c_size_t(size)),
        _LIBC.pthread_create(ctypes.byref(thread), attributes, start, None),
        _LIBC.pthread_join(thread, None),
    ):
        assert status == 0, status
    if failed:
        raise failed[0]
    painted = view.raw
    return size - next(i for i, byte in enumerate(painted) if byte != PAINT)


def operator(native: ModuleType, folder: Path) -> Any:
    """The largest signature that a bundle may have: 48 tensors, 48 attributes; two steps, workspace."""
    tensors = [T("out", "bf16", ["*M", "N"], ["r0", "1"], role="out")]
    tensors += [T(f"x{i}", "bf16", ["*M", "N"], [f"r{i}", "1"], optional=i > 1) for i in range(1, 48)]
    attributes = [A(f"k{i}", "float" if i % 8 == 0 else "int", "1") for i in range(48)]
    steps = [S("k", ["ptr out", "ptr x1", "ptr workspace", "i64 r1"], ["M"])] * 2
    recipes = [R(variant=f"v{i}", workspace="256", steps=steps, when=[f"N > {i}"]) for i in range(40)]
    path = folder / "stack.apb"
    path.write_bytes(synthetic.bundle_bytes([Op("o", tensors, attributes, recipes=recipes)], encoding="zstd"))
    return native.Operator("o", lambda *_: ((native.Bundle(str(path)),), 304))


def given(way: str, address: int, columns: int) -> Any:
    """A tensor as ``way`` brings it in."""
    if way == "raw":
        return (address, "bf16", (2, 3, columns), None, ("amd", 0))
    tensor = exchange.DeviceTensor(address, "bf16", (2, 3, columns))
    return exchange.Capsules(tensor)


def call(op: Any, way: str, columns: int = 64) -> None:
    """A call with every tensor given."""
    op(given(way, OUT, columns), *(given(way, X, columns) for _ in range(47)))


def measure(op: Any, way: str) -> None:
    """Print what each kind of call takes beyond an empty Python function."""
    empty = depth(lambda: None)
    for name, columns in (("cold", 64), ("hit", 64), ("miss", 128)):
        print(name, depth(partial(call, op, way, columns)) - empty)


def small(op: Any, way: str) -> None:
    """A first call, a hit, a miss and a refusal on the smallest stack that Python allows."""
    for columns in (64, 64, 128):
        in_thread(partial(call, op, way, columns), SMALLEST)
    try:
        in_thread(lambda: op(given(way, 0, 64), *(given(way, X, 64) for _ in range(47))), SMALLEST)
    except ValueError as error:
        print(type(error).__name__)
    print(op.stats()["launches"])


def endless(op: Any, way: str) -> None:
    """An argument that calls the operator again while it is read, on a thread with the usual 8 MiB."""

    def again(*_: Any, **__: Any) -> Any:
        op(*arguments)

    kind = type("Endless", (exchange.Capsules,) if way.startswith("__dlpack") else (), {way: again})
    mine = kind(exchange.DeviceTensor(X, "bf16", (2, 3, 64))) if way.startswith("__dlpack") else kind()
    good = given("raw", OUT, 64), given("raw", X, 64)
    arguments: list[Any] = [*good, *[None] * 46]
    if way == "__index__":
        arguments += [1.0, mine]
    elif way == "__float__":
        arguments += [mine]
    else:
        arguments[2] = mine
    for state in ("cold", "warm"):
        try:
            in_thread(lambda: op(*arguments), 8 << 20)
        except RecursionError as error:
            print(type(error).__name__, state)
        op(*good, *[None] * 46)
    print(op.stats()["launches"] // 2)


def main(words: list[str]) -> int:
    """Run one part."""
    part, way, extension, stub = words
    native = load_extension(Path(extension))
    for vendor in ("amd", "nvidia"):
        native.open_driver(vendor, stub)
    with tempfile.TemporaryDirectory() as folder:
        {"measure": measure, "small": small, "endless": endless}[part](operator(native, Path(folder)), way)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
