"""What must be executable: everything of AITER's and of our code objects, and every opcode but a few with a reason."""

from __future__ import annotations

import csv
import json
import random
import re
from functools import cache
from pathlib import Path

import pytest
from support.assembly import assemble, code_object
from support.coverage import Use, code_objects, document, instruction, uses
from support.encodings import SHORT, Generator, Sample
from support.hip_process import program
from support.instructions import assemble as assemble_lines
from support.instructions import disassemble
from support.one_wave import run_wave

from csrc.emulator.generate import isa_tables

TARGETS = ("gfx942", "gfx950")
DATA = Path(__file__).with_name("data") / "aiter_mnemonics.csv"
UNKNOWN = 1  # FaultKind::unknown_instruction

_GWS = "global wave sync is a resource that the kernel driver hands out to a process: a plain HIP program has none"
_HANDLER = "return from a trap handler: privileged, a kernel never is"
_SCRATCH = "scalar access to scratch in the hardware's swizzle: AMD's data leaves the address undefined, no compiler emits it"
#: Opcodes that the library decodes, and reports when they are reached.
NOT_EXECUTED = {
    "DS_GWS_INIT": _GWS, "DS_GWS_BARRIER": _GWS, "DS_GWS_SEMA_V": _GWS, "DS_GWS_SEMA_BR": _GWS, "DS_GWS_SEMA_P": _GWS,
    "DS_GWS_SEMA_RELEASE_ALL": _GWS, "S_RFE_B64": _HANDLER, "S_RFE_RESTORE_B64": _HANDLER,
    "S_SENDMSGHALT": "waits for the graphics pipeline, which neither target has",
    "S_SCRATCH_LOAD_DWORD": _SCRATCH, "S_SCRATCH_LOAD_DWORDX2": _SCRATCH, "S_SCRATCH_LOAD_DWORDX4": _SCRATCH,
    "S_SCRATCH_STORE_DWORD": _SCRATCH, "S_SCRATCH_STORE_DWORDX2": _SCRATCH, "S_SCRATCH_STORE_DWORDX4": _SCRATCH,
    "V_MFMA_LD_SCALE_B32": "the first half of a scaled MFMA: without its second half it is no instruction",
}  # fmt: skip


@cache
def rows(target: str) -> tuple[isa_tables.OpcodeRow, ...]:
    """The decoder's opcodes that a target has."""
    bit = 1 << TARGETS.index(target)
    return tuple(row for row in isa_tables.rows() if row.targets & bit)


@cache
def aiter_mnemonics(target: str) -> tuple[str, ...]:
    """What AITER's hand-written kernels of a target use, with LLVM's suffix for the encoding."""
    with DATA.open(newline="", encoding="utf-8") as file:
        return tuple(row["mnemonic"] for row in csv.DictReader(file) if row["target"] == target)


def form(target: str, mnemonic: str, generator: Generator) -> tuple[int, ...]:
    """A random instruction that is written ``mnemonic``."""
    parts = re.fullmatch(r"(.*?)(?:_(e32|e64|dpp|sdwa))?", mnemonic)
    assert parts is not None, mnemonic
    base, suffix = parts.groups()
    encodings = SHORT if suffix in ("e32", "dpp", "sdwa") else ("vop3", "vop3sd") if suffix == "e64" else ()
    fitting = [
        row
        for row in rows(target)
        if isa_tables.mnemonic(row.opcode) == base and (not encodings or row.encoding in encodings)
    ]
    for _ in range(100):
        for row in fitting:
            words = generator.draw(row, suffix if suffix in ("dpp", "sdwa") else "plain")
            text, size = disassemble(target, words)
            if size and text.split()[0] in (mnemonic, f"{mnemonic}_e32"):  # LLVM prints v_nop without
                return words
    raise AssertionError(f"no form of {mnemonic} on {target} is decoded")


@pytest.mark.parametrize("target", TARGETS)
def test_every_mnemonic_of_aiter(target: str) -> None:
    """Decoded, reported as executable, and run: with all registers zero some end in another fault, none as unknown."""
    seed = random.randrange(1 << 32)
    generator = Generator(seed)
    names = aiter_mnemonics(target)
    assert len(names) == len(set(names)) > 200
    missing: dict[str, str] = {}
    for name in names:
        words = form(target, name, generator)
        use, result = instruction(target, words), run_wave(target, words, lds=1 << 16, limit=1000)
        if not (use.decoded and use.executable) or result.fault == UNKNOWN:
            missing[name] = f"{use} {result.message}"
    assert not missing, (seed, missing)


@pytest.mark.parametrize("target", TARGETS)
def test_every_code_object_that_we_ship(target: str) -> None:
    missing: dict[str, list[Use]] = {}
    files = instructions = 0
    for name, image in code_objects(target):
        found = uses(image, target)
        files += 1
        instructions += sum(use.count for use in found)
        if bad := [use for use in found if not (use.decoded and use.executable)]:
            missing[name] = bad
    assert files > 20 and instructions > 10_000
    assert not missing


