"""Null pointers and absurd sizes given to modules, boxes and shared handles: each is an error code, and the process lives.

Pointers into the host's memory that are wild are trusted, as in any C library (docs/emulator.md): these tests stop before them.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from support.assembly import code_object
from support.hip import ADD_ONE
from support.hip_process import program

_PROGRAM = """
import ctypes, json, sys
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]
lib, rows = ctypes.CDLL(sys.argv[1]), {}
out, device = ctypes.c_void_p(), ctypes.c_void_p()
assert lib.hipMalloc(ctypes.byref(device), ctypes.c_size_t(4096)) == 0
host = ctypes.create_string_buffer(4096)
here = {"host": ctypes.addressof(host), "device": device.value}
for name, arguments in json.load(open(sys.argv[2])):
    given = []
    for each in arguments:
        if each is None:
            given.append(None)
        elif each == "out":
            given.append(ctypes.byref(out))
        elif isinstance(each, str):
            given.append(each.encode("latin-1"))
        elif isinstance(each, list):  # words of a struct
            given.append((ctypes.c_uint64 * len(each))(*(here.get(word, word) for word in each)))
        elif isinstance(each, dict):  # a handle, by value
            given.append(Handle(bytes.fromhex(each["handle"])))
        else:
            given.append(each)
    print(name, arguments, file=sys.stderr, flush=True)
    rows.setdefault(name, []).append(getattr(lib, name)(*given))
assert lib.hipMemcpy(device, host, ctypes.c_size_t(4096), 1) == 0  # the device works on
print(json.dumps(rows))
"""


def codes(tmp_path: Path, calls: list[tuple[str, list[Any]]]) -> dict[str, list[int]]:
    """The error code of each call of a process, by function."""
    listed = tmp_path / "calls.json"
    listed.write_text(json.dumps(calls))
    answer, _ = program(_PROGRAM, str(listed))
    found: dict[str, list[int]] = json.loads(answer)
    return found


def test_modules(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(code_object("gfx942", ADD_ONE))
    (tmp_path / "empty").write_bytes(b"")
    paths = [
        None,
        "",
        str(tmp_path),
        str(tmp_path / "none"),
        str(tmp_path / "empty"),
        "x" * 100_000,
        "/dev/null",
    ]
    calls: list[tuple[str, list[Any]]] = [("hipModuleLoad", ["out", path]) for path in paths]
    calls += [("hipModuleLoad", [None, str(image)]), ("hipModuleLoad", [None, None])]
    calls += [("hipModuleLoadData", each) for each in (["out", None], [None, None], [None, "\x7fELF"])]
    calls += [("hipModuleLoadDataEx", [*each, 0, None, None]) for each in (["out", None], [None, None])]
    calls += [("hipModuleUnload", [None]), ("hipModuleGetFunction", ["out", None, "kernel"])]
    calls += [("hipModuleGetFunction", [None, None, None])]
    found = codes(tmp_path, calls)
    assert all(code != 0 for each in found.values() for code in each), found


def _box(
    source: list[Any], target: list[Any], extent: list[int], kind: int, at: tuple[int, ...] = (0,) * 6
) -> list[Any]:
    """hipMemcpy3DParms: array, position and {pointer, pitch, width, height} of both, extent, direction."""
    return [0, *at[:3], *source, 0, *at[3:], *target, *extent, kind]


def test_boxes(tmp_path: Path) -> None:
    """Extents, pitches and places whose sums and products pass 64 bits, with one side in the device's memory."""
    most, half = (1 << 64) - 1, 1 << 63
    host, device = ["host", 64, 64, 8], ["device", 64, 64, 8]
    boxes = []
    for extent in itertools.product((1, 1 << 32, half, most), repeat=3):
        if extent != (1, 1, 1):
            boxes += [_box(host, device, [*extent], 1), _box(device, device, [*extent], 3)]
    for pitch in (0, 1, half, most):
        boxes += [
            _box(host, ["device", pitch, 64, most], [64, 8, 8], 1),
            _box(["device", pitch, 64, half], host, [64, 8, 8], 2),
        ]
    for place in range(3, 6):
        for far in (4096, half, most):
            at = [0] * 6
            at[place] = far
            boxes.append(_box(host, device, [64, 8, 8], 1, tuple(at)))
    boxes += [_box([0, 64, 64, 8], device, [64, 8, 8], 1), _box(host, [0, 64, 64, 8], [64, 8, 8], 1)]
    boxes += [_box([0, 0, 0, 0], [0, 0, 0, 0], [64, 1, 1], 4), _box(host, device, [64, 8, 8], 77)]
    calls: list[tuple[str, list[Any]]] = [("hipMemcpy3D", [each]) for each in boxes]
    calls += [("hipMemcpy3DAsync", [each, None]) for each in boxes]
    nothing = [("hipMemcpy3D", [None]), ("hipDrvMemcpy3D", [None]), ("hipMemcpy3DPeer", [None])]
    nothing += [
        (name, [None, None]) for name in ("hipMemcpy3DAsync", "hipDrvMemcpy3DAsync", "hipMemcpy3DPeerAsync")
    ]
    found = codes(tmp_path, calls + nothing)
    assert len(found["hipMemcpy3D"]) == len(boxes) + 1
    taken = [box for box, code in zip(boxes, found["hipMemcpy3D"], strict=False) if code == 0]
    assert not taken, [json.dumps(box) for box in taken]
    assert all(code != 0 for each in found.values() for code in each)


def test_shared_handles(tmp_path: Path) -> None:
    handles = [
        bytes(64),
        b"\xff" * 64,
        bytes(range(64)),
        b"/" * 64,
        b"../../../../etc/passwd".ljust(64, b"\0"),
    ]
    given = [{"handle": handle.hex()} for handle in handles]
    calls: list[tuple[str, list[Any]]] = [
        ("hipIpcOpenMemHandle", ["out", handle, flags]) for handle in given for flags in (0, 1, 0xFFFFFFFF)
    ]
    calls += [("hipIpcOpenMemHandle", [None, handle, 1]) for handle in given]
    calls += [("hipIpcOpenEventHandle", ["out", handle]) for handle in given]
    calls += [
        ("hipIpcCloseMemHandle", [None]),
        ("hipIpcGetMemHandle", [None, None]),
        ("hipIpcGetMemHandle", ["out", None]),
    ]
    found = codes(tmp_path, calls)
    assert all(code != 0 for each in found.values() for code in each), found
