"""Find a call's launch on a target, without a device.

It runs the same functions and the same choice, and launches nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import aiter_prebuilt
from aiter_prebuilt.bundles import extras, locate
from aiter_prebuilt.contract.calls import Array, Call
from aiter_prebuilt.devices import device
from aiter_prebuilt.devices.device import DeviceFacts
from aiter_prebuilt.errors import NoBundleError
from aiter_prebuilt.execute.array import DeviceArray, dtype_named
from aiter_prebuilt.execute.layout import Layout, dense
from aiter_prebuilt.execute.record import Recorder, instead
from aiter_prebuilt.execute.run import Execution, ended, failed, uploaded
from aiter_prebuilt.launch import dispatch

if TYPE_CHECKING:
    from typing_extensions import Self

    from aiter_prebuilt._native import DecisionInfo, Operator

#: What a line calls the device: none.
NOWHERE: Final = "none: only explained"
#: As every driver aligns an allocation, and no page that a program has.
_ALIGNED: Final = 4096
_FIRST: Final = 1 << 46
#: Of a call that nothing takes, so many reasons are said.
MOST_REASONS: Final = 3


@dataclass(frozen=True, slots=True)
class Explained(Execution):
    """A call's launch, as the native choice explains it.

    ``reason``: the words of the choice, for several native calls each with its kernel; ``cost``: that of the first chosen kernel,
    None where it was not asked.
    """

    reason: str = ""
    cost: int | None = None


@dataclass(slots=True)
class _Addresses:
    """Stands for :class:`DeviceMemory`: hands out addresses and keeps nothing."""

    device: tuple[str, int]
    target: str
    last: int = field(default=_FIRST)

    def upload(self, data: bytes) -> int:
        """Return an address for so many bytes."""
        return self.reserve(len(data))

    def reserve(self, size: int) -> int:
        """Return an address for ``size`` bytes, which nobody has."""
        address = self.last
        self.last += (size // _ALIGNED + 1) * _ALIGNED
        return address


class _Described(DeviceArray):
    """A tensor that is only described: no choice reads a value, and a model's weights would fill this machine."""

    def __new__(  # the class says it
        cls,
        memory: Any,
        dtype: object,
        shape: Sequence[int],
        data: bytes | None = None,
        *,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        slack: int = 0,
    ) -> Self:
        kind = dtype_named(dtype)
        sizes = tuple(map(int, shape))
        steps = dense(sizes) if strides is None else tuple(strides)
        layout = Layout(sizes, steps, offset, kind.itemsize)
        base = memory.reserve((layout.nbytes if data is None else len(data)) + slack)
        where = (base + offset * kind.itemsize, kind.name, sizes, steps, memory.device)
        made = tuple.__new__(cls, where)
        made.memory, made.layout, made.base, made.slack = memory, layout, base, slack
        return made

    @property
    def target(self) -> str:
        """The architecture that is asked about: no driver is."""
        memory: Any = self.memory
        return str(memory.target)

    def new_empty(self, shape: Sequence[int], dtype: object = None) -> _Described:
        """Return a new dense tensor beside this one."""
        return _Described(self.memory, self.dtype if dtype is None else dtype, shape)


class _Heard:
    """A native operator whose decisions are kept."""

    def __init__(self, operator: Operator) -> None:
        self.name, self._operator = operator.name, operator
        self.decisions: list[DecisionInfo] = []

    def explain(self, *asked: Any) -> list[DecisionInfo]:
        self.decisions = self._operator.explain(*asked)
        return self.decisions


