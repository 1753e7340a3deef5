"""The C API of the embedded device: devices, contexts, errors, entry points."""

from __future__ import annotations

import ctypes
import json
import re
import threading
from pathlib import Path

import pytest
from support.emulator import library
from support.hip import (
    EMULATOR,
    INVALID_DEVICE,
    INVALID_VALUE,
    NOT_FOUND,
    SUCCESS,
    call,
    code,
    exported_names,
    handle,
    number,
    size,
)  # fmt: skip
from support.hip_process import program

ERROR_ROWS = re.findall(
    r"^X\((\w+), (\d+), \"(.*)\"\)$",
    (EMULATOR / "hip" / "errors.inc").read_text(encoding="utf-8"),
    re.MULTILINE,
)
EXPORTS = (EMULATOR / "exports.map").read_text(encoding="utf-8")
NAMES = exported_names()
PROPERTIES = 1472


# --- devices ------------------------------------------------------------------------------------------------


def properties() -> bytes:
    raw = ctypes.create_string_buffer(PROPERTIES)
    call("hipGetDevicePropertiesR0600", raw, 0)
    return raw.raw


def field(raw: bytes, at: int, width: int = 4) -> int:
    return int.from_bytes(raw[at : at + width], "little")


def text(raw: bytes, at: int) -> str:
    return raw[at : raw.index(b"\0", at)].decode()


def test_versions() -> None:
    call("hipInit", 0)
    assert code("hipInit", 1) == INVALID_VALUE
    assert number("hipDriverGetVersion") == number("hipRuntimeGetVersion") // 100000 * 100000 == 70200000


#: hipDeviceAttribute_t and where hipDeviceProp_tR0600 has the same number: offset, bytes.
ATTRIBUTES = {
    5: (348, 4), 19: (616, 4), 23: (360, 4), 26: (324, 4), 29: (336, 4), 31: (344, 4), 56: (320, 4), 57: (624, 4), 59: (612, 4),
    60: (608, 4), 61: (364, 4), 63: (388, 4), 67: (584, 4), 71: (304, 4), 74: (296, 8), 75: (696, 8), 87: (308, 4),
}  # fmt: skip


def test_attributes_agree_with_the_properties() -> None:
    raw = properties()
    got = {key: number("hipDeviceGetAttribute", key, 0) for key in ATTRIBUTES}
    assert got == {key: field(raw, at, width) for key, (at, width) in ATTRIBUTES.items()}
    assert got[87] == 64 and got[56] == 1024 and got[74] == 65536
    for unknown in (-1, 21, 64, 86, 92, 9999, 10001, 10021, 1 << 30):
        assert code("hipDeviceGetAttribute", ctypes.byref(ctypes.c_int()), unknown, 0) == INVALID_VALUE


def test_both_layouts_of_the_properties() -> None:
    """The plain symbol is HIP 5's layout, and hipGetProcAddress gives the one of the version that is asked for."""
    new, old = properties(), ctypes.create_string_buffer(2048)
    call("hipGetDeviceProperties", old, 0)
    assert text(new, 0) == text(old.raw, 0) == "AMD Instinct MI300X"
    assert text(new, 1160) == text(old.raw, 396) == "gfx942:sramecc+:xnack-"
    assert field(new, 288, 8) == field(old.raw, 256, 8)
    addresses = []
    for version in (50700000, 60000000, 70100000):
        out = ctypes.c_void_p()
        call(
            "hipGetProcAddress",
            b"hipGetDeviceProperties",
            ctypes.byref(out),
            version,
            ctypes.c_uint64(0),
            None,
        )
        addresses.append(out.value)
    assert addresses[0] != addresses[1] == addresses[2]


def test_names_and_numbers_of_a_device() -> None:
    name, bus, identity = (
        ctypes.create_string_buffer(64),
        ctypes.create_string_buffer(16),
        ctypes.create_string_buffer(16),
    )
    call("hipDeviceGetName", name, 64, 0)
    assert name.value == b"AMD Instinct MI300X"
    call("hipDeviceGetPCIBusId", bus, 16, 0)
    assert re.fullmatch(rb"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0", bus.value)
    assert number("hipDeviceGetByPCIBusId", bus) == 0
    assert code("hipDeviceGetByPCIBusId", ctypes.byref(ctypes.c_int()), b"0000:ff:1f.0") == INVALID_VALUE
    call("hipDeviceGetUuid", identity, 0)
    assert any(identity.raw)
    major, minor = ctypes.c_int(), ctypes.c_int()
    call("hipDeviceComputeCapability", ctypes.byref(major), ctypes.byref(minor), 0)
    assert (major.value, minor.value) == (9, 4)
    assert number("hipDeviceTotalMem", 0, kind=ctypes.c_size_t) == field(properties(), 288, 8)
    for bad in (-1, 64):
        assert (
            code("hipSetDevice", bad)
            == code("hipDeviceGet", ctypes.byref(ctypes.c_int()), bad)
            == INVALID_DEVICE
        )


