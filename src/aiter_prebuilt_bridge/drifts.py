"""Functions whose meaning changed between two AITERs under one name and one signature, which the guard (``covers``) cannot see.

Which rule an AITER follows is read from its sources, without which its JIT compiles nothing: not from its version, since a
checkout has none. Where they say neither, its own functions stay.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from aiter_prebuilt_bridge.readings import PLAIN, Reading


@dataclass(frozen=True, slots=True)
class Drift:
    """``what``: what changed. ``file``: of AITER's C++ sources. ``rules``: a rule -> words, all of which that file has then.
    ``readings``: module and name -> how ours reads a call under each rule.
    """

    what: str
    file: str
    rules: Mapping[str, tuple[str, ...]]
    readings: Mapping[tuple[str, str], Mapping[str, Reading]]


#: Scales of MXFP4. The largest size of a group is m * 2 ** e: the scale is 2 ** (e - 1) instead of 2 ** (e - 2) from m = 1.5 on
#: (November 2025), or above it (the smallest power of which it is at most 6, August 2026). One group of 128 of bf16 has m = 1.5.
FROM_HALF: Final = "from 1.5 of a power of two on"
ABOVE_HALF: Final = "above 1.5 of a power of two"
_OLDER: Final = Reading(fixed={"round_mode": 5})
_QUANT: Final = "aiter.ops.quant"
#: A token's head of zeros in a cache of fp8 with a scale of its own: 0 / 0 was NaN, which is as ours; August 2026 stores 0.
NOT_A_NUMBER: Final = "as NaN"
ZERO: Final = "as 0"
DRIFTS: Final = (
    Drift(
        "a scale of MXFP4 is the next power",
        "kernels/quant_kernels.cu",
        {
            FROM_HALF: ("auto fp4_scale = [](float tmp)", "(u32 & 0x400000)"),
            ABOVE_HALF: ("fp_f32_to_e8m0_scale<aiter::kDefaultMxScaleRoundMode, kMxDtype>(absMax)",),
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
    ),
    Drift(
        "a head of zeros is stored by reshape_and_cache_with_pertoken_quant",
        "kernels/cache_kernels.cu",
        {
            NOT_A_NUMBER: ("float k_token_scale_inverted = 1.0 / k_token_scale;",),
            ZERO: ("float k_token_scale_inverted = 1.0f / fmaxf(k_token_scale,",),
        },
        {("aiter.ops.cache", "reshape_and_cache_with_pertoken_quant"): {NOT_A_NUMBER: PLAIN}},
    ),
)


def of(module: str, name: str) -> tuple[Reading, str] | None:
    """How ours reads a call in the AITER that is here, and why none of ours can stand there; None: it means one thing."""
    for drift in DRIFTS:
        ways = drift.readings.get((module, name))
        if ways is None:
            continue
        rule = rule_of(drift.file, sources())
        if rule in ways:
            return ways[rule], ""
        return (
            PLAIN,
            f"{drift.what} {rule}, not as ours"
            if rule
            else f"csrc/{drift.file} does not say how {drift.what}",
        )
    return None


def told() -> dict[str, str]:
    """What changed -> the rule of the AITER that is here, or "" where its sources do not say."""
    return {drift.what: rule_of(drift.file, sources()) for drift in DRIFTS}


def other(name: str, package: Path) -> str:
    """Why a function of ours under this name is not that of the AITER in ``package``, or ""."""
    for drift in DRIFTS:
        rule = rule_of(drift.file, sources_of(package))
        for (_, known), ways in drift.readings.items():
            if known == name and ways.get(rule) is not PLAIN:
                return f"{drift.what} {rule}" if rule else f"csrc/{drift.file} does not say how {drift.what}"
    return ""


def sources() -> Path | None:
    """The folder of C++ sources of the AITER that is here."""
    spec = importlib.util.find_spec("aiter")
    return None if spec is None or not spec.origin else sources_of(Path(spec.origin).parent)


def sources_of(package: Path) -> Path | None:
    """Of a wheel it is beside the package, of a checkout above it."""
    root = package.parent
    return next((path for path in (root / "aiter_meta" / "csrc", root / "csrc") if path.is_dir()), None)


@cache
def rule_of(file: str, folder: Path | None) -> str:
    """The rule that ``file`` in ``folder`` follows, or ""."""
    try:
        text = "" if folder is None else (folder / file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    rules = next(drift.rules for drift in DRIFTS if drift.file == file)
    found = [rule for rule, words in rules.items() if all(word in text for word in words)]
    return found[0] if len(found) == 1 else ""
