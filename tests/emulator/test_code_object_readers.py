"""AMDGPU metadata is read in three places: one file of vectors, and all built code objects, compare what each one reads."""

from __future__ import annotations

import json
import os
import random
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.code_object_readers import VECTORS, Reading, build, compared, expected, runtime
from support.code_object_vectors import READERS
from support.hip_process import SUCCESS, program

from build_tools.objects.unpack import open_bundle

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("AITER_PREBUILT_TEST_SEED") or random.randrange(2**31))


#: argv: library, a file of images, each behind its length. A line of JSON for each.
_EMULATOR = r"""
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
lib.apb_emulator_metadata.argtypes, lib.apb_emulator_metadata.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_void_p
lib.apb_emulator_free.argtypes = (ctypes.c_void_p,)
with open(sys.argv[2], "rb") as file:
    while head := file.read(8):
        image = file.read(int.from_bytes(head, "little"))
        text = lib.apb_emulator_metadata(image, len(image))
        print(ctypes.string_at(text).decode())
        lib.apb_emulator_free(text)
"""


def emulator(images: Sequence[bytes], folder: Path) -> list[Reading]:
    """What the embedded device's loader reads, in a process of its own."""
    path = folder / "images"
    with path.open("wb") as file:
        for image in images:
            file.write(struct.pack("<Q", len(image)) + image)
    out, _ = program(_EMULATOR, str(path))
    found = [_emulator(json.loads(line)) for line in out.splitlines()]
    assert len(found) == len(images)
    return found


def _emulator(document: dict[str, Any]) -> Reading:
    assert document["version"] == 1
    if "error" in document:
        return {"error": document["error"]}
    target, *features = document["isa"].removeprefix("amdgcn-amd-amdhsa--").split(":")
    kernels = {}
    for kernel in document["kernels"]:
        args = kernel["args"]
        kernel["descriptor_symbol"] = kernel.pop("symbol")
        kernel["args"] = [arg for arg in args if not arg[2].startswith("hidden_")]
        kernel["hidden_places"] = [arg for arg in args if arg[2].startswith("hidden_")]
        kernel["hidden"] = [arg[2] for arg in kernel["hidden_places"]]
        kernels[kernel["name"]] = kernel
    return {
        "target": target,
        "features": features,
        "code_object": document["code_object"],
        "kernels": kernels,
    }


def test_every_reader_reads_what_the_vectors_say(tmp_path: Path) -> None:
    readings = {
        "build": [build(vector.image) for vector in VECTORS.vectors],
        "runtime": [runtime(vector.image) for vector in VECTORS.vectors],
        "emulator": emulator([vector.image for vector in VECTORS.vectors], tmp_path),
    }
    differences = [
        line
        for reader in READERS
        for vector, found in zip(VECTORS.vectors, readings[reader], strict=True)
        for line in compared(vector.name, reader, expected(vector, reader), found)
    ]
    assert not differences, "\n".join(differences)


def test_the_vectors_are_many_and_told_apart() -> None:
    names = [vector.name for vector in VECTORS.vectors]
    assert len(set(names)) == len(names)
    damaged = [vector for vector in VECTORS.vectors if set(vector.refused) == set(READERS)]
    assert len(damaged) >= 50 and len(names) - len(damaged) >= 45
    assert {
        reader for rows in VECTORS.reads.values() for readers in rows.values() for reader in readers
    } == set(READERS)


#: argv: library, a folder with files `number`, the kernel's name for each. Loads each as a program does, on device 0 or 1.
_LOAD = r"""
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
lib.hipModuleLoad.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
class Attributes(ctypes.Structure):
    _fields_ = [("binary", ctypes.c_int), ("cache", ctypes.c_int), ("const", ctypes.c_size_t), ("local", ctypes.c_size_t),
                ("dynamic", ctypes.c_int), ("threads", ctypes.c_int), ("registers", ctypes.c_int), ("carveout", ctypes.c_int),
                ("ptx", ctypes.c_int), ("shared", ctypes.c_size_t), ("room", ctypes.c_size_t)]
for number, (device, names) in enumerate(json.loads(sys.argv[3])):
    assert lib.hipSetDevice(device) == 0
    module, count = ctypes.c_void_p(), ctypes.c_uint(0)
    row = {"loaded": lib.hipModuleLoad(ctypes.byref(module), f"{sys.argv[2]}/{number}".encode()), "kernels": {}}
    if row["loaded"] == 0:
        assert lib.hipModuleGetFunctionCount(ctypes.byref(count), module) == 0
        row["count"] = count.value
        for name in names:
            function, found = ctypes.c_void_p(), Attributes()
            assert lib.hipModuleGetFunction(ctypes.byref(function), module, name.encode()) == 0, name
            assert lib.hipFuncGetAttributes(ctypes.byref(found), function) == 0
            row["kernels"][name] = [found.shared, found.local, found.threads, found.registers]
        assert lib.hipModuleUnload(module) == 0
    print(json.dumps(row))
"""


