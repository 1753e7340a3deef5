"""Functions of AITER that changed their meaning under one name and one signature, which ``signature_check`` cannot see.

The installed AITER's own files say which rule it follows: its JIT compiles its sources, and it loads the objects in its tree. A
version says nothing, since a checkout has none. Where the files say neither rule, AITER's own functions stay.

Both trees were read name by name (November 2025: e6015f3a6a, August 2026: e4048607a5): each Python definition, what it calls, the
kernels, the objects and the tests. ``docs/bridge.md`` has the table, with the changes that need no rule.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from aiter_prebuilt_bridge.signature_map import ANY, PLAIN, Reading


@dataclass(frozen=True, slots=True)
class Marks:
    """Texts that tell a rule: a file follows it if it has all of ``has``, and none of ``lacks``."""

    has: tuple[str, ...]
    lacks: tuple[str, ...] = ()

    def match(self, text: str) -> bool:
        """Tell whether a file with this ``text`` follows the rule."""
        return all(each in text for each in self.has) and not any(each in text for each in self.lacks)


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A meaning that changed.

    Args:
        what: subject of a sentence that the name of a rule ends.
        files: where the rule is read, as paths of a checkout; the first that exists is the one.
        rules: name of a rule -> how to recognise it.
        readings: module and name -> rule -> how ours reads a call. A rule that is missing: ours cannot serve it.
    """

    what: str
    files: tuple[str, ...]
    rules: Mapping[str, Marks]
    readings: Mapping[tuple[str, str], Mapping[str, Reading]]


_QUANT: Final = "aiter.ops.quant"
_TRITON: Final = "aiter.ops.triton."

#: Scales of MXFP4. The largest size of a group is m * 2 ** e: the scale is 2 ** (e - 1) instead of 2 ** (e - 2) from m = 1.5 on
#: (November 2025), or above it (the smallest power of which it is at most 6, August 2026). One group of 128 of bf16 has m = 1.5.
FROM_HALF: Final = "from 1.5 of a power of two on"
ABOVE_HALF: Final = "above 1.5 of a power of two"
_OLDER: Final = Reading(fixed={"round_mode": 5})
SCALES: Final = Change(
    "a scale of MXFP4 is the next power",
    ("csrc/kernels/quant_kernels.cu",),
    {
        FROM_HALF: Marks(("auto fp4_scale = [](float tmp)", "(u32 & 0x400000)")),
        ABOVE_HALF: Marks(("fp_f32_to_e8m0_scale<aiter::kDefaultMxScaleRoundMode, kMxDtype>(absMax)",)),
    },
    {
        (_QUANT, "dynamic_per_group_scaled_quant_fp4"): {
            FROM_HALF: PLAIN,
            ABOVE_HALF: Reading(ours="dynamic_per_group_scaled_quant"),
        },
        (_QUANT, "dynamic_per_group_scaled_quant"): {ABOVE_HALF: PLAIN},
        (_QUANT, "per_1x32_f4_quant_hip"): {FROM_HALF: _OLDER, ABOVE_HALF: PLAIN},
        (_QUANT, "per_1x32_mx_quant_hip"): {ABOVE_HALF: PLAIN},
        (_QUANT, "get_hip_quant"): {FROM_HALF: _OLDER, ABOVE_HALF: PLAIN},
        (_QUANT, "per_1x32_f4_quant"): {FROM_HALF: _OLDER, ABOVE_HALF: PLAIN},
        (_QUANT, "get_torch_quant"): {FROM_HALF: _OLDER, ABOVE_HALF: PLAIN},
    },
)

