"""A candidate that a user named: found, or refused with the condition."""

from __future__ import annotations

from typing import Any

import pytest

from aiter_prebuilt.errors import ArgumentError, NoKernelError
from aiter_prebuilt.inspection.candidates import pick, type_words


def decision(kernel: str, variant: str, **more: Any) -> Any:
    plain = {"accepted": True, "chosen": False, "cost": 5, "near": -1, "reason": "", "backend": "hip"}
    return {"kernel": kernel, "variant": variant, "types": {"T": "bf16", "Q": "e4m3fn"}, **plain, **more}


def refused(kernel: str, variant: str, reason: str, near: int) -> Any:
    return decision(kernel, variant, accepted=False, cost=None, reason=reason, near=near)


ROWS = [
    decision("fast", "64", cost=9), decision("fast", "128", cost=7), decision("any", "64", chosen=True),
    refused("small", "16", "needs M <= 16, and M = 17", 0), refused("small", "16", "made for other types", 1),
    refused("small", "32", "needs M <= 8, and M = 17", 2), decision("ghost", "1", backend="", accepted=False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "variant", "found"),
    [
        (None, None, "any[64]"), ("any", None, "any[64]"), ("fast", None, "fast[128]"), ("fast", "64", "fast[64]"),
        (None, "128", "fast[128]"),
    ],
)  # fmt: skip
def test_the_named_one_is_picked(kernel: str | None, variant: str | None, found: str) -> None:
    picked = pick("op", ROWS, kernel, variant)
    assert f"{picked['kernel']}[{picked['variant']}]" == found


@pytest.mark.parametrize(
    ("kernel", "variant", "found", "fix"),
    [
        ("fasd", None, "op has no kernel 'fasd'", "Did you mean 'fast'? List all: aiter-prebuilt list --operator op"),
        ("fast", "129", "op has no variant '129'", "Did you mean '128'? List all: aiter-prebuilt list --operator op"),
        ("ghost", None, "op has no kernel 'ghost'", "List all: aiter-prebuilt list --operator op"),
        (None, "64", "several kernels have it: fast, any", "Name one of them too: --kernel fast"),
    ],
)  # fmt: skip
def test_a_wrong_name_says_what_was_meant(
    kernel: str | None, variant: str | None, found: str, fix: str
) -> None:
    with pytest.raises(ArgumentError) as error:
        pick("op", ROWS, kernel, variant)
    assert (error.value.found, error.value.fix) == (found, fix)


def test_a_refused_one_says_the_condition() -> None:
    with pytest.raises(NoKernelError) as error:
        pick("op", ROWS, "small", "16")
    assert error.value.asked == "run small[16] of op"
    assert error.value.found == "it refuses this call: needs M <= 16, and M = 17"
    with pytest.raises(NoKernelError) as error:
        pick("op", ROWS, "small", None)
    assert error.value.reasons == (
        "small[16]: needs M <= 16, and M = 17",
        "small[32]: needs M <= 8, and M = 17",
    )


def test_types_are_written_as_tables_write_them() -> None:
    assert type_words(ROWS[0]) == "bf16_e4m3fn"
