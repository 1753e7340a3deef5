"""What a call would launch on a target, said without a device: the same functions, the same choice, and nothing behind them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import aiter_prebuilt
from aiter_prebuilt import dispatch, locate
from aiter_prebuilt.contract.calls import Array, Call
from aiter_prebuilt.device import DeviceFacts
from aiter_prebuilt.errors import NoBundleError
from aiter_prebuilt.execute.array import DeviceArray
from aiter_prebuilt.execute.record import Recorder, instead
from aiter_prebuilt.execute.run import Execution, ended, failed, uploaded

if TYPE_CHECKING:
    from aiter_prebuilt._native import Operator

#: What a line calls the device: none.
NOWHERE: Final = "none: only explained"
#: As every driver aligns an allocation, and no page that a program has.
_ALIGNED: Final = 4096
_FIRST: Final = 1 << 46


@dataclass(slots=True)
class _Addresses:
    """Stands for :class:`DeviceMemory`: hands out addresses and keeps nothing."""

    device: tuple[str, int]
    last: int = field(default=_FIRST)

    def upload(self, data: bytes) -> int:
        """An address for so many bytes."""
        address = self.last
        self.last += (len(data) // _ALIGNED + 1) * _ALIGNED
        return address


class _Explainer(Recorder):
    """Notes what would be chosen, and leaves it at that; what refuses the call's arguments is raised."""

    def __call__(self, operator: Operator, tensors: list[Any], attributes: list[Any]) -> None:
        self.seen.append(self._explained(operator, tensors, attributes))


@cache
def facts_of(target: str) -> DeviceFacts:
    """The card that the bundles of ``target`` were built for, with its usual number of compute units.

    Raises:
        NoBundleError: no bundle of the target is installed.
    """
    serving = locate.for_target(target, locate.installed(), f"calls for {target}")
    opened = dispatch.bundles_of(target, f"calls for {target}")
    units = json.loads(opened[0].provenance).get("cus") if serving else None
    if not units:
        raise NoBundleError(
            f"explain calls for {target}", "its bundle does not say how many compute units its cards have",
            f"run: pip install --upgrade 'aiter-prebuilt[{locate.extra_of(target)}]'",
        )  # fmt: skip
    return DeviceFacts(opened[0].vendor, 0, target, target, target, frozenset(), units[0], 0, 0)


def explain(call: Call, target: str) -> Execution:
    """What ``call`` would launch on a card of ``target``. Tensors need no data, and nothing is wanted of a result.

    Raises:
        NoBundleError: no bundle of the target is installed.
    """
    facts = facts_of(target)
    where = (NOWHERE, target)
    function = getattr(aiter_prebuilt, call.operator, None)
    if function is None or call.operator not in aiter_prebuilt.__all__:
        return failed(call, where, f"aiter_prebuilt has no function {call.operator!r}")
    explainer = _Explainer(facts, call.compute_units)
    memory: Any = _Addresses((facts.vendor, facts.ordinal))
    try:
        arguments = {name: _placed(value, memory) for name, value in call.arguments.items()}
        with instead(function, explainer):
            function(**arguments)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what the line reports
        return failed(call, where, f"{type(error).__name__}: {error}"[:4000], explainer.chosen)
    problems: tuple[str, ...] = ()
    if not explainer.seen:
        problems = ("the function never called its operator",)
    elif not all(chosen.kernel for chosen in explainer.seen):
        # The native explanation does not raise: that all candidates are refused is an answer there.
        problems = ("NoKernelError: no kernel takes the call; aiter-prebuilt explain says why",)
    return ended(call, where, explainer.chosen, None, 0.0, problems)


def _placed(value: Any, memory: Any) -> Any:
    if isinstance(value, Array):
        return DeviceArray(
            memory, value.dtype, value.shape, strides=value.strides, offset=value.offset, slack=value.slack
        )
    return uploaded(value, memory)