_DEVICES = """
import ctypes, json, sys
lib, rows = ctypes.CDLL(sys.argv[1]), []
count = ctypes.c_int()
assert lib.hipGetDeviceCount(ctypes.byref(count)) == 0
for device in range(count.value):
    raw = ctypes.create_string_buffer(1472)
    assert lib.hipGetDevicePropertiesR0600(raw, device) == 0
    read = lambda at, width=4: int.from_bytes(raw.raw[at:at + width], "little")
    rows.append([raw.value.decode(), raw.raw[1160:].split(b"\\0")[0].decode(), read(388), read(296, 8), read(288, 8)])
assert lib.hipSetDevice(1) == 0
a, b, peer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
assert lib.hipMalloc(ctypes.byref(a), ctypes.c_size_t(64)) == 0
assert lib.hipSetDevice(0) == 0
assert lib.hipMalloc(ctypes.byref(b), ctypes.c_size_t(64)) == 0
data, back, kind = bytes(range(64)), ctypes.create_string_buffer(64), ctypes.c_int()
assert lib.hipMemcpy(a, data, ctypes.c_size_t(64), 4) == 0
assert lib.hipMemcpyPeer(b, 0, a, 1, ctypes.c_size_t(64)) == 0
assert lib.hipMemcpy(back, b, ctypes.c_size_t(64), 4) == 0 and back.raw == data
assert lib.hipPointerGetAttribute(ctypes.byref(kind), 9, a) == 0 and kind.value == 1
assert lib.hipDeviceCanAccessPeer(ctypes.byref(peer), 0, 1) == 0 and peer.value == 1
codes = [lib.hipDeviceEnablePeerAccess(1, 0), lib.hipDeviceEnablePeerAccess(1, 0), lib.hipDeviceDisablePeerAccess(1)]
codes += [lib.hipDeviceDisablePeerAccess(1), lib.hipDeviceEnablePeerAccess(0, 0), lib.hipDeviceEnablePeerAccess(9, 0)]
print(json.dumps([rows, codes]))
"""