def test_the_embedded_device_loads_what_its_reader_reads(tmp_path: Path) -> None:
    wanted = []
    for number, vector in enumerate(VECTORS.vectors):
        (tmp_path / str(number)).write_bytes(vector.image)
        wanted.append((int(vector.expect["target"] == "gfx950"), list(vector.expect["kernels"])))
    out, log = program(_LOAD, str(tmp_path), json.dumps(wanted), devices="gfx942,gfx950")
    for vector, line in zip(VECTORS.vectors, out.splitlines(), strict=True):
        row = json.loads(line)
        refused = vector.refused.get("emulator")
        assert (row["loaded"] == SUCCESS) == (refused is None and not vector.device), (vector.name, row)
        assert vector.device in log
        if row["loaded"] == SUCCESS:
            assert row["count"] == len(vector.expect["kernels"])
            for name, found in row["kernels"].items():
                kernel = vector.expect["kernels"][name]
                fields = ("lds_static", "scratch", "max_threads", "allocated_vgprs")
                assert found == [kernel[field] for field in fields], vector.name


#: Judgements that one reader alone makes of a number that another does not read.
_OWN = {"emulator": "is for waves of (?!32 )", "build": r"\.(agpr_count|[sv]gpr_spill_count) "}


def _changed(image: bytes, rng: random.Random) -> bytes:
    """One to three bytes of the metadata or of the descriptor are something else."""
    note = image.index(b"AMDGPU\0") - 12
    payload = range(note + 20, note + 20 + int.from_bytes(image[note + 4 : note + 8], "little"))
    descriptor = image.index(bytes.fromhex("0400000082 00ac0091130000 0800")) - 44
    data = bytearray(image)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.choice((rng.choice(payload), rng.choice(payload), descriptor + rng.randrange(64)))
        data[at] = rng.choice((data[at] ^ 1 << rng.randrange(8), rng.randrange(256), 0xC0, 0xC3, 0xDE, 0xD9))
    return bytes(data)


def test_the_readers_agree_about_changed_bytes(tmp_path: Path) -> None:
    """What one refuses the others refuse, and what they read is the same: what the vectors' writer did not think of."""
    rng, image = random.Random(SEED), VECTORS.vectors[0].image
    images = [_changed(image, rng) for _ in range(800)]
    refused = 0
    for number, (changed, from_emulator) in enumerate(zip(images, emulator(images, tmp_path), strict=True)):
        readings = {"build": build(changed), "runtime": runtime(changed), "emulator": from_emulator}
        errors = {reader: reading["error"] for reader, reading in readings.items() if "error" in reading}
        if 0 < len(errors) < len(readings):
            alone = all(re.search(_OWN.get(reader, "$^"), error) for reader, error in errors.items())
            assert alone, (SEED, number, errors)
        refused += bool(errors)
        said = {reader: reading for reader, reading in readings.items() if "error" not in reading}
        assert not _disagreements(said), (SEED, number)
    assert 100 < refused < 700, (SEED, refused)


def _disagreements(readings: Mapping[str, Reading]) -> list[str]:
    """Fields that two of the readers read, and do not read alike."""
    if len({frozenset(reading["kernels"]) for reading in readings.values()}) > 1:
        return [f"kernels: { {reader: list(reading['kernels']) for reader, reading in readings.items()} }"]
    found = []
    for field, readers in VECTORS.reads["file"].items():
        values = [readings[reader][field] for reader in readers if reader in readings]
        found += [f"{field}: {values}"] * any(value != values[0] for value in values)
    for field, readers in VECTORS.reads["kernel"].items():
        for name in next(iter(readings.values()))["kernels"] if readings else ():
            values = [readings[reader]["kernels"][name][field] for reader in readers if reader in readings]
            found += [f"{name}, {field}: {values}"] * any(value != values[0] for value in values)
    return found


def _built() -> dict[str, bytes]:
    """All AMD code objects of the bundles that a session built, each once, by an entry that names it."""
    folder = next(
        (f for f in (ROOT / "build/tested/bundles", ROOT / "build/bundles") if any(f.glob("gfx*.apb"))), None
    )
    if folder is None:
        pytest.skip("no bundle for an AMD GPU: run python -m build_tools build")
    found: dict[bytes, str] = {}
    for path in sorted(folder.glob("gfx*.apb")):
        bundle = open_bundle(path)
        for name in bundle.names:
            for entry in bundle.operator(name).entries:
                found.setdefault(bundle.code_object(entry), f"{path.name}: {entry.name}")
    return {name: image for image, name in found.items()}


def test_every_built_code_object_is_read_alike(tmp_path: Path) -> None:
    images = _built()
    samples = ROOT / "tests" / "data" / "codeobjects"
    images |= {path.name: path.read_bytes() for path in samples.iterdir() if path.suffix in (".co", ".hsaco")}
    loaded = emulator(list(images.values()), tmp_path)
    for (name, image), from_emulator in zip(images.items(), loaded, strict=True):
        readings = {"build": build(image), "runtime": runtime(image), "emulator": from_emulator}
        assert not [f"{reader}: {r['error']}" for reader, r in readings.items() if "error" in r], name
        assert not _disagreements(readings), name
