"""One named candidate of a call: find it, say why it refuses, and make an operator that launches it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.contract.error_text import did_you_mean
from aiter_prebuilt.devices import native
from aiter_prebuilt.errors import ArgumentError, NoKernelError

if TYPE_CHECKING:
    from aiter_prebuilt._native import Bundle, DecisionInfo, Operator

#: Origin of the row that forces a candidate; a refusal would name it.
_ORIGIN: Final = "the named candidate"


def label(decision: DecisionInfo) -> str:
    """Return a candidate as errors and tables write it: ``kernel[variant]``."""
    return f"{decision['kernel']}[{decision['variant']}]"


def type_words(decision: DecisionInfo) -> str:
    """Return the types of a candidate as a tuned table writes them: ``bf16_e4m3fn``."""
    return "_".join(decision["types"].values())


def pick(
    operator: str, decisions: Sequence[DecisionInfo], kernel: str | None, variant: str | None
) -> DecisionInfo:
    """Pick the candidate that a user named; the chosen one where nothing was named.

    Args:
        operator: its name, for errors.
        decisions: what ``Operator.explain`` returned for the call.
        kernel: name of a kernel, or None for any.
        variant: name of a variant, or None for the cheapest that is accepted.

    Raises:
        ArgumentError: no candidate has the name, or several kernels have the variant.
        NoKernelError: the candidate refuses the call; the text quotes the condition.
    """
    mine = [each for each in decisions if each["backend"]]  # rows of user tables may name what no bundle has
    if kernel is not None:
        mine = _named(operator, mine, "kernel", kernel)
    if variant is not None:
        mine = _named(operator, mine, "variant", variant)
    accepted = [each for each in mine if each["accepted"]]
    if not accepted:
        raise _refused(operator, mine, kernel, variant)
    kernels = list(dict.fromkeys(each["kernel"] for each in accepted))
    if kernel is None and variant is not None and len(kernels) > 1:
        raise ArgumentError(
            f"run the variant {variant} of {operator}", f"several kernels have it: {', '.join(kernels)}",
            f"Name one of them too: --kernel {kernels[0]}",
        )  # fmt: skip
    chosen = next((each for each in accepted if each["chosen"]), None)
    return chosen or min(accepted, key=lambda each: each["cost"] or 0)


def _named(operator: str, mine: Sequence[DecisionInfo], kind: str, name: str) -> list[DecisionInfo]:
    """Keep the candidates whose kernel or variant has this name."""
    known = list(dict.fromkeys(_field(each, kind) for each in mine))
    if name not in known:
        hint = f"{did_you_mean(name, known)}List all: aiter-prebuilt list --operator {operator}"
        raise ArgumentError("", f"{operator} has no {kind} {name!r}", hint)
    return [each for each in mine if _field(each, kind) == name]


def _field(decision: DecisionInfo, kind: str) -> str:
    return decision["kernel"] if kind == "kernel" else decision["variant"]


def _refused(
    operator: str, mine: Sequence[DecisionInfo], kernel: str | None, variant: str | None
) -> NoKernelError:
    """Build the error for a candidate that does not take the call: the nearest of those that the user named."""
    rows = sorted(mine, key=lambda each: each["near"])
    if not rows:
        return NoKernelError(operator, "it has no candidate here", "List all: aiter-prebuilt list")
    first: dict[str, DecisionInfo] = {}  # of one kernel and variant for several types, the nearest says why
    for each in rows:
        first.setdefault(label(each), each)
    named = " ".join(filter(None, (kernel, variant)))
    asked = f"run {label(rows[0]) if len(first) == 1 else named} of {operator}" if named else operator
    if len(first) == 1:
        fix = "Change the call, or name another candidate"
        return NoKernelError(asked, f"it refuses this call: {rows[0]['reason']}", fix)
    reasons = [f"{name}: {each['reason']}" for name, each in first.items()]
    return NoKernelError(
        asked, f"all {len(first)} candidates refuse this call", "Change one of these", reasons
    )


def forced(operator: str, decision: DecisionInfo, bundles: tuple[Bundle, ...], units: int) -> Operator:
    """Make a native operator that launches one candidate.

    A table without columns names the candidate for every call. Ask ``explain`` first whether it accepts the call: a row whose
    candidate refuses is passed over.

    Args:
        operator: its name.
        decision: the candidate.
        bundles: those that serve the device.
        units: compute units of the device.
    """
    row = (_ORIGIN, units, (), decision["kernel"], decision["variant"], type_words(decision))
    served: Any = (bundles, units, (((), (row,), False),))
    made: Operator = native.module().Operator(operator, lambda _vendor, _ordinal: served)
    return made
