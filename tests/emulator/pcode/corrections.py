"""Where AMD's text is wrong, incomplete or contradicts the hardware: the text that is evaluated instead,
and why.

Each row: mnemonics (without _E32/_E64), reason, and either a whole text or pairs of replacements in AMD's.
A replacement that finds nothing is an error, so a corrected later edition is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Correction:
    mnemonics: tuple[str, ...]
    reason: str
    text: str = ""
    replace: tuple[tuple[str, str], ...] = ()
    prefix: str = ""

    def apply(self, text: str) -> str:
        """AMD's ``text`` corrected.

        Raises:
            ValueError: a part that should be replaced is not there.
        """
        if self.text:
            return self.text
        for old, new in self.replace:
            if old not in text:
                raise ValueError(f"{self.mnemonics[0]}: {old!r} is not in the text any more")
            text = text.replace(old, new)
        return self.prefix + text


def _rounding(kind: str) -> Correction:
    return Correction(
        (f"V_RNDNE_{kind.upper()}",),
        "floor(x + 0.5) rounds the sum and loses the sign of zero; the instruction is IEEE's roundToIntegralTiesToEven, which "
        "LLVM selects it for (frint, froundeven)",
        f"D0.{kind} = round_even(S0.{kind})",
    )


def _fraction(kind: str) -> Correction:
    return Correction(
        (f"V_FRACT_{kind.upper()}",),
        "x - floor(x) of a small negative x rounds to 1; the instruction stays below 1: LLVM selects it for "
        "min(x - floor(x), 1 - ulp) and no longer has the workaround that gfx6 needed",
        f"D0.{kind} = fraction_below_one(S0.{kind})",
    )


def _divide_scale(kind: str, far: int, tiny: int, scale: int) -> Correction:
    """The structure and constants are AMD's."""
    s0, s1, s2, d0 = (f"{name}.{kind}" for name in ("S0", "S1", "S2", "D0"))
    return Correction(
        (f"V_DIV_SCALE_{kind.upper()}",),
        "VCC is one bit per lane; the value is S0 where no branch scales it; the text asks whether an f64 reciprocal of "
        "an f32 is "
        "denormal, which it never is; where reciprocal and quotient both are, scaling the denominator (at least 2**126) up would "
        "overflow. test_instructions_special checks that the whole sequence of LLVM's fdiv gives the correctly rounded quotient",
        f"""small_reciprocal = tiny_{kind}(exact(1.0) / exact({s1}));
small_quotient = tiny_{kind}(exact({s2}) / exact({s1}));
{d0} = {s0};
VCC.u64[laneId] = 1'0U;
if (({s2} == 0.0) || ({s1} == 0.0)) then {d0} = NAN.{kind}
elsif exponent({s2}) - exponent({s1}) >= {far} then
VCC.u64[laneId] = 1'1U;
if {s0} == {s1} then {d0} = ldexp({s0}, {scale}) endif
elsif {s1} == DENORM.{kind} then {d0} = ldexp({s0}, {scale})
elsif small_reciprocal && small_quotient then
VCC.u64[laneId] = 1'1U;
if {s0} == {s1} then {d0} = ldexp({s0}, -{scale}) endif
elsif small_reciprocal then {d0} = ldexp({s0}, -{scale})
elsif small_quotient then
VCC.u64[laneId] = 1'1U;
if {s0} == {s2} then {d0} = ldexp({s0}, {scale}) endif
elsif exponent({s2}) <= {tiny} then {d0} = ldexp({s0}, {scale})
endif""",
    )


def _divide_fmas(kind: str, bias: int, scale: int, old: str) -> Correction:
    fused = f"fma_exactly(S0.{kind}, S1.{kind}, S2.{kind})"
    return Correction(
        (f"V_DIV_FMAS_{kind.upper()}",),
        f"must undo what V_DIV_SCALE did, which is 2**{scale} up or down and not 2**{scale // 2} up; the quotient's "
        f"estimate (S2) "
        "tells which. One rounding. test_instructions_special checks the whole division",
        replace=((f"{old} fma(S0.{kind}, S1.{kind}, S2.{kind})",
                  f"(exponent(S2.{kind}) > {bias} ? 2.0 ** {scale} : 2.0 ** -{scale}) * {fused}"),),
    )  # fmt: skip