def test_several_devices() -> None:
    out, _ = program(_DEVICES, devices="gfx942,gfx950:memory=1G,gfx942:cus=80:memory=2G")
    rows, codes = json.loads(out)
    assert [row[:4] for row in rows] == [
        ["AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 304, 65536],
        ["AMD Instinct MI355X", "gfx950:sramecc+:xnack-", 256, 163840],
        ["AMD Instinct MI308X", "gfx942:sramecc+:xnack-", 80, 65536],
    ]
    assert [row[4] for row in rows[1:]] == [1 << 30, 2 << 30]
    assert codes == [SUCCESS, 704, SUCCESS, 705, INVALID_DEVICE, INVALID_DEVICE]


def test_contexts() -> None:
    primary, made, current = handle("hipDevicePrimaryCtxRetain", 0), ctypes.c_void_p(), ctypes.c_void_p()
    flags, active = ctypes.c_uint(), ctypes.c_int()
    call("hipDevicePrimaryCtxGetState", 0, ctypes.byref(flags), ctypes.byref(active))
    assert active.value == 1
    call("hipCtxCreate", ctypes.byref(made), 0, 0)
    call("hipCtxGetCurrent", ctypes.byref(current))
    assert current.value == made.value != primary.value
    call("hipCtxPushCurrent", primary)
    call("hipCtxPopCurrent", ctypes.byref(current))
    assert current.value == primary.value
    call("hipCtxDestroy", made)
    for name in ("hipCtxDestroy", "hipCtxPushCurrent", "hipCtxSetCurrent"):
        assert code(name, ctypes.c_void_p(0x77)) == 201
    assert code("hipCtxPopCurrent", None) == 201
    call("hipDevicePrimaryCtxRelease", 0)


def test_settings() -> None:
    assert number("hipDeviceGetLimit", 2, kind=ctypes.c_size_t) > 0
    call("hipDeviceSetLimit", 0, size(4096))
    assert number("hipDeviceGetLimit", 0, kind=ctypes.c_size_t) == 4096
    assert code("hipDeviceSetLimit", 99, size(1)) == 215
    assert code("hipSetDeviceFlags", 3) == INVALID_VALUE
    call("hipSetDeviceFlags", 4)
    assert number("hipGetDeviceFlags", kind=ctypes.c_uint) == 4
    call("hipSetDeviceFlags", 0)


# --- errors -------------------------------------------------------------------------------------------------


def test_names_and_texts_of_errors() -> None:
    lib = library()
    for name in ("hipGetErrorName", "hipGetErrorString"):
        getattr(lib, name).restype = ctypes.c_char_p
    assert len(ERROR_ROWS) == 76
    for name, value, words_ in ERROR_ROWS:
        assert lib.hipGetErrorName(int(value)).decode() == name
        assert lib.hipGetErrorString(int(value)).decode() == words_
        out = ctypes.c_char_p()
        call("hipDrvGetErrorName", int(value), ctypes.byref(out))
        assert (out.value or b"").decode() == name
    assert code("hipDrvGetErrorString", 12345, ctypes.byref(ctypes.c_char_p())) == INVALID_VALUE
    assert lib.hipGetErrorName(12345) == b"hipErrorUnknown"


def test_last_error_of_each_thread() -> None:
    code("hipGetLastError")
    assert code("hipMalloc", None, size(1)) == INVALID_VALUE
    assert number("hipGetDevice") == 0  # a success forgets nothing
    there: list[int] = []
    one = threading.Thread(target=lambda: there.append(code("hipGetLastError")))
    one.start()
    one.join()
    assert there == [SUCCESS]
    assert [code(name) for name in ("hipPeekAtLastError", "hipGetLastError", "hipGetLastError")] == [1, 1, 0]
    code("hipSetDevice", -1)
    call("hipGetDevice", ctypes.byref(ctypes.c_int()))
    assert code("hipExtGetLastError") == SUCCESS, "the last call was a success"


# --- entry points -------------------------------------------------------------------------------------------


def test_every_name_is_exported_and_found() -> None:
    lib, out, status = library(), ctypes.c_void_p(), ctypes.c_int()
    assert len(NAMES) > 480
    assert [name for name in NAMES if not hasattr(lib, name)] == []
    for name in NAMES:
        if name.startswith("hip"):
            call(
                "hipGetProcAddress",
                name.encode(),
                ctypes.byref(out),
                70200000,
                ctypes.c_uint64(0),
                ctypes.byref(status),
            )
            assert out.value and status.value == 0, name
    for wrong in (b"hipNoSuchThing", b"malloc", b"cuInit"):
        assert (
            code(
                "hipGetProcAddress",
                wrong,
                ctypes.byref(out),
                70200000,
                ctypes.c_uint64(0),
                ctypes.byref(status),
            )
            == NOT_FOUND
        )
        assert not out.value and status.value == 1


def test_per_thread_entry_points() -> None:
    plain, own = ctypes.c_void_p(), ctypes.c_void_p()
    for out, flags in ((plain, 0), (own, 2)):
        call(
            "hipGetProcAddress", b"hipMemcpyAsync", ctypes.byref(out), 70200000, ctypes.c_uint64(flags), None
        )
    assert plain.value != own.value
    assert own.value == ctypes.cast(library().hipMemcpyAsync_spt, ctypes.c_void_p).value


def test_versions_of_names() -> None:
    """Programs linked against the real library ask for them: hip_4.2 for the oldest."""
    elffile = pytest.importorskip("elftools.elf.elffile")
    with Path(library()._name).open("rb") as file:
        elf = elffile.ELFFile(file)
        versions = {
            next(iter(names)).name
            for _, names in (
                (v, list(n)) for v, n in elf.get_section_by_name(".gnu.version_d").iter_versions()
            )
        }
    assert set(re.findall(r"^(hip_\d+\.\d+) \{", EXPORTS, re.MULTILINE)) <= versions


_UNSUPPORTED = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
names = sys.argv[2].split()
for _ in range(2):
    assert [lib[name](None, None) for name in names] == [801] * len(names)
    assert lib.hipGetLastError() == 801
"""


def test_unsupported_names_say_so_once() -> None:
    names = re.findall(
        r"^X\((\w+)\)", (EMULATOR / "hip" / "unsupported.inc").read_text(encoding="utf-8"), re.MULTILINE
    )
    _, log = program(_UNSUPPORTED, " ".join(names))
    lines = [line for line in log.splitlines() if "hipErrorNotSupported" in line]
    assert sorted(line.split(":")[1].strip() for line in lines) == sorted(names)
