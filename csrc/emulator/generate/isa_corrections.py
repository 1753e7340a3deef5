"""What the ISA tables of the PyPI package ``tinygrad`` lack or have otherwise than the assembler and the hardware.

Found by assembling every mnemonic that the pinned clang knows, and by printing and assembling again random instructions of
every opcode (tests/emulator/test_decoder.py) and all code objects at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Corrections:
    """What the package lacks or has otherwise than the assembler and the hardware."""

    #: Opcode -> what LLVM calls it. The package uses the older names.
    mnemonics: Mapping[str, str] = field(default_factory=dict)
    #: (encoding, opcode) -> number, for opcodes that LLVM assembles for both targets and the package does not have.
    added: Mapping[tuple[str, str], int] = field(default_factory=dict)
    #: (encoding, opcode) that neither target has.
    removed: frozenset[tuple[str, str]] = frozenset()
    #: Opcodes of one target only: the package does not tell the two apart. A star stands for any end.
    only_gfx942: tuple[str, ...] = ()
    only_gfx950: tuple[str, ...] = ()
    #: (encoding, opcode) -> fields that replace or (None) remove those of the package: (format, bits, operand type).
    operands: Mapping[tuple[str, str], Mapping[str, tuple[str, int, str] | None]] = field(
        default_factory=dict
    )


def _lds_loads() -> dict[tuple[str, str], Mapping[str, tuple[str, int, str] | None]]:
    """Remove the vector destination of loads that go to LDS.

    The package gives them that of a common load.
    """
    sizes = ("UBYTE", "SBYTE", "USHORT", "SSHORT", "DWORD")
    names = [("scratch", f"SCRATCH_LOAD_LDS_{size}") for size in sizes]
    names += [("global", f"GLOBAL_LOAD_LDS_{size}") for size in (*sizes, "DWORDX3", "DWORDX4")]
    return {name: {"vdst": None} for name in names}


_GWS: Final = {"addr": ("FMT_NUM_B32", 32, "OPR_VGPR_OR_ACCVGPR")}
_XF32: Final = ("FMT_NUM_PK2_F32", 64, "OPR_SRC_VGPR_OR_ACCVGPR")
_SCALE: Final = ("FMT_NUM_B32", 32, "OPR_SRC_SIMPLE")
_K32: Final = ("FMT_NUM_F32", 32, "OPR_SIMM32")
_K16: Final = ("FMT_NUM_F16", 16, "OPR_SIMM32")

CORRECTIONS: Final = Corrections(
    mnemonics={
        "V_ACCVGPR_READ": "v_accvgpr_read_b32",
        "V_ACCVGPR_WRITE": "v_accvgpr_write_b32",
        # gfx906 replaced the multiply and add of these opcodes by a fused one, and LLVM renamed them.
        "V_MAD_MIX_F32": "v_fma_mix_f32",
        "V_MAD_MIXLO_F16": "v_fma_mixlo_f16",
        "V_MAD_MIXHI_F16": "v_fma_mixhi_f16",
    },
    added={("ds", "DS_GWS_INIT"): 153, ("ds", "DS_GWS_SEMA_BR"): 155, ("ds", "DS_GWS_BARRIER"): 157},
    removed=frozenset({
        ("sopp", "S_SET_VALU_COEXEC_MODE"),  # gfx1250's; LLVM knows it for neither
        # They have four bytes and no more; LLVM has no long form of them.
        ("vop3", "V_READFIRSTLANE_B32"), ("vop3", "V_SWAP_B32"), ("vop3", "V_ACCVGPR_MOV_B32"),
    }),
    only_gfx942=("V_MFMA_F32_16X16X8_XF32", "V_MFMA_F32_32X32X4_XF32"),
    only_gfx950=(
        "BUFFER_ATOMIC_PK_ADD_BF16", "DS_READ_B64_TR_*", "DS_READ_B96_TR_B6", "GLOBAL_LOAD_LDS_DWORDX3",
        "GLOBAL_LOAD_LDS_DWORDX4", "V_ASHR_PK_*", "V_BITOP3_*", "V_CVT_F32_BF16", "V_CVT_PK_BF16_F32", "V_CVT_PK_F16_F32",
        "V_CVT_SCALEF32_*", "V_CVT_SR_BF16_F32", "V_CVT_SR_F16_F32", "V_DOT2_F32_BF16", "V_DOT2C_F32_BF16",
        "V_MAXIMUM3_F32", "V_MINIMUM3_F32", "V_PK_MAXIMUM3_F16", "V_PK_MINIMUM3_F16", "V_PERMLANE16_SWAP_B32",
        "V_PERMLANE32_SWAP_B32", "V_PRNG_B32", "V_MFMA_F32_16X16X128_F8F6F4", "V_MFMA_F32_32X32X64_F8F6F4",
        "V_MFMA_SCALE_*", "V_MFMA_LD_SCALE_B32", "V_MFMA_F32_16X16X32_BF16", "V_MFMA_F32_16X16X32_F16",
        "V_MFMA_F32_32X32X16_BF16", "V_MFMA_F32_32X32X16_F16", "V_MFMA_I32_16X16X64_I8", "V_MFMA_I32_32X32X32_I8",
        "V_SMFMAC_F32_16X16X128_*", "V_SMFMAC_F32_16X16X64_BF16", "V_SMFMAC_F32_16X16X64_F16",
        "V_SMFMAC_F32_32X32X32_BF16", "V_SMFMAC_F32_32X32X32_F16", "V_SMFMAC_F32_32X32X64_*",
        "V_SMFMAC_I32_16X16X128_I8", "V_SMFMAC_I32_32X32X64_I8",
    ),
    operands={
        **_lds_loads(),
        # Global wave sync: a vector register with the value, in the field of the address; the package gives it no operands.
        **{("ds", f"DS_GWS_{name}"): _GWS for name in ("INIT", "SEMA_BR", "BARRIER")},
        # CDNA3 alone has xf32 and the package describes CDNA4: 2 of 8 (4) values of a row per lane, 4 (16) results.
        ("vop3p_mfma", "V_MFMA_F32_16X16X8_XF32"): {
            "src0": _XF32, "src1": _XF32,
            "src2": ("FMT_NUM_PK4_F32", 128, "OPR_SRC_VGPR_OR_ACCVGPR_OR_CONST"),
            "vdst": ("FMT_NUM_PK4_F32", 128, "OPR_VGPR_OR_ACCVGPR"),
        },
        ("vop3p_mfma", "V_MFMA_F32_32X32X4_XF32"): {
            "src0": _XF32, "src1": _XF32,
            "src2": ("FMT_NUM_PK16_F32", 512, "OPR_SRC_VGPR_OR_ACCVGPR_OR_CONST"),
            "vdst": ("FMT_NUM_PK16_F32", 512, "OPR_VGPR_OR_ACCVGPR"),
        },
        ("vop3p", "V_MFMA_LD_SCALE_B32"): {"src0": _SCALE, "src1": _SCALE},
        # The literal that these always have is no field of theirs in the package.
        ("vop2", "V_FMAMK_F32"): {"simm32": _K32}, ("vop2", "V_FMAAK_F32"): {"simm32": _K32},
        ("vop2", "V_MADMK_F16"): {"simm32": _K16}, ("vop2", "V_MADAK_F16"): {"simm32": _K16},
        ("sopk", "S_SETREG_IMM32_B32"): {"simm32": ("FMT_NUM_B32", 32, "OPR_SIMM32")},
    },
)  # fmt: skip