#: A token's head of zeros in a cache of fp8 with a scale of its own: 0 / 0 was NaN; August 2026 divides by at least 1e-12.
NOT_A_NUMBER: Final = "as NaN"
ZERO: Final = "as 0"
ZERO_HEADS: Final = Change(
    "a head of zeros is stored by reshape_and_cache_with_pertoken_quant",
    ("csrc/kernels/cache_kernels.cu",),
    {
        NOT_A_NUMBER: Marks(("float k_token_scale_inverted = 1.0 / k_token_scale;",)),
        ZERO: Marks(("float k_token_scale_inverted = 1.0f / fmaxf(k_token_scale,",)),
    },
    {
        ("aiter.ops.cache", "reshape_and_cache_with_pertoken_quant"): {
            NOT_A_NUMBER: PLAIN,
            ZERO: Reading(fixed={"clamp_scale": True}),
        }
    },
)

#: Commit 9d7ca8b583 of February 2026 exchanged the objects. Docstring and comments of August 2026 still say (32, 16); its test
#: hands over (16, 16). Between the two an object of each layout lay in the tree, which a table with 192x128 and 112x256 shows.
BY_32: Final = "(32, 16)"
BY_16: Final = "(16, 16)"
_OBJECT: Final = "I8gemm_bf16_perTokenI8_BpreShuffle_"
WEIGHTS: Final = Change(
    "the weight of gemm_a8w8_ASM has the layout",
    ("hsa/gfx942/i8gemm/i8gemm_bf16_perTokenI8.csv",),
    {
        BY_32: Marks((f"{_OBJECT}192x128.co",), (f"{_OBJECT}112x256.co",)),
        BY_16: Marks((f"{_OBJECT}160x128.co",), (f"{_OBJECT}192x128.co",)),
    },
    {("aiter.ops.gemm_op_a8w8", "gemm_a8w8_ASM"): {BY_32: PLAIN}},
)

#: The largest size of a row of zeros was 0, so that its codes are 0 / 0; August 2026 begins with 1e-10, as ours does for both.
NO_CODES: Final = "with codes of no meaning"
ZERO_CODES: Final = "with codes of 0"
_ENABLED: Final = {"smooth_scale_map_hash": (None,), "enable_ps": (ANY,)}
ZERO_ROWS: Final = Change(
    "a row of zeros is written by smooth_per_token_scaled_quant",
    ("csrc/kernels/quant_kernels.cu",),
    {
        NO_CODES: Marks(("    float absMax   = 0.f;\n    if(vec_idx < num_vecs)",)),
        ZERO_CODES: Marks(("    float absMax   = 1e-10f;",)),
    },
    {
        (_QUANT, "smooth_per_token_scaled_quant"): dict.fromkeys(
            (NO_CODES, ZERO_CODES), Reading(nothing=_ENABLED)
        )
    },
)

#: MXFP4 codes of AITER's Triton kernels. One value of 64 of bf16 lies halfway.
AWAY: Final = "away from zero"
TO_EVEN: Final = "to the even one"
_HALF_UP: Final = Marks(("+ 1) >> 1, 0x7)",), ("mant_odd",))
_HALF_EVEN: Final = Marks(("normal_x += mant_odd",), ("+ 1) >> 1, 0x7)",))
_BLOCKS: Final = {"block_size_m": (ANY,), "block_size_n": (ANY,)}
CODES: Final = Change(
    "an MXFP4 code of AITER's Triton kernels is rounded halfway",
    ("aiter/ops/triton/_triton_kernels/quant/quant.py", "aiter/ops/triton/_triton_kernels/quant.py"),
    {AWAY: _HALF_UP, TO_EVEN: _HALF_EVEN},
    {
        **{
            (f"{_TRITON}{place}", "dynamic_mxfp4_quant"): {
                AWAY: PLAIN,
                TO_EVEN: Reading(ours="adapted.dynamic_mxfp4_quant_to_even"),
            }
            for place in ("quant", "quant.quant")
        },
        **{
            (f"{_TRITON}{place}", "fused_flatten_mxfp4_quant"): {
                AWAY: Reading(ours="adapted.fused_flatten_mxfp4_quant"),
                TO_EVEN: Reading(ours="adapted.fused_flatten_mxfp4_quant_to_even"),
            }
            for place in ("fused_mxfp4_quant", "quant.fused_mxfp4_quant")
        },
        (f"{_TRITON}moe.moe_op_gemm_a4w4", "mxfp4_quant"): {
            AWAY: Reading(ours="dynamic_mxfp4_quant", nothing=_BLOCKS),
            TO_EVEN: Reading(ours="adapted.dynamic_mxfp4_quant_to_even", nothing=_BLOCKS),
        },
    },
)