def _divide_fixup(kind: str, old: str) -> Correction:
    return Correction(
        (f"V_DIV_FIXUP_{kind.upper()}",),
        "a quotient that overflows ends as inf - inf in the last step of LLVM's fdiv; with the NaN that the text hands on, every "
        "overflowing division would be wrong. test_instructions_special checks the whole division",
        replace=((old, f"elsif isNAN(S0.{kind}) then D0.{kind} = sign_out ? -INF : +INF\n{old}"),),
    )


def _flushing(name: str, old: str) -> Correction:
    return Correction(
        (f"V_{name}_F32",),
        "does not support f32 denormals whatever MODE says: LLVM's AMDGPUCodeGenPrepare (rcp, rsq) and its expansions "
        "of sqrt, exp "
        "and log scale around them",
        replace=((old, f"flushed({old.replace('S0.f32', 'flushed(S0.f32)')})"),),
    )


def _frexp(kind: str, bias: int, result: str) -> Correction:
    value = f"exponent(S0.{kind}) - {bias} + 1"
    return Correction(
        (f"V_FREXP_EXP_{result.upper()}_{kind.upper()}",),
        "the biased exponent of a denormal or zero is not its exponent: with V_FREXP_MANT the result must give the value back, "
        "and 0 for 0, as LLVM's lowering of frexp needs",
        replace=((value, f"frexp_exponent(S0.{kind})"),),
    )


def _scaling(kind: str, old: str) -> Correction:
    return Correction(
        (f"V_LDEXP_{kind.upper()}",),
        "2 ** n overflows or vanishes in the format long before x * 2 ** n does: one rounding of the exact product",
        replace=((old, "2.0 ** S1.i16"),),
    )


def _turns(name: str, kind: str) -> Correction:
    return Correction(
        (f"V_{name.upper()}_{kind.upper()}",),
        "the operand is in turns; the product with 2 pi is not rounded to the operand's format",
        f"D0.{kind} = {'sine' if name == 'sin' else 'cosine'}_of_turns(S0.{kind})",
    )


def _mixed(name: str) -> Correction:
    return Correction(
        (name,),
        "gfx906 and later have v_fma_mix at this opcode: product and sum rounded once to f32 (LLVM: FeatureFmaMixInsts "
        "for gfx940, and "
        "the lo and hi forms match an fpround of an f32 fma)",
        replace=(("in[0] * in[1] + in[2]", "fma(in[0], in[1], in[2])"),),
    )


def _stochastic(form: str) -> Correction:
    places = ("7 : 0", "15 : 8", "23 : 16", "31 : 24")
    branches = "".join(
        f"{'if' if i == 0 else 'elsif'} OPSEL[3 : 2].u2 == 2'{i}U then\n"
        f"VGPR[laneId][VDST.u32][{place}].{form} = f32_to_{form}_sr(S0.f32, S1.u32)\n"
        for i, place in enumerate(places)
    )
    return Correction(
        (f"V_CVT_SR_{form.upper()}_F32",),
        "the text adds the random bits to the fraction without a carry into the exponent and then rounds to nearest a second "
        "time; stochastic rounding cuts off (AMD's CDNA3 ISA document describes the instruction so)",
        branches + "endif",
    )


def _half_load(names: tuple[str, ...], register: str) -> Correction:
    return Correction(
        names,
        "both targets have SRAM ECC on, where a d16 load writes the whole register and the other half becomes 0 (CDNA3 "
        "and CDNA4 ISA "
        "documents, 9.1.6; LLVM: d16PreservesUnusedBits); the text describes parts without ECC",
        prefix=f"{register}.u32 = 0U;\n",
    )


def _float_atomic(which: str, sign: str) -> Correction:
    names = (f"DS_{which}_F32", f"DS_{which}_RTN_F32", f"DS_{which}_F64", f"DS_{which}_RTN_F64")
    return Correction(
        (*names, *(f"{place}_ATOMIC_{which}_F64" for place in ("GLOBAL", "FLAT", "BUFFER"))),
        "what happens to NaN and to zeros of both signs is left out (CDNA4 ISA document, 9.2): a signalling NaN comes "
        "out quiet, a "
        "quiet one loses against a number, -0 is less than +0",
        replace=((f"src {sign} tmp ? src : tmp", f"atomic_{which.lower()}(tmp, src)"),),
    )


_HALVES: Final = ("D16", "D16_HI")

