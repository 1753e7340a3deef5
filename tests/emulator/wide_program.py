"""Calls with one tensor at a time spread over more than 2^31 elements: ``python wide_program.py FILE...`` prints a line for
each. The device's memory is sparse, so that gigabytes between two rows cost nothing. ``--tensor NAME``: of this one alone.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiter_prebuilt
from aiter_prebuilt import errors
from aiter_prebuilt.contract.calls import Array, Call, read
from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.devices import device
from aiter_prebuilt.devices.device_memory import DeviceMemory
from aiter_prebuilt.execute import judge
from aiter_prebuilt.execute.array import DeviceArray
from aiter_prebuilt.execute.layout import Layout
from aiter_prebuilt.execute.record import instead
from aiter_prebuilt.execute.run import uploaded
from aiter_prebuilt.launch import dispatch

FAR = 1 << 31
#: Bytes of one tensor at most: the device has 16 GiB. Of elements of 8 bytes these are fewer than 2^31.
ROOM = 12 << 30
#: Tensors that have the stride of another: they are spread together.
ALIKE = {("pa_fwd_asm", "K"): ("V",)}
#: What a call is refused with: a tensor whose strides an operator does not take, sizes that no kernel does.
REFUSED = (errors.ArgumentError, errors.NoKernelError)


class Wide(DeviceArray):
    """A tensor whose first dim has a stride of its own, in elements; only its elements are written and read."""

    step: int

    @property
    def parts(self) -> list[tuple[int, Layout]]:
        """Address and layout of what lies below each index of the first dim."""
        item = BY_NAME[self.dtype].itemsize
        below = Layout(self.shape[1:], self[3][1:], 0, item)
        return [(self.base + index * self.step * item, below) for index in range(self.shape[0])]

    def read(self) -> bytes:
        """The elements, dense."""
        return b"".join(below.gather(self.memory.download(at, below.nbytes)) for at, below in self.parts)


def spread(value: Array, memory: DeviceMemory) -> Wide:
    """The same elements, each index of the first dim far from the others."""
    item, count = BY_NAME[value.dtype].itemsize, value.shape[0]
    step = -(-min(FAR, ROOM // item) // (count - 1) // 4096) * 4096 + 4096
    below = Layout(value.shape[1:], value.strides[1:], 0, item)
    size = (step * (count - 1)) * item + below.nbytes + value.slack + 4096
    base = ctypes.c_uint64()
    memory._call("hipMalloc", ctypes.byref(base), ctypes.c_size_t(size))
    memory._held.append(base.value)
    strides = (step, *value.strides[1:])
    made = tuple.__new__(Wide, (base.value, value.dtype, value.shape, strides, memory.device))
    made.memory, made.base, made.step, made.slack = memory, base.value, step, 0
    data = value.data
    for index, (at, _) in enumerate(made.parts):
        first = (value.offset + index * value.strides[0]) * item
        held = bytes([0xFF]) * below.nbytes if data is None else data[first : first + below.nbytes]
        memory.write(at, held)
    return made


def launched(units: int, operator: Any, tensors: list[Any], attributes: list[Any]) -> None:
    """Call a native operator, as if the device had so many compute units unless that is 0."""
    (dispatch.operator_as_if(operator.name, units) if units else operator)(*tensors, *attributes)


def elements(found: Any) -> bytes:
    return found.read() if isinstance(found, Wide) else found.layout.gather(found.read())


def executed(call: Call, name: str, facts: Any, path: str) -> str:
    """ "right", "refused: ..." or what is wrong."""
    function, memory = getattr(aiter_prebuilt, call.operator), DeviceMemory(facts, path)
    try:
        far = (name, *ALIKE.get((call.operator, name), ()))
        arguments = {key: uploaded(value, memory) for key, value in call.arguments.items() if key not in far}
        for each in far:
            value = call.arguments[each]
            assert isinstance(value, Array)
            arguments[each] = spread(value, memory)
        with instead(function, partial(launched, call.compute_units)):
            result = function(**arguments)
        memory.synchronize()
        given = [each for each in arguments.values() if isinstance(each, DeviceArray)]
        listed = (
            list(result)
            if isinstance(result, (tuple, list)) and not isinstance(result, DeviceArray)
            else [result]
        )
        returned = [each for each in listed if each is not None and not any(each is other for other in given)]
        wants = [want for want in call.wants if want.returned]
        pairs = [
            *zip(wants, returned, strict=True),
            *((want, arguments[want.name]) for want in call.wants if not want.returned),
        ]
        wrong = [line for want, found in pairs for line in judge.values(want, elements(found))[1]]
        return "; ".join(wrong) or "right"
    except REFUSED as error:
        return f"refused: {type(error).__name__}"
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what the line says
        return f"{type(error).__name__}: {error}"[:400]
    finally:
        with suppress(errors.DriverError):  # after a fault nothing can be freed
            memory.close()


def wide_enough(value: object) -> bool:
    return (
        isinstance(value, Array)
        and len(value.shape) > 1
        and value.shape[0] > 1
        and math.prod(value.shape[1:]) > 0
        and value.strides[0] > 0
        and min(value.strides) >= 0
    )


def main() -> None:
    probe = device.probe("amd")
    (facts,) = probe.devices
    asked = argparse.ArgumentParser()
    asked.add_argument("--tensor")
    asked.add_argument("files", nargs="+")
    told = asked.parse_args()
    for file in told.files:
        with Path(file).open("rb") as source:
            for call in read(source):
                for name, value in call.arguments.items():
                    if told.tensor in (None, name) and wide_enough(value):
                        came = executed(call, name, facts, probe.path)
                        print(json.dumps([call.operator, name, call.label, came]), flush=True)


if __name__ == "__main__":
    main()