#: The kernel of its own that ``fp4_utils`` has. In the same commits the function began to cut scales that are not shuffled.
PADDED: Final = "away from zero, and scales have rows up to a multiple of 256"
CUT: Final = "to the even one, and scales have the input's rows"
SCALES_CUT: Final = "blockscale_e8m0[:M, :scaleN_valid].contiguous()"
UTILITY: Final = Change(
    "an MXFP4 code of fp4_utils is rounded halfway",
    ("aiter/utility/fp4_utils.py",),
    {
        PADDED: Marks(
            _HALF_UP.has, (SCALES_CUT,)
        ),  # codes of its torch functions were always rounded to even
        CUT: Marks((*_HALF_EVEN.has, SCALES_CUT), _HALF_EVEN.lacks),
    },
    {
        ("aiter.utility.fp4_utils", "dynamic_mxfp4_quant"): {
            PADDED: Reading(ours="adapted.dynamic_mxfp4_quant_padded"),
            CUT: Reading(ours="adapted.dynamic_mxfp4_quant_typed"),
        },
        (_QUANT, "get_triton_quant"): {
            PADDED: Reading(ours="adapted.get_triton_quant_padded"),
            CUT: Reading(ours="adapted.get_triton_quant_to_even"),
        },
    },
)

CHANGES: Final = (SCALES, ZERO_HEADS, WEIGHTS, ZERO_ROWS, CODES, UTILITY)


def of(module: str, name: str) -> tuple[Reading, str] | None:
    """Find how ours reads a function that changed its meaning.

    The second value says why ours cannot serve it. None: the name never changed its meaning.
    """
    for change in CHANGES:
        ways = change.readings.get((module, name))
        if ways is None:
            continue
        rule = rule_of(change, installed_package())
        if rule in ways:
            return ways[rule], ""
        return PLAIN, f"{change.what} {rule}, not as ours" if rule else _unknown(change)
    return None


def rules() -> dict[str, str]:
    """Map each change to the rule of the installed AITER.

    "" where its files do not say.
    """
    return {change.what: rule_of(change, installed_package()) for change in CHANGES}


def why_other(name: str, package: Path) -> str:
    """Why a function of ours under this name is not that of the AITER in ``package``, or ""."""
    for change in CHANGES:
        rule = rule_of(change, package)
        for (_, known), ways in change.readings.items():
            if known == name and not _is_ours(ways.get(rule)):
                return f"{change.what} {rule}" if rule else _unknown(change)
    return ""


def _is_ours(reading: Reading | None) -> bool:
    """Is it our function of that name, called word by word? Options that ours lack are compared elsewhere."""
    return reading is not None and not (reading.ours or reading.fixed or reading.names or reading.differs)


def _unknown(change: Change) -> str:
    return f"{change.files[0]} does not say which rule AITER follows: {change.what} ..."


def installed_package() -> Path | None:
    """Return the folder of the installed package ``aiter``."""
    spec = importlib.util.find_spec("aiter")
    return None if spec is None or not spec.origin else Path(spec.origin).parent


def _paths(file: str, package: Path) -> tuple[Path, ...]:
    """List the places where a checkout's file may be.

    Sources and objects of a wheel lie in a folder beside the package.
    """
    root = package.parent
    if file.startswith("aiter/"):
        return (package / file.removeprefix("aiter/"),)
    return root / "aiter_meta" / file, root / file


@cache
def rule_of(change: Change, package: Path | None) -> str:
    """Return the rule that the AITER in ``package`` follows, or ""."""
    places = [] if package is None else [path for file in change.files for path in _paths(file, package)]
    for path in places:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found = [rule for rule, marks in change.rules.items() if marks.match(text)]
        return found[0] if len(found) == 1 else ""
    return ""
