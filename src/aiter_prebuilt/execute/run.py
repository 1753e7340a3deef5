"""One call on one device: upload, call the public function, download, judge. Everything that is wrong becomes words."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import aiter_prebuilt
from aiter_prebuilt.contract.calls import Argument, Array, Call, ElementType, Want
from aiter_prebuilt.contract.judging import judging
from aiter_prebuilt.contract.version import VERSION
from aiter_prebuilt.devices.device import DeviceFacts
from aiter_prebuilt.devices.device_memory import DeviceMemory
from aiter_prebuilt.errors import DriverError
from aiter_prebuilt.execute import judge
from aiter_prebuilt.execute.array import DeviceArray
from aiter_prebuilt.execute.record import Chosen, Recorder, instead

#: Of the schema ``schemas/execute.json``; raised when a field changes its meaning or goes.
EDITION: Final = 3
EMBEDDED: Final = f"aiter-prebuilt-emulator {VERSION}"


@dataclass(frozen=True, slots=True)
class Execution:
    """One call on one device, as a line says it. ``worst``: the share of the allowed error that was used for certain (``judge``;
    above 1 is wrong); None: nothing could be compared, or something is infinitely far. ``seconds``: loading included.
    """

    operator: str
    label: str
    device: str
    target: str
    kernel: str
    variant: str
    backend: str
    launched: tuple[str, ...]
    recipes: tuple[str, ...]
    reference: str
    judge: str
    worst: float | None
    seconds: float
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Executed, and right."""
        return not self.problems and self.worst is not None

    def line(self) -> dict[str, Any]:
        """Return the row that ``python -m aiter_prebuilt.execute`` prints.

        Its schema is ``schemas/execute.json``.
        """
        return {"version": EDITION, **asdict(self)}


def failed(
    call: Call, where: tuple[str, str], problem: str, chosen: Chosen | None = None, seconds: float = 0.0
) -> Execution:
    """Build the result of a call that gave nothing to compare."""
    return ended(call, where, chosen or Chosen(), None, seconds, (problem,))


def ended(
    call: Call,
    where: tuple[str, str],
    chosen: Chosen,
    worst: float | None,
    seconds: float,
    problems: tuple[str, ...],
) -> Execution:
    """Build the result of an executed call.

    ``where``: device and target.
    """
    return Execution(
        call.operator, call.label, *where, chosen.kernel, chosen.variant, chosen.backend, chosen.launched,
        chosen.recipes, call.reference, own_state(), worst, seconds, problems,
    )  # fmt: skip


def named(facts: DeviceFacts, path: str) -> str:
    """Name a device as a proof does.

    The emulator has its own name, whatever card it stands for; ``path`` is the driver's.
    """
    if embedded(path):
        return f"{facts.target} of {EMBEDDED}"
    return f"{facts.name}, driver {facts.driver_version}"


@cache
def own_state() -> str:
    """Return this program's own state (``contract/judging.py``)."""
    return judging(Path(__file__).resolve().parents[1])


@cache
def embedded(path: str) -> bool:
    """Is this driver library the emulator? A card's has no such symbol."""
    try:
        return hasattr(ctypes.CDLL(path), "apb_emulator_version")
    except OSError:
        return False


def run(call: Call, facts: DeviceFacts, path: str, told: Callable[[Chosen], None] | None = None) -> Execution:
    """Execute one call; ``path`` is the driver's (``DriverFacts.path``), ``told`` hears what was chosen before it is launched."""
    where = (named(facts, path), facts.target)
    function = getattr(aiter_prebuilt, call.operator, None)
    if function is None or call.operator not in aiter_prebuilt.__all__:
        return failed(call, where, f"aiter_prebuilt has no function {call.operator!r}")
    recorder = Recorder(facts, call.compute_units, told)
    started = time.perf_counter()
    memory = None
    try:
        memory = DeviceMemory(facts, path)
        arguments = {name: uploaded(value, memory) for name, value in call.arguments.items()}
        started = time.perf_counter()
        with instead(function, recorder):
            result = function(**arguments)
        memory.synchronize()
        seconds = time.perf_counter() - started
        worst, problems = judged(call, arguments, result)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what the line reports
        seconds = time.perf_counter() - started
        return failed(call, where, f"{type(error).__name__}: {error}"[:4000], recorder.chosen, seconds)
    finally:
        if memory is not None:
            with suppress(DriverError):  # after a fault nothing can be freed
                memory.close()
    if not recorder.seen:
        problems.append("the function never called its operator")
    far = worst if math.isfinite(worst) else None
    return ended(call, where, recorder.chosen, far, seconds, tuple(problems))


