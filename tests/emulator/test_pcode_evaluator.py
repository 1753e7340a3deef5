"""The evaluator itself, against results worked out by hand or by Python's own integers and floats."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import pytest
from emulator.pcode import arithmetic, formats
from emulator.pcode.corrections import BY_MNEMONIC, CORRECTIONS
from emulator.pcode.entries import NOT_EVALUATED, compiled, reason_not_evaluated, text_of, texts
from emulator.pcode.evaluate import Lane, evaluate
from emulator.pcode.formats import (
    BF8,
    BF16,
    DOWN,
    EVEN,
    F16,
    F32,
    F64,
    FP4,
    FP8,
    FP8_FNUZ,
    UP,
    ZERO,
    Format,
    encode,
    finite,
)
from emulator.pcode.lexer import PcodeError
from emulator.pcode.scaled import stochastic


def f32(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def result(encoding: str, name: str, *sources: int, width: int = 32, **extra: int) -> int:
    text = text_of(encoding, name)
    assert text is not None
    old, vcc = extra.pop("old", 0), extra.pop("vcc", 0)
    named = tuple((key, value, 64) for key, value in extra.items())
    return evaluate(text, Lane(tuple((s, width) for s in sources), old, width, vcc, 0, False, named)).bits


def test_nearly_every_entry_is_read() -> None:
    """Every entry; what is not read is listed with its reason, and every reason is used."""
    refused = {}
    for (encoding, name), text in texts().items():
        try:
            compiled(text)
        except PcodeError as error:
            refused[encoding, name] = str(error)
    assert len(texts()) > 1000
    assert all(reason_not_evaluated(name) for _, name in refused), refused
    assert len([name for _, name in refused if not name.startswith(("V_MFMA", "V_SMFMAC"))]) <= 4
    assert all(any(name.startswith(prefix) for _, name in texts()) for prefix in NOT_EVALUATED)


def test_every_correction_is_of_a_known_entry_and_changes_it() -> None:
    from tinygrad.runtime.autogen.amd.cdna.str_pcode import PCODE

    original = {entry.name.removesuffix("_E32").removesuffix("_E64"): text for entry, text in PCODE.items()}
    for name, correction in BY_MNEMONIC.items():
        assert correction.reason
        assert correction.apply(original[name]) != original[name]
    assert len(CORRECTIONS) <= 50


@pytest.mark.parametrize("form", [F16, F32, F64, BF16, BF8, FP8, FP8_FNUZ, FP4], ids=lambda form: form.name)
def test_every_code_survives_decoding_and_encoding(form: Format) -> None:
    codes = (
        range(1 << form.bits)
        if form.bits <= 16
        else [i * 0x9E3779B97F4A7C15 % (1 << form.bits) for i in range(2000)]
    )
    for bits in codes:
        number = formats.decode(form, bits)
        if number.kind != "nan":
            assert encode(form, number) == bits


def test_rounding_is_that_of_python() -> None:
    for i in range(3000):
        numerator, denominator = i * 2654435761 % (1 << 31) + 1, i * 40503 % 65521 + 1
        value = Fraction(numerator, denominator)
        assert (
            encode(F64, finite(value)) == struct.unpack("<Q", struct.pack("<d", numerator / denominator))[0]
        )
        half = struct.unpack("<H", struct.pack("<e", min(float(value), 60000.0)))[0]
        if value < 60000:
            assert encode(F16, finite(Fraction(float(value)))) == half


@pytest.mark.parametrize(
    ("direction", "positive", "negative"),
    [
        (EVEN, 0x3F800000, 0xBF800000),
        (UP, 0x3F800001, 0xBF800000),
        (DOWN, 0x3F800000, 0xBF800001),
        (ZERO, 0x3F800000, 0xBF800000),
    ],
)
def test_directions(direction: int, positive: int, negative: int) -> None:
    value = 1 + Fraction(1, 1 << 25)
    assert encode(F32, finite(value), direction) == positive
    assert encode(F32, finite(-value), direction) == negative


def test_overflow_and_underflow() -> None:
    big, small = finite(Fraction(2) ** 128), finite(Fraction(1, 2**150))
    assert [encode(F32, big, d) for d in (EVEN, UP, DOWN, ZERO)] == [
        0x7F800000,
        0x7F800000,
        0x7F7FFFFF,
        0x7F7FFFFF,
    ]
    assert [encode(F32, small, d) for d in (EVEN, UP, DOWN, ZERO)] == [0, 1, 0, 0]
    assert encode(F32, finite(Fraction(3, 2**150))) == 2
    assert encode(FP8, finite(449)) == 0x7E
    assert encode(FP8, finite(480)) == 0x7F
    assert encode(FP8_FNUZ, finite(1000)) == 0x80
    assert encode(FP4, finite(100)) == 7


def test_transcendentals_agree_with_libm() -> None:
    for x in (0.1, 0.75, 1.0, 1.5, 3.25, -2.5, 10.0):
        number = finite(Fraction(x))
        assert float(arithmetic.exponential2(number).value) == pytest.approx(2.0**x, rel=1e-15)
        assert float(arithmetic.sine_of_turns(number).value) == pytest.approx(
            math.sin(2 * math.pi * x), abs=1e-14
        )
        if x > 0:
            assert float(arithmetic.logarithm2(number).value) == pytest.approx(math.log2(x), abs=1e-15)
            assert float(arithmetic.square_root(number).value) == pytest.approx(math.sqrt(x), rel=1e-15)


def test_stochastic_rounding_cuts_off_and_carries() -> None:
    one = finite(1 + Fraction(1, 16))  # half a step of fp8 above 1
    assert stochastic(one, FP8, 0) == stochastic(one, FP8, 0x7FFFF000) == 0x38
    assert stochastic(one, FP8, 0x80000000) == 0x39
    assert stochastic(finite(Fraction(15, 8) + Fraction(1, 16)), FP8, 0xFFFFFFFF) == 0x40


def test_integers() -> None:
    assert result("VOP3", "V_MED3_I32", 0xDA41B4CB, 0x85989665, 0xB712F85D) == 0xB712F85D
    assert result("VOP3", "V_PERM_B32", 0x33221100, 0x77665544, 0x0C040100) == 0x00005544
    assert result("VOP3", "V_LERP_U8", 0xFF0103FF, 0x01020400, 0x01010101) == 0x80020480
    assert result("VOP3", "V_ALIGNBIT_B32", 0x12345678, 0x9ABCDEF0, 8) == 0x789ABCDE
    assert result("VOP3", "V_SAD_U8", 0x01FF0010, 0x0300FF10, 5) == 5 + 2 + 255 + 255
    assert result("VOP3", "V_BFE_I32", 0x00000F00, 8, 4) == 0xFFFFFFFF
    assert result("VOP2", "V_MUL_HI_I32_I24", 0xFFFFFF, 0x7FFFFF) == 0xFFFFFFFF
    assert result("VOP1", "V_FFBH_I32", 0xFFFFFFFF) == 0xFFFFFFFF
    assert result("VOP1", "V_BFREV_B32", 0x00000001) == 0x80000000
    assert result("VOP2", "V_ASHRREV_I32", 33, 0x80000000) == 0xC0000000
    assert result("VOP2", "V_ADDC_CO_U32", 0xFFFFFFFF, 0, vcc=1) == 0
    assert result("SOP2", "S_BFE_U64", 0xFEDCBA9876543210, 4 | 8 << 16, width=64) == 0x21
    assert result("SOP1", "S_BREV_B64", 1, width=64) == 1 << 63
    assert result("SOP2", "S_PACK_LH_B32_B16", 0x11112222, 0x33334444) == 0x33332222


def test_floats() -> None:
    assert result("VOP2", "V_ADD_F32", f32(1.0), f32(2.0**-24)) == f32(1.0)
    assert result("VOP3", "V_FMA_F32", f32(1 + 2.0**-12), f32(1 + 2.0**-12), f32(-1.0)) == f32(
        2.0**-11 + 2.0**-24
    )
    assert result("VOP1", "V_RNDNE_F32", f32(0.49999997)) == 0
    assert result("VOP1", "V_RNDNE_F32", f32(-0.5)) == 0x80000000
    assert result("VOP1", "V_FRACT_F32", f32(-1e-20)) == 0x3F7FFFFF
    assert result("VOP1", "V_CVT_I32_F32", f32(-3.99)) == 0xFFFFFFFD
    assert result("VOP1", "V_CVT_U32_F32", f32(-1.0)) == 0
    assert result("VOP1", "V_CVT_F16_F32", f32(65520.0)) == 0x7C00
    assert result("VOP2", "V_MIN_F32", 0x80000000, 0) == 0x80000000
    assert result("VOP2", "V_MAX_F32", 0x80000000, 0) == 0
    assert result("VOP2", "V_MIN_F32", 0x7FC00001, f32(3.0)) == f32(3.0)
    assert result("VOP2", "V_MIN_F32", 0x7F800001, f32(3.0)) == 0x7FC00001
    assert result("VOP1", "V_FREXP_EXP_I32_F32", 1) == 2**32 - 148
    assert result("VOP3", "V_LDEXP_F32", f32(1.5), 2**32 - 149) == 2
    assert result("VOP3", "V_CVT_PKRTZ_F16_F32", f32(1 + 2.0**-11), f32(-65519.9)) == 0xFBFF3C00