CORRECTIONS: Final = (
    _half_load(
        tuple(f"DS_READ_{kind}_{half}" for kind in ("U8", "I8", "U16") for half in _HALVES), "RETURN_DATA"
    ),
    _half_load(
        tuple(
            f"{place}_LOAD_{kind}_{half}"
            for place in ("GLOBAL", "FLAT", "BUFFER", "SCRATCH")
            for kind in ("UBYTE", "SBYTE", "SHORT")
            for half in _HALVES
        ),
        "VDATA",
    ),
    _float_atomic("MIN", "<"),
    _float_atomic("MAX", ">"),
    *(_rounding(kind) for kind in ("f16", "f32", "f64")),
    *(_fraction(kind) for kind in ("f16", "f32", "f64")),
    _divide_scale("f32", 96, 23, 64),
    _divide_scale("f64", 768, 53, 128),
    _divide_fmas("f32", 127, 64, "2.0F ** 32 *"),
    _divide_fmas("f64", 1023, 128, "2.0 ** 64 *"),
    _divide_fixup("f32", "elsif exponent(S1.f32) == 255 then"),
    _divide_fixup("f64", "elsif exponent(S1.f64) == 2047 then"),
    *(
        _flushing(name, old)
        for name, old in (
            ("EXP", "pow(2.0F, S0.f32)"),
            ("LOG", "log2(S0.f32)"),
            ("RCP", "1.0F / S0.f32"),
            ("RCP_IFLAG", "1.0F / S0.f32"),
            ("RSQ", "1.0F / sqrt(S0.f32)"),
            ("SQRT", "sqrt(S0.f32)"),
        )
    ),
    Correction(
        ("V_CVT_SCALEF32_F16_FP8", "V_CVT_SCALEF32_F16_BF8"),
        "OPSEL[3] chooses the half of the destination, as the comment says, and the other half stays (LLVM's intrinsics "
        "have the old "
        "destination as an operand)",
        replace=(("D0 = tmp.b32", "if OPSEL[3] then D0[31 : 16].f16 = tmp else D0[15 : 0].f16 = tmp endif"),),
    ),
    Correction(
        ("V_CVT_PK_U8_F32", "V_CVT_PKACCUM_U8_F32"),
        "how f32_to_u8 rounds is not said; to nearest even, measured on GCN hardware (shadPS4, pull request 5194)",
        replace=(("f32_to_u8(S0.f32)", "f32_to_u8(round_even(S0.f32))"),),
    ),
    _frexp("f32", 127, "i32"),
    _frexp("f64", 1023, "i32"),
    _frexp("f16", 15, "i16"),
    _scaling("f16", "16'F(2.0F ** 32'I(S1.i16))"),
    *(_turns(name, kind) for name in ("sin", "cos") for kind in ("f16", "f32")),
    *(_mixed(name) for name in ("V_MAD_MIX_F32", "V_MAD_MIXLO_F16", "V_MAD_MIXHI_F16")),
    _stochastic("fp8"),
    _stochastic("bf8"),
    Correction(
        ("V_CVT_OFF_F32_I4",),
        "the table is left out: a signed four-bit number of sixteenths (CDNA3 ISA document, V_CVT_OFF_F32_I4)",
        "D0.f32 = i32_to_f32(32'I(signext(S0[3 : 0].i4))) * 0.0625F",
    ),
    Correction(
        ("V_BITOP3_B16", "V_BITOP3_B32"),
        "the destination is written as D; the truth table's bits stand in the encoding's modifier fields",
        replace=(("D.b", "D0.b"), ("{ INST.OMOD[1 : 0], INST.ABS[2 : 0], INST.NEG[2 : 0] }", "TRUTH_TABLE")),
    ),
    Correction(
        ("V_PK_MOV_B32",),
        "the halves are those of 64-bit sources",
        replace=(("S0.u32[", "S0.u64["), ("S1.u32[", "S1.u64["), ("D0.u32[", "D0.u64[")),
    ),
    Correction(
        ("V_BCNT_U32_B32",),
        "bit i of S0 counts as a number",
        replace=(("S0[i].u32", "32'U(S0.u32[i])"),),
    ),
    Correction(
        ("V_SAT_PK_U8_I16",),
        "the local is a 16-bit vector",
        replace=(("tmp = 16'0;", "tmp = 16'0U;"),),
    ),
)

BY_MNEMONIC: Final = {name: one for one in CORRECTIONS for name in one.mnemonics}
