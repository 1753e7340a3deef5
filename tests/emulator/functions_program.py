"""A child of ``test_torch_functions.py``: calls every public function with tensors of the embedded device's torch.

Arguments: TARGET=FILE of golden calls. Each call runs twice as a user's program has it, then once in a graph. Prints JSON.
"""

from __future__ import annotations

import io
import json
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import torch
from emulator import composed_calls
from emulator.composed_calls.place import Place

import aiter_prebuilt
from aiter_prebuilt.bundles.opening import decompress
from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.calls import Argument, Array, Call, ElementType, Want, read
from aiter_prebuilt.errors import CaptureError, NoOperatorError
from aiter_prebuilt.execute import judge

POISON = 0xA5
#: Functions that return a tensor for each result that was not asked for, after those that were (``ops/_unasked.py``).
WITH_PLACEHOLDERS = frozenset(
    {"fmha_v3_fwd", "fmha_v3_varlen_fwd", "mha_batch_prefill", "mha_fwd", "mha_varlen_fwd"}
)


def placed(value: Argument, device: str) -> Any:
    """An argument as a torch program gives it; a tensor that is no input is poisoned."""
    if isinstance(value, ElementType):
        return getattr(torch, dtype.BY_NAME[value.name].torch)
    if not isinstance(value, Array):
        return value
    kind = dtype.BY_NAME[value.dtype]
    data = bytes([POISON]) * (value.span * kind.itemsize) if value.data is None else value.data
    whole = bytearray(data + bytes(value.slack) or b"\0" * kind.itemsize)
    flat = torch.frombuffer(whole, dtype=torch.uint8).to(device)
    odd = flat[: len(flat) // kind.itemsize * kind.itemsize].view(getattr(torch, kind.torch))
    return odd.as_strided(value.shape, value.strides, value.offset if data else 0)


def dense(tensor: torch.Tensor) -> bytes:
    """The elements in the order of the shape."""
    host = tensor.detach().cpu().contiguous().reshape(-1)
    return bytes(host.view(torch.uint8).numpy()) if host.numel() else b""


def listed(result: Any) -> list[Any]:
    """What was returned, tuples in tuples laid out."""
    if isinstance(result, (tuple, list)):
        return [each for one in result for each in listed(one)]
    return [result]


def judged(call: Call, arguments: dict[str, Any], before: dict[str, bytes], result: Any) -> list[str]:
    """Everything that is wrong with the results and the arguments of one call."""
    given = [value for value in arguments.values() if isinstance(value, torch.Tensor)]
    returned = [
        each
        for each in listed(result)
        if isinstance(each, torch.Tensor) and not any(each.data_ptr() == one.data_ptr() != 0 for one in given)
    ]
    wanted = [want for want in call.wants if want.returned]
    if call.operator in WITH_PLACEHOLDERS:
        returned = returned[: len(wanted)]
    problems = (
        [] if len(returned) == len(wanted) else [f"{len(returned)} tensors returned, {len(wanted)} wanted"]
    )
    pairs: list[tuple[Want, Any]] = list(zip(wanted, returned, strict=False))
    pairs += [(want, arguments[want.name]) for want in call.wants if not want.returned]
    for want, found in pairs:
        kind = getattr(torch, dtype.BY_NAME[want.dtype].torch)
        if (found.dtype, tuple(found.shape), found.is_cuda) != (kind, want.shape, True):
            problems.append(f"{want.name}: {found.dtype} {tuple(found.shape)} on {found.device}")
            continue
        data = dense(found)
        problems += judge.values(want, data)[1]
        if not want.returned:
            problems += judge.kept(want, data, before[want.name])
    written = {want.name for want in call.wants}
    return problems + [
        f"{name}: an input was written"
        for name in before.keys() - written
        if dense(arguments[name]) != before[name]
    ]


def called(call: Call, device: str, captured: bool) -> list[str]:
    """The problems of one call on fresh tensors."""
    arguments = {name: placed(value, device) for name, value in call.arguments.items()}
    before = {name: dense(value) for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    function = getattr(aiter_prebuilt, call.operator)
    if not captured:
        return judged(call, arguments, before, function(**arguments))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(**arguments)
    changed = [
        f"{name}: written while it was captured" for name in before if dense(arguments[name]) != before[name]
    ]
    graph.replay()
    torch.cuda.synchronize()
    return changed + judged(call, arguments, before, result)


def composed(target: str, device: str, only: set[str]) -> list[dict[str, Any]]:
    """A row for each function that has no golden call."""
    rows: list[dict[str, Any]] = []
    torch.cuda.set_device(device)
    for name, call in composed_calls.CALLS.items():
        if only and name not in only:
            continue
        begun = time.monotonic()
        problems = []
        try:
            # A seed of its own: a new call changes no other's draws.
            call(Place(device, target, zlib.crc32(name.encode())))
        except NoOperatorError as error:
            if composed_calls.ONLY.get(name, target) == target:
                problems = [f"{error}"[:600]]
        except Exception as error:  # noqa: BLE001 - it is what the row reports
            problems = [f"{type(error).__name__}: {error}"[:600]]
        rows.append(
            {
                "target": target, "operator": name, "label": "composed", "way": "first", "problems": problems,
                "seconds": round(time.monotonic() - begun, 2),
            }
        )  # fmt: skip
    return rows


def main() -> None:
    """Print a row for each call."""
    rows: list[dict[str, Any]] = []
    targets = [word.partition("=")[::2] for word in sys.argv[1:] if "=" in word]
    only = {word for word in sys.argv[1:] if "=" not in word}
    seen: set[tuple[str, str, str]] = set()
    order = list(dict.fromkeys(target for target, _ in targets))
    for target, path in targets:
        device = f"cuda:{order.index(target)}"
        torch.cuda.set_device(device)
        for call in read(io.BytesIO(Path(path).read_bytes()), decompress):
            if (target, call.operator, call.label) in seen or (only and call.operator not in only):
                continue
            seen.add((target, call.operator, call.label))
            for way in ("first", "again", "captured"):
                begun = time.monotonic()
                try:
                    problems = called(call, device, way == "captured")
                except Exception as error:  # noqa: BLE001 - it is what the row reports
                    problems = [f"{type(error).__name__}: {error}"[:600]]
                    if not isinstance(error, CaptureError) and way != "captured":
                        torch.cuda.synchronize()
                rows.append(
                    {
                        "target": target, "operator": call.operator, "label": call.label, "way": way, "problems": problems,
                        "seconds": round(time.monotonic() - begun, 2),
                    }
                )  # fmt: skip
    for target in order:
        rows += composed(target, f"cuda:{order.index(target)}", only)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