def has_no_meaning(sample: Sample, text: str) -> bool:
    """MFMA forms that LLVM's assembler takes although the hardware gives them no meaning.

    cbsz and abid share one block of A among several, blgp permutes lanes of B; AMD's matrix instruction calculator
    says which shapes have them.
    """
    opcode = sample.row.opcode
    if sample.row.encoding != "vop3p_mfma" or sample.what not in ("cbsz", "abid", "blgp"):
        return False
    if "SMFMAC" in opcode:
        return sample.what == "blgp"
    if "F64" in opcode:
        return sample.what != "blgp"
    if "F8F6F4" in opcode:  # the two are formats, of which there are five
        return False
    several = re.search(r"X\d+_(\d+)B_", opcode)
    if sample.what == "cbsz":
        given = re.search(r"cbsz:(\d)", text)
        assert given is not None, text
        group = 1 << int(given[1])
        return several is None or group > int(several.group(1))
    plain_f32 = re.fullmatch(r"V_MFMA_F32_\d+X\d+X\d+_F32", opcode) is not None
    return several is None and not (plain_f32 and sample.what == "blgp")


@pytest.mark.parametrize("target", TARGETS)
def test_every_opcode(target: str) -> None:
    """All opcodes in all modifiers that the assembler takes are executable or have their reason above."""
    seed = random.randrange(1 << 32)
    generator = Generator(seed)
    refused: list[tuple[Sample, str]] = []
    executable = 0
    for row in rows(target):
        for sample in generator.samples(row, 3):
            text, size = disassemble(target, sample.words)
            if not size:  # a literal and another second dword exclude each other
                continue
            use = instruction(target, sample.words)
            assert use.decoded, (seed, text, use)
            listed = row.opcode in NOT_EXECUTED
            assert not (listed and use.executable), f"{text} is executable: take it out of NOT_EXECUTED"
            executable += use.executable
            if not use.executable and not listed and not has_no_meaning(sample, text):
                refused.append((sample, text))
    assert executable > 9000
    taken = assemble_lines(target, [text for _, text in refused])
    missing = [(s.what, text) for (s, text), line in zip(refused, taken, strict=True) if line.words]
    assert not missing, (seed, missing)


def test_the_list_of_reasons_is_current() -> None:
    assert set(NOT_EXECUTED) <= {row.opcode for target in TARGETS for row in rows(target)}


def test_the_report_names_what_is_missing() -> None:
    """Bytes that are no instruction, another target's instruction, an instruction that is not executed."""
    (xf32,) = [assemble("gfx942", "v_mfma_f32_16x16x8_xf32 v[0:3], v[4:5], v[6:7], v[0:3]")]
    (gws,) = [assemble("gfx950", "ds_gws_init v0 gds")]
    image = code_object("gfx950", f"s_nop 0\n.long 0xffffffff, {xf32[0]}, {gws[0]}, {gws[1]}\ns_endpgm")
    found = {use.mnemonic: use for use in uses(image, "gfx950")}
    assert found["s_nop"].executable and found["s_endpgm"].executable
    assert found["0xffffffff"] == Use("0xffffffff", 1, decoded=False, executable=False)
    assert found[f"0x{xf32[0]:08x}"] == Use(f"0x{xf32[0]:08x}", 1, decoded=False, executable=False)
    assert found["ds_gws_init"] == Use("ds_gws_init", 1, decoded=True, executable=False)
    assert "error" in document(b"\x7fELF") and "error" in document(b"")


#: argv: library, code object. The kernel writes 1, meets the instruction, and would write 2.
_FAULT = """
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
lib.apb_emulator_last_fault.restype = ctypes.c_char_p
data, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert lib.apb_emulator_last_fault() is None
assert lib.hipHostMalloc(ctypes.byref(data), ctypes.c_size_t(4), 0) == 0
assert lib.hipModuleLoadData(ctypes.byref(module), open(sys.argv[2], "rb").read()) == 0
assert lib.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
ctypes.memset(data, 0, 4)
params = (ctypes.c_void_p * 1)(ctypes.addressof(data))
status = lib.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, params, None) or lib.hipDeviceSynchronize()
print(json.dumps([status, ctypes.c_uint32.from_address(data.value).value, lib.apb_emulator_last_fault().decode()]))
"""
_AROUND = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_mov_b32_e32 v0, 0
  v_mov_b32_e32 v1, 1
  v_mov_b32_e32 v2, 2
  s_waitcnt lgkmcnt(0)
  global_store_dword v0, v1, s[4:5]
  {what}
  global_store_dword v0, v2, s[4:5]
  s_endpgm
"""
#: What stands there and what the message says. gfx950's v_permlane32_swap_b32 and gfx942's xf32 MFMA: the other lacks it.
_STRANGE = (
    ("gfx942", ".long 0xffffffff", "0xffffffff"),
    ("gfx950", ".long 0xc8000000", "0xc8000000"),
    ("gfx942", ".long 0x7e00b500", "0x7e00b500"),
    ("gfx950", ".long 0xd3be0000, 0x04020504", "0xd3be0000"),
    ("gfx942", "ds_gws_init v0 gds", "ds_gws_init v0 gds"),
    ("gfx950", "s_rfe_b64 s[4:5]", "s_rfe_b64 s[4:5]"),
    ("gfx950", "s_scratch_load_dword s8, s[4:5], 0x0", "s_scratch_load_dword s8, s[4:5], 0x0"),
)


@pytest.mark.parametrize(("target", "what", "named"), _STRANGE)
def test_an_unknown_instruction_stops_the_kernel(target: str, what: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.co"
    path.write_bytes(code_object(target, _AROUND.format(what=what)))
    out, log = program(_FAULT, str(path), devices=target)
    status, stored, fault = json.loads(out)
    assert status != 0 and stored == 1, "the instruction was skipped"
    for text in (fault, log):
        assert "unknown instruction" in text and named in text and "kernel kernel" in text
        assert re.search(r"code\+0x20\b", text) and "workgroup (0, 0, 0), wave 0" in text
        assert "global_store_dword" not in text, "the message blames the instruction before"