def uploaded(value: Argument, memory: DeviceMemory) -> Any:
    """Return an argument as the function takes it."""
    if isinstance(value, Array):
        return DeviceArray(
            memory,
            value.dtype,
            value.shape,
            value.data,
            strides=value.strides,
            offset=value.offset,
            slack=value.slack,
        )
    return value.name if isinstance(value, ElementType) else value


def judged(call: Call, arguments: dict[str, Any], result: Any) -> tuple[float, list[str]]:
    """Judge all results: the worst error, and all problems.

    Values, gaps, elements that must stay, inputs.
    """
    worst, problems = 0.0, []
    written = {want.name for want in call.wants if not want.returned}
    for name, value in call.arguments.items():
        if isinstance(value, Array) and name not in written:
            tensor = arguments[name]
            problems += judge.untouched(name, tensor.read(), value.data or tensor.poison())
    behind = (
        name
        for name, tensor in arguments.items()
        if isinstance(tensor, DeviceArray) and tensor.changed_behind()
    )
    problems += [f"{name}: written behind its end" for name in behind]
    for want, found in _tensors(call, arguments, result, problems):
        given = None if want.returned else call.arguments[want.name]
        before = given.data if isinstance(given, Array) else None
        far, wrong = _judged(want, found, before)
        worst = max(worst, far)
        problems += wrong
    return worst if call.wants else math.inf, problems or ([] if call.wants else ["the call wants nothing"])


def _tensors(
    call: Call, arguments: dict[str, Any], result: Any, problems: list[str]
) -> Iterator[tuple[Want, DeviceArray]]:
    """Each want with its tensor; what has none, or is of another shape or type, is a problem."""
    given = [value for value in arguments.values() if isinstance(value, DeviceArray)]
    # What AITER returns beside writing it is the same tensor; it is judged once, as the argument.
    results = [found for found in _listed(result) if not any(found is each for each in given)]
    returned = [want for want in call.wants if want.returned]
    if len(results) != len(returned):
        problems.append(f"it returned {len(results)} tensors, {len(returned)} are wanted")
    pairs: list[tuple[Want, Any]] = list(zip(returned, results, strict=False))
    pairs += [(want, arguments.get(want.name)) for want in call.wants if not want.returned]
    for want, found in pairs:
        if not isinstance(found, DeviceArray):
            problems.append(f"{want.name}: {type(found).__name__} instead of a tensor")
        elif (found.dtype, found.shape) != (want.dtype, want.shape):
            has, needs = f"{found.dtype}{list(found.shape)}", f"{want.dtype}{list(want.shape)}"
            problems.append(f"{want.name}: {has} instead of {needs}")
        else:
            yield want, found


def _listed(result: Any) -> Sequence[Any]:
    """Return the tensors that a function returned.

    None, one, or several; an absent one of several is None.
    """
    if result is None or isinstance(result, DeviceArray):
        return [] if result is None else [result]
    return [each for each in result if each is not None] if isinstance(result, (tuple, list)) else [result]


def _judged(want: Want, found: DeviceArray, before: bytes | None) -> tuple[float, list[str]]:
    now = found.read()
    old = found.poison() if before is None else before
    elements = found.layout.gather(now)
    far, wrong = judge.values(want, elements)
    wrong += judge.gaps(want.name, found.layout, now, old)
    return far, wrong + judge.kept(want, elements, found.layout.gather(old))
