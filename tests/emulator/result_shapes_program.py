"""A child of ``test_result_shapes.py``: the results of each form, on each target of the embedded device's torch. Prints JSON.

Arguments: the targets, in the order of the devices.
"""

from __future__ import annotations

import json
import sys

import torch
from emulator import result_shapes, result_shapes_attention, result_shapes_products, result_shapes_rows
from emulator.composed_calls.place import Place
from emulator.functions_program import listed
from emulator.result_shapes import Form

MAKERS = (
    result_shapes.row_quantisations, result_shapes.mx_formats, result_shapes_rows.norms, result_shapes_rows.elementwise,
    result_shapes_rows.routes, result_shapes_products.products, result_shapes_products.rotated, result_shapes_attention.attention,
    result_shapes_attention.recurrences, result_shapes_attention.others,
)  # fmt: skip


def problems(form: Form) -> list[str]:
    """What differs from AITER's results."""
    found = listed(form.call())
    if len(found) != len(form.results):
        return [f"{len(found)} results, {len(form.results)} of AITER's"]
    wrong = []
    for place, (one, right) in enumerate(zip(found, form.results, strict=True)):
        if one is None or right is None:
            if one is not right:
                wrong.append(f"{place}: {one} for {right}")
            continue
        strides = (
            right.strides if right.strides is not None else torch.empty(right.shape, device="meta").stride()
        )
        told = tuple(one.shape), one.dtype, one.stride()
        if told != (right.shape, right.dtype, strides):
            wrong.append(f"{place}: {told} for {(right.shape, right.dtype, strides)}")
    return wrong


def main() -> None:
    """Print a row for each form."""
    rows = []
    for number, target in enumerate(sys.argv[1:]):
        torch.cuda.set_device(number)
        for maker in MAKERS:
            for form in maker(Place(f"cuda:{number}", target, 1)):
                try:
                    wrong = problems(form)
                except Exception as error:  # noqa: BLE001 - it is what the row reports
                    wrong = [f"{type(error).__name__}: {error}"[:500]]
                rows.append(
                    {
                        "target": target,
                        "name": form.name,
                        "maker": maker.__name__,
                        "source": form.source,
                        "problems": wrong,
                    }
                )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