@dataclass(slots=True)
class _Explainer(Recorder):
    """Notes what would be chosen, and leaves it at that; what refuses the call's arguments is raised. ``said``: operator and
    decisions of each native call.
    """

    said: list[tuple[str, list[DecisionInfo]]] = field(default_factory=list)

    def __call__(self, operator: Operator, tensors: list[Any], attributes: list[Any]) -> None:
        heard: Any = _Heard(operator)
        self.seen.append(self._explained(heard, tensors, attributes))
        self.said.append((operator.name, heard.decisions))

    def refusals(self) -> str:
        """Explain why no kernel takes the first refused native call.

        The nearest candidate comes first.
        """
        for name, decisions in self.said:
            if not any(row["chosen"] for row in decisions):
                rows = sorted((row for row in decisions if not row["accepted"]), key=lambda row: row["near"])
                first: dict[str, str] = {}  # one candidate stands for all of a reason
                for row in rows:
                    first.setdefault(row["reason"], f"{row['kernel']}[{row['variant']}]")
                lines = [f"{candidate}: {reason}" for reason, candidate in first.items()]
                return "; ".join([f"no kernel takes the call of {name}", *lines[:MOST_REASONS]])
        return ""

    def chosen_rows(self) -> list[DecisionInfo]:
        """List the chosen decision of each native call."""
        return [row for _, decisions in self.said for row in decisions if row["chosen"]]


@cache
def facts_of(target: str) -> DeviceFacts:
    """Describe the card that the bundles of ``target`` were built for.

    It has its usual number of compute units.

    Raises:
        NoBundleError: no bundle of the target is installed.
    """
    serving = locate.for_target(target, locate.installed(), f"calls for {target}")
    opened = dispatch.bundles_of(target, f"calls for {target}")
    units = json.loads(opened[0].provenance).get("cus") if serving else None
    if not units:
        raise NoBundleError(
            f"explain calls for {target}", "its bundle does not say how many compute units its cards have",
            f"run: {extras.pip_line(extras.extra_of(target), upgrade=True)}",
        )  # fmt: skip
    return DeviceFacts(opened[0].vendor, 0, target, target, target, frozenset(), units[0], 0, 0)


def explain(call: Call, target: str) -> Execution:
    """Find a call's launch on a card of ``target``.

    Tensors need no data, and results are not compared.

    Raises:
        NoBundleError: no bundle of the target is installed.
    """
    facts = facts_of(target)
    where = (NOWHERE, target)
    function = getattr(aiter_prebuilt, call.operator, None)
    if function is None or call.operator not in aiter_prebuilt.__all__:
        return failed(call, where, f"aiter_prebuilt has no function {call.operator!r}")
    explainer = _Explainer(facts, call.compute_units)
    memory: Any = _Addresses((facts.vendor, facts.ordinal), target)
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
        problems = (f"NoKernelError: {explainer.refusals()}",)
    rows = explainer.chosen_rows()
    several = len(rows) > 1
    reason = "; ".join(f"{row['kernel']}: {row['reason']}" if several else row["reason"] for row in rows)
    done = ended(call, where, explainer.chosen, None, 0.0, problems)
    same: dict[str, Any] = {each.name: getattr(done, each.name) for each in fields(Execution)}
    return Explained(**same, reason=reason, cost=rows[0]["cost"] if rows else None)


def native_calls(call: Call, facts: DeviceFacts) -> list[tuple[Operator, list[Any], list[Any]]]:
    """List the native calls that a public function makes on a device: operator, tensors, attributes. Nothing is launched.

    Raises:
        Exception: the function refuses the call.
    """
    found: list[tuple[Operator, list[Any], list[Any]]] = []
    memory: Any = _Addresses((facts.vendor, facts.ordinal), facts.target)
    arguments = {name: _placed(value, memory) for name, value in call.arguments.items()}

    def note(operator: Operator, tensors: list[Any], attributes: list[Any]) -> None:
        found.append((operator, tensors, attributes))

    function = getattr(aiter_prebuilt, call.operator)
    with device.described(facts), instead(function, note):
        function(**arguments)
    return found


def _placed(value: Any, memory: Any) -> Any:
    if isinstance(value, Array):
        return _Described(
            memory, value.dtype, value.shape, strides=value.strides, offset=value.offset, slack=value.slack
        )
    return uploaded(value, memory)
